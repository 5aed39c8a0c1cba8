// SPDX-License-Identifier: Apache-2.0
//! `--to FOLDER`: the watch is also recorded. Each stall is in the recording as soon as it is reported; host, process and the server's counters are recorded
//! beside it.

use crate::commands::observe::{OfArm, conditions, told};
use crate::commands::run::{Output, RECORDING, show_report};
use crate::exit::{Failure, Outcome};
use crate::terminal;
use ::observe::server::witnesses;
use ::observe::stalls::Keeper;
use ::observe::{Observer, Options};
use ::stalls::Stall;
use ::stalls::watch::Watched;
use attach::Attached;
use evidence::{Arm, ENDED_EARLY, Span};
use host::clock::{RunClock, rfc3339_us, unix_seconds};
use host::places::Places;
use lab::Notes;
use recording::{Recording, Start};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the recording goes.
#[derive(Debug, clap::Args)]
pub(super) struct To {
    /// Also record the watch in this folder: recording.sqlite, result.json, report.html; `stalls explain FOLDER` reads it. Host, process and
    /// counters are recorded every second, too
    #[arg(long = "to", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long, requires = "folder")]
    force: bool,
}

impl To {
    /// Checks the folder before anything begins.
    ///
    /// # Errors
    /// It holds other files, or cannot be written.
    pub(super) fn check(&self, places: &Places) -> Result<Option<Output>, Failure> {
        self.folder.as_deref().map(|folder| check(folder, self.force, places)).transpose()
    }
}

/// Checks the folder of a recording before anything begins.
///
/// # Errors
/// It holds other files, or cannot be written.
pub(in crate::commands::stalls) fn check(folder: &Path, force: bool, places: &Places) -> Result<Output, Failure> {
    let id = format!("stalls-{}-{:x}", unix_seconds(), std::process::id());
    Output::check(Some(folder), force, places, &id).map(Output::private)
}

/// A recording that is being written.
pub(in crate::commands::stalls) struct Kept {
    output: Output,
    notes: Notes<'static>,
    keeper: Keeper,
    observers: Vec<Observer>,
    arm: Arm,
    before: BTreeMap<String, u64>,
    /// The first stall that could not be written.
    trouble: Option<String>,
}

impl Kept {
    /// # Errors
    /// The recording cannot be written, or the server refuses its settings.
    pub(in crate::commands::stalls) fn start(
        output: Output,
        attached: &mut Attached,
        clock: RunClock,
    ) -> Result<Self, Failure> {
        output.prepare()?;
        let run_id = format!("stalls-{}-{:x}", unix_seconds(), std::process::id());
        let start =
            Start { run_id, started: rfc3339_us(clock.started_unix_us()), is_private: true, ..Start::default() };
        let recording = Recording::create(&output.path(RECORDING), &start)?;
        let notes = Notes { recording, clock, progress: &lab::Silent };
        let mut refused = Vec::new();
        let variables = told(attached.variables(), &mut refused);
        notes.recording.conditions(&conditions(attached, variables))?;
        notes.event("observe", format!("{}, watched for stalls", attached.describe()))?;
        let groups = attached.groups();
        refused.extend(groups.iter().flat_map(|group| group.refused.iter().cloned()));
        let before = told(attached.counters(), &mut refused);
        refused.into_iter().try_for_each(|what| notes.event("observe", what))?;
        let arm = Arm::observed(clock.now_us());
        notes.recording.arm(0, &arm)?;
        let mut observers = Vec::new();
        for group in groups {
            let options = Options { name: group.name, ..Options::default() };
            let sink = OfArm { recording: notes.recording.clone(), arm: arm.name.clone() };
            let (readers, tell) = (group.readers, notes.teller());
            observers.push(Observer::start_telling(clock, readers, sink, options, tell)?);
        }
        let keeper = Keeper::new(clock, notes.recording.clone(), &arm.name);
        Ok(Self { output, notes, keeper, observers, arm, before, trouble: None })
    }

    pub(in crate::commands::stalls) fn spans(&mut self, spans: Vec<Span>) {
        if let Err(error) = self.keeper.spans(spans) {
            self.trouble.get_or_insert(error.to_string());
        }
    }

    pub(in crate::commands::stalls) fn stall(&mut self, stall: &Stall) {
        if let Err(error) = self.keeper.stall(stall) {
            self.trouble.get_or_insert(error.to_string());
        }
    }

    /// Closes the recording and writes the report. `has_ended`: whether the server has ended.
    ///
    /// # Errors
    /// The recording or the report cannot be written.
    pub(in crate::commands::stalls) fn end(
        mut self,
        watched: &Watched,
        attached: &mut Attached,
        has_ended: bool,
    ) -> Outcome {
        let closed = self.close(watched, attached, has_ended);
        let finished = self.notes.recording.finish(self.notes.clock.now_us()).map_err(Failure::from);
        closed.and(finished)?;
        show_report(&self.output)?;
        let Some(why) = self.trouble else { return Ok(()) };
        terminal::say(format_args!("not all stalls are in the recording: {why}"));
        Ok(())
    }

    fn close(&mut self, watched: &Watched, attached: &mut Attached, has_ended: bool) -> Outcome {
        self.arm.ended_us = self.notes.clock.now_us();
        if let Err(error) = self.keeper.ended(watched) {
            self.trouble.get_or_insert(error.to_string());
        }
        self.observers.drain(..).try_for_each(|observer| self.notes.end_observer(observer))?;
        for missing in &watched.missing {
            self.notes.event("observe", format!("not seen: {}: {}", missing.what, missing.why))?;
        }
        if has_ended {
            self.notes.event("observe", format!("{ENDED_EARLY}{} ended", attached.describe()))?;
        } else {
            let mut refused = Vec::new();
            self.arm.witnesses = witnesses("server", &self.before, &told(attached.counters(), &mut refused));
            refused.into_iter().try_for_each(|what| self.notes.event("observe", what))?;
        }
        Ok(self.notes.recording.arm(0, &self.arm)?)
    }
}
