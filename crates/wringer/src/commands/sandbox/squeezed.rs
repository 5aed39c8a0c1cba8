// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --ram --cpus --cpuset --swap --disk`: the squeezes of a standing server. A slow disk needs no root.

use crate::commands::disk::flags;
use crate::commands::limits::Limits as Flags;
use crate::commands::squeeze::disk_mechanism;
use crate::exit::Failure;
use crate::terminal;
use ::sandbox::{Sandbox, StartOptions};
use diskmodel::{DiskRequest, Model};
use evidence::DiskMechanism;
use host::places::Places;
use run::Run;
use serde::{Deserialize, Serialize};
use squeeze::directory::probe_file;
use squeeze::limits::{self, LimitRequest, Limits, OptionNames};
use squeeze::{Plan, Squeezes, preloaded};

/// The squeezes that were asked for, and that this machine can make.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Squeezed {
    pub limits: LimitRequest,
    pub disk: Option<SlowDisk>,
}

/// A slow disk, planned for this machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDisk {
    model: Model,
    /// The mechanism of the delay: a layer, or a library in the server where no layer can be mounted.
    mechanism: DiskMechanism,
}

/// Plans the limits on this machine, and prints the notes.
///
/// # Errors
/// Exit code 3: this machine cannot set them.
pub fn checked_limits(flags: &Flags) -> Result<LimitRequest, Failure> {
    let asked = flags.asked();
    tell(&Plan::limits(&asked, OptionNames::SERVER)?)?;
    Ok(asked)
}

/// # Errors
/// Exit code 2: the disk cannot be parsed. 3: this machine allows neither mechanism, or the allowed one cannot slow this server.
pub fn checked_disk(asked: &DiskRequest, sandboxes: &[Sandbox], places: &Places) -> Result<SlowDisk, Failure> {
    let model = flags::model(asked)?;
    let (mechanism, why) = disk_mechanism(places)?;
    if let Some(why) = why {
        terminal::say(format_args!("note: {why}"));
    }
    for sandbox in sandboxes {
        if mechanism == DiskMechanism::Preload {
            preloaded::check_program(&sandbox.manifest.installation.program)?;
            preloaded::check_directory(&sandbox.data())?;
        }
        tell(&Plan::disk_of_server(&sandbox.data(), mechanism, places)?)?;
    }
    Ok(SlowDisk { model, mechanism })
}

fn tell(plan: &Plan) -> Result<(), Failure> {
    plan.notes()?.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    Ok(())
}

/// The squeezes that are in force for a server's start.
pub struct InForce<'a> {
    asked: &'a Squeezed,
    squeezes: Squeezes,
}

impl Squeezed {
    /// Puts the squeezes in force for a server that is stopped, its disk without a delay. Returns how to start the server.
    ///
    /// # Errors
    /// Finished steps are undone with the run.
    pub fn apply(
        &self,
        run: &mut Run,
        sandbox: &Sandbox,
        start: StartOptions,
    ) -> Result<(StartOptions, InForce<'_>), squeeze::Error> {
        let mut squeezes = Squeezes::default();
        if self.limits.ram.is_some() {
            // Pages that are in the page cache already would not be charged to the server.
            limits::evict(&sandbox.data());
        }
        if !self.limits.is_nothing() {
            squeezes.apply(run, &Plan::limits(&self.limits, OptionNames::SERVER)?, false)?;
        }
        if let Some(disk) = &self.disk {
            let plan = Plan::disk_of_server(&sandbox.data(), disk.mechanism, run.places())?;
            squeezes.apply(run, &plan, false)?;
        }
        Ok((start.squeezed(squeezes.for_program()), InForce { asked: self, squeezes }))
    }
}

impl InForce<'_> {
    /// The limits for people.
    pub fn limits(&self) -> Option<String> {
        self.squeezes.limits().map(Limits::describe)
    }

    /// The error of a start under these limits: whether the kernel has killed for want of RAM is known as long as the cgroup is there.
    pub fn explained(&self, error: ::sandbox::Error) -> ::sandbox::Error {
        let memory = self.squeezes.limits().and_then(|limits| limits.account().memory);
        let has_killed = memory.and_then(|memory| memory.oom_kills).is_some_and(|kills| kills > 0);
        match self.asked.limits.ram {
            Some(ram) if has_killed => error.out_of_memory(ram),
            _ => error,
        }
    }

    /// Makes the disk as slow as asked, when the server answers. Returns the disk and a probe's results, for people; `None`: no slow disk was asked
    /// for.
    ///
    /// # Errors
    /// The layer is gone, or a read does not come back.
    pub fn slow_down(&mut self, run: &mut Run, sandbox: &Sandbox) -> Result<Option<String>, squeeze::Error> {
        let (Some(disk), Some(layer)) = (&self.asked.disk, self.squeezes.layers_mut().next()) else { return Ok(None) };
        let how = layer.mechanism().in_results();
        let file = probe_file(&sandbox.data()).filter(|_| disk.mechanism != DiskMechanism::Preload);
        let measured = layer.apply(run, &disk.model, file.as_deref(), "sandbox")?;
        let got = measured.iter().find(|one| one.what.starts_with("disk.read.median")).and_then(|one| one.got);
        let got = got.map(|got| format!("; the median of a probe's reads was {:.0} us", got.value));
        Ok(Some(format!("{} ({how}){}", disk.model, got.unwrap_or_default())))
    }
}
