// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --ram --cpus --cpuset --swap`: limits for a standing server, as `wringer squeeze` sets them for a command.

use crate::commands::limits::Limits;
use crate::exit::Failure;
use crate::terminal;
use ::sandbox::{Sandbox, StartOptions};
use run::Run;
use squeeze::limits::{self, Asked, OptionNames, Plan};

/// Plans the limits on this machine, and prints the notes.
///
/// # Errors
/// Exit code 3: this machine cannot set them.
pub fn checked(limits: &Limits) -> Result<Asked, Failure> {
    let asked = limits.asked();
    plan(&asked)?.notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    Ok(asked)
}

fn plan(asked: &Asked) -> Result<Plan, squeeze::Error> {
    limits::plan(asked, OptionNames::SERVER)
}

/// Makes the cgroups as steps of the server's run. Returns how to start the server, and its limits for people.
///
/// # Errors
/// Finished steps are undone with the run.
pub fn apply(
    run: &mut Run,
    asked: &Asked,
    sandbox: &Sandbox,
    start: StartOptions,
) -> Result<(StartOptions, Option<String>), squeeze::Error> {
    if asked.is_nothing() {
        return Ok((start, None));
    }
    if asked.ram.is_some() {
        // Pages that are in the page cache already would not be charged to the server.
        limits::evict(&sandbox.data());
    }
    let made = plan(asked)?.apply(run, "server")?;
    let start = StartOptions { cgroups: made.folders().to_vec(), affinity: made.affinity(), ..start };
    Ok((start, Some(made.describe())))
}
