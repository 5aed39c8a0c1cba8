// SPDX-License-Identifier: Apache-2.0
//! Records the observations, from the first reading to the last.

use crate::commands::command_line;
use crate::commands::run::{Output, RECORDING};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use ::observe::server::witnesses;
use ::observe::stalls::{Keeper, Options as StallOptions, Recorder};
use ::observe::{Observer, Options, conditions};
use attach::{Attached, Group, process};
use evidence::{
    Arm, Conditions, ENDED_EARLY, Event, Point, SampleSink, Series, Server as ServerFacts, SinkError, Snapshot, Tool,
};
use host::clock::{RunClock, rfc3339_us};
use lab::Notes;
use recording::{Recording, Start};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use units::Span;

/// How often the readings are taken, and for how long.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Pace {
    pub(in crate::commands) interval: Duration,
    /// The time from one inventory of the server's memory to the next; `None`: no inventory is taken.
    pub(in crate::commands) memory: Option<Duration>,
    /// How the server's threads are watched for stalls; `None`: they are not watched.
    pub(in crate::commands) stalls: Option<StallOptions>,
    /// How long to watch; `None`: until the user stops the command.
    pub(in crate::commands) time: Option<Duration>,
}

/// The longest time until a request to stop is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Watches and records until the end of the recording, which is closed in any case. `refused`: things that are already known to be unreadable.
pub(super) fn record(
    attached: Attached,
    id: String,
    refused: Vec<String>,
    pace: Pace,
    output: &Output,
    stop: &AtomicBool,
) -> Outcome {
    output.prepare()?;
    let clock = RunClock::start();
    let start =
        Start { run_id: id, started: rfc3339_us(clock.started_unix_us()), is_private: true, ..Start::default() };
    let recording = Recording::create(&output.path(RECORDING), &start)?;
    let notes = Notes { recording, clock, progress: &terminal::Shown };
    let watched = watch(attached, refused, pace, &notes, stop);
    if let Err(failure) = &watched {
        let _ = notes.event("observe", format!("{ENDED_EARLY}{:#}", failure.error));
    }
    let finished = notes.recording.finish(clock.now_us()).map_err(Failure::from);
    watched.and(finished)
}

fn watch(
    mut attached: Attached,
    mut refused: Vec<String>,
    pace: Pace,
    notes: &Notes<'_>,
    stop: &AtomicBool,
) -> Outcome {
    let variables = told(attached.variables(), &mut refused);
    let log = attached.error_log(&variables);
    notes.recording.conditions(&conditions(&attached, variables))?;
    let until = pace.time.map_or("Ctrl-C".to_owned(), |time| format!("{} are over", Span(time)));
    let memory = pace.memory.map_or_else(String::new, |every| format!(", its memory every {}", Span(every)));
    notes.event("observe", format!("{}; every {}{memory} until {until}", attached.describe(), Span(pace.interval)))?;
    let memory = pace.memory.and_then(|interval| attached.inventories(interval)).map(Group::memory);
    let groups: Vec<Group> = attached.groups().into_iter().chain(memory).collect();
    refused.extend(groups.iter().flat_map(|group| group.refused.iter().cloned()));
    let before = told(attached.counters(), &mut refused);
    for what in refused.drain(..).chain(attached.doubt()) {
        notes.event("observe", what)?;
    }
    let mut arm = Arm::observed(notes.clock.now_us());
    notes.recording.arm(0, &arm)?;
    let mut observers = Vec::new();
    for group in groups {
        let interval = group.interval.unwrap_or(pace.interval);
        let options = Options { name: group.name, interval, ..Options::default() };
        let sink = OfArm { recording: notes.recording.clone(), arm: arm.name.clone() };
        observers.push(Observer::start(notes.clock, group.readers, sink, options)?);
    }
    let stalls = pace.stalls.and_then(|options| match watch_stalls(&mut attached, &options, &arm.name, notes) {
        Ok(recorder) => Some(recorder),
        Err(why) => {
            refused.push(format!("stalls are not watched: {why}"));
            None
        }
    });
    let mut unwritten = Vec::new();
    let end = wait(&attached, pace.time, stop, || {
        for note in observers.iter_mut().flat_map(Observer::news) {
            unwritten.extend(passed_on(note, notes).err());
        }
    });
    let stalls = stalls.and_then(Recorder::stop);
    arm.ended_us = notes.clock.now_us();
    if let Some(seen) = &stalls {
        refused.extend(seen.watched.missing.iter().map(|it| format!("stalls: not seen: {}: {}", it.what, it.why)));
        refused.extend(seen.trouble.iter().map(|why| format!("stalls are lost: {why}")));
        let share = seen.watched.cost.cpu_share * 100.0;
        notes.event("observe", format!("watching for stalls took {share:.2} % of a CPU"))?;
    }
    unwritten.into_iter().try_for_each(|note| notes.recording.event(&note))?;
    for note in observers.into_iter().flat_map(|observer| observer.stop().notes) {
        passed_on(note, notes).or_else(|note| notes.recording.event(&note))?;
    }
    if end != End::Gone {
        arm.witnesses = witnesses("server", &before, &told(attached.counters(), &mut refused));
    }
    refused.drain(..).try_for_each(|what| notes.event("observe", what))?;
    notes.recording.arm(0, &arm)?;
    match (end, attached.pid()) {
        (End::Gone, Some(pid)) => {
            let seconds = (arm.ended_us - arm.started_us) as f64 / 1e6;
            let message = format!("process {pid} ended while it was observed, after {seconds:.1} s");
            let failure = Failure::message(Exit::Failed, message)
                .hint("what was seen until then is in the recording and its report");
            Err(log.into_iter().fold(failure, |failure, log| failure.hint(format!("its error log: {}", log.display()))))
        }
        _ => {
            let why = if end == End::Asked { "asked to stop" } else { "the time is over" };
            Ok(notes.event("observe", format!("{why}: the end"))?)
        }
    }
}

