// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --ram --cpus --cpuset --swap`: limits for a standing server, as `wringer squeeze` sets them for a command.

use crate::commands::limits::Limits as Flags;
use crate::exit::Failure;
use crate::terminal;
use ::sandbox::{Sandbox, StartOptions};
use run::Run;
use squeeze::limits::{self, Asked, Limits, OptionNames, Plan};

/// Plans the limits on this machine, and prints the notes.
///
/// # Errors
/// Exit code 3: this machine cannot set them.
pub fn checked(limits: &Flags) -> Result<Asked, Failure> {
    let asked = limits.asked();
    plan(&asked)?.notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    Ok(asked)
}

fn plan(asked: &Asked) -> Result<Plan, squeeze::Error> {
    limits::plan(asked, OptionNames::SERVER)
}

/// The limits that are in force for a server's start.
pub struct Limited {
    made: Option<Limits>,
}

/// Makes the cgroups as steps of the server's run. Returns how to start the server, and its limits.
///
/// # Errors
/// Finished steps are undone with the run.
pub fn apply(
    run: &mut Run,
    asked: &Asked,
    sandbox: &Sandbox,
    start: StartOptions,
) -> Result<(StartOptions, Limited), squeeze::Error> {
    if asked.is_nothing() {
        return Ok((start, Limited { made: None }));
    }
    if asked.ram.is_some() {
        // Pages that are in the page cache already would not be charged to the server.
        limits::evict(&sandbox.data());
    }
    let made = plan(asked)?.apply(run, "server")?;
    let start = StartOptions { cgroups: made.folders().to_vec(), affinity: made.affinity(), ..start };
    Ok((start, Limited { made: Some(made) }))
}

impl Limited {
    /// The limits for people.
    pub fn describe(&self) -> Option<String> {
        self.made.as_ref().map(Limits::describe)
    }

    /// The error of a start under these limits: whether the kernel has killed for want of RAM is known as long as the cgroup is there.
    pub fn explained(&self, error: ::sandbox::Error, asked: &Asked) -> ::sandbox::Error {
        let memory = self.made.as_ref().and_then(|made| made.account().memory);
        let has_killed = memory.and_then(|memory| memory.oom_kills).is_some_and(|kills| kills > 0);
        match asked.ram {
            Some(ram) if has_killed => error.out_of_memory(ram),
            _ => error,
        }
    }
}
