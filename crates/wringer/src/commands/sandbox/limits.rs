// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --ram --cpus --cpuset --swap`: a standing server with less than the machine has, as `wringer squeeze` gives a command.

use crate::commands::limits::Limits;
use crate::exit::Failure;
use crate::terminal;
use ::sandbox::{Sandbox, StartOptions};
use run::Run;
use squeeze::limits::{self, Asked, OptionNames, Plan};

/// What is asked, on a machine that was looked at; says what should be known of it.
///
/// # Errors
/// Exit code 3: it cannot be had.
pub fn checked(limits: &Limits) -> Result<Asked, Failure> {
    let asked = limits.asked();
    plan(&asked)?.notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    Ok(asked)
}

fn plan(asked: &Asked) -> Result<Plan, squeeze::Error> {
    limits::plan(asked, OptionNames::SERVER)
}

/// Makes what the server is to be started in, as steps of its run. Returns how it is to be started, and in words what it gets.
///
/// # Errors
/// What there is already goes with the run.
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
        // what is in the page cache from outside would be a free hit inside
        limits::evict(&sandbox.data());
    }
    let made = plan(asked)?.apply(run, "server")?;
    let start = StartOptions { cgroups: made.folders().to_vec(), affinity: made.affinity(), ..start };
    Ok((start, Some(made.describe())))
}
