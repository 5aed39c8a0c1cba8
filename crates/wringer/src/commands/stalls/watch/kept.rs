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
use evidence::{Arm, ENDED_EARLY, Event, Span};
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
    /// Notes of observers that the recording did not take yet.
    unwritten: Vec<Event>,
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
            observers.push(Observer::start(clock, group.readers, sink, options)?);
        }
        let keeper = Keeper::new(clock, notes.recording.clone(), &arm.name);
        Ok(Self { output, notes, keeper, observers, unwritten: Vec::new(), arm, before, trouble: None })
    }

    /// The spans of a round of the watch, and the observers' notes since the last round.
    pub(in crate::commands::stalls) fn spans(&mut self, spans: Vec<Span>) {
        if let Err(error) = self.keeper.spans(spans) {
            self.trouble.get_or_insert(error.to_string());
        }
        self.write_news();
    }

    /// Writes the observers' notes down as they come, so that a recording that is cut off has them.
    fn write_news(&mut self) {
        let news: Vec<Event> = self.observers.iter_mut().flat_map(Observer::news).collect();
        let recording = &self.notes.recording;
        self.unwritten.extend(news.into_iter().filter(|note| recording.event(note).is_err()));
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
        let late = self.observers.drain(..).flat_map(|observer| observer.stop().notes);
        for note in self.unwritten.drain(..).chain(late) {
            self.notes.recording.event(&note)?;
        }
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