/// Tells a note of an observer at once, and writes it down. `Err`: the note, which could not be written.
fn passed_on(note: Event, notes: &Notes<'_>) -> Result<(), Event> {
    terminal::say(format_args!(" observe  {}", note.text));
    notes.recording.event(&note).map_err(|_| note)
}

/// Starts the watch for stalls. `Err`: the reason, in words, why this is not possible.
fn watch_stalls(
    attached: &mut Attached,
    options: &StallOptions,
    arm: &str,
    notes: &Notes<'_>,
) -> Result<Recorder, String> {
    let options = StallOptions { clock: Some(notes.clock), ..*options };
    let watcher = attached.stalls(&options).map_err(|error| host::chain(&error))?;
    let watcher = watcher.ok_or_else(|| "the server's process is not known".to_owned())?;
    Recorder::start(watcher, Keeper::new(notes.clock, notes.recording.clone(), arm))
        .map_err(|error| host::chain(&error))
}

/// A recording that gives all snapshots to its only arm.
pub(in crate::commands) struct OfArm {
    pub(in crate::commands) recording: Recording,
    pub(in crate::commands) arm: String,
}

impl SampleSink for OfArm {
    fn declare(&mut self, series: &Series) -> Result<u32, SinkError> {
        self.recording.declare(series)
    }

    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), SinkError> {
        self.recording.points(points)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        let arm = Some(self.arm.clone());
        SampleSink::snapshot(&mut self.recording, &Snapshot { arm, ..snapshot.clone() })
    }

    fn span(&mut self, span: &evidence::Span) -> Result<(), SinkError> {
        SampleSink::span(&mut self.recording, span)
    }
}

/// The conditions of the result, with the caveats.
pub(in crate::commands) fn conditions(attached: &Attached, variables: BTreeMap<String, String>) -> Conditions {
    // if the server is on another host, or its place is unknown, nothing is known about its disk
    let host = conditions::host(&attached.data(&variables).unwrap_or_default());
    let caveats = conditions::caveats(&host);
    let (pid, server) = (attached.pid(), attached.server.as_ref());
    let program = pid.and_then(process::program).map(|program| program.display().to_string());
    Conditions {
        tool: Tool {
            version: env!("CARGO_PKG_VERSION").into(),
            command: command_line(),
            as_root: rustix::process::geteuid().is_root(),
        },
        host,
        server: ServerFacts {
            flavour: server.map(|it| it.kind.flavour.to_string()).unwrap_or_default(),
            version: server.map(|it| it.version.clone()).unwrap_or_default(),
            binary: program.unwrap_or_default(),
            source: pid.map(|pid| format!("process {pid}, which ran before")).unwrap_or_default(),
            build: String::new(),
            variables,
        },
        mechanisms: BTreeMap::new(),
        traits: BTreeMap::new(),
        data: None,
        caveats,
    }
}

/// The server's answer, or the default value; the reason of a refused question is added to `refused`.
pub(in crate::commands) fn told<T: Default>(answer: Result<T, ::observe::Error>, refused: &mut Vec<String>) -> T {
    answer.unwrap_or_else(|error| {
        refused.push(host::chain(&error));
        T::default()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    TimeOver,
    Asked,
    /// The server's process has ended.
    Gone,
}

/// `each` is called until then, again and again.
fn wait(attached: &Attached, time: Option<Duration>, stop: &AtomicBool, mut each: impl FnMut()) -> End {
    let started = Instant::now();
    loop {
        each();
        if stop.load(Ordering::SeqCst) {
            return End::Asked;
        }
        let left = time.map_or(TICK, |time| time.saturating_sub(started.elapsed()).min(TICK));
        match attached.process() {
            Some(process) if process.wait(left) => return End::Gone,
            Some(_) => {}
            None => thread::sleep(left),
        }
        if left.is_zero() {
            return End::TimeOver;
        }
    }
}
