// SPDX-License-Identifier: Apache-2.0
//! Records the observations, from the first reading to the last.

use crate::commands::command_line;
use crate::commands::load::without_passwords;
use crate::commands::run::{Output, RECORDING};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use ::observe::server::witnesses;
use ::observe::{Observer, Options, conditions};
use attach::{Attached, process};
use evidence::{Arm, Conditions, ENDED_EARLY, Server as ServerFacts, Tool};
use host::clock::{RunClock, rfc3339_us};
use lab::Notes;
use recording::{Recording, Start};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use units::Span;

/// The interval, and the duration; `None`: until the user stops it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) interval: Duration,
    pub(super) time: Option<Duration>,
}

/// How soon a request to stop is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Everything up to the end of the recording, which is closed in any case.
pub(super) fn record(attached: Attached, id: String, pace: Pace, output: &Output, stop: &AtomicBool) -> Outcome {
    output.prepare()?;
    let clock = RunClock::start();
    let start = Start { run_id: id, started: rfc3339_us(clock.started_unix_us()), ..Start::default() };
    let recording = Recording::create(&output.path(RECORDING), &start)?;
    let notes = Notes { recording, clock, progress: &terminal::Shown };
    let watched = watch(attached, pace, &notes, stop);
    if let Err(failure) = &watched {
        let _ = notes.event("observe", format!("{ENDED_EARLY}{}", failure.error));
    }
    let finished = notes.recording.finish(clock.now_us()).map_err(Failure::from);
    watched.and(finished)
}

fn watch(mut attached: Attached, pace: Pace, notes: &Notes<'_>, stop: &AtomicBool) -> Outcome {
    let mut refused = Vec::new();
    let variables = told(attached.variables(), &mut refused);
    let log = attached.error_log(&variables);
    notes.recording.conditions(&conditions(&attached, variables))?;
    let until = pace.time.map_or("Ctrl-C".to_owned(), |time| format!("{} are over", Span(time)));
    notes.event("observe", format!("{}; every {} until {until}", attached.describe(), Span(pace.interval)))?;
    let groups = attached.groups();
    refused.extend(groups.iter().flat_map(|group| group.refused.iter().cloned()));
    let before = told(attached.counters(), &mut refused);
    for what in refused.drain(..).chain(attached.oddities()) {
        notes.event("observe", what)?;
    }
    let mut arm = Arm::observed(notes.clock.now_us());
    notes.recording.arm(0, &arm)?;
    let mut observers = Vec::new();
    for group in groups {
        let options = Options { name: group.name, interval: pace.interval, ..Options::default() };
        observers.push(Observer::start(notes.clock, group.readers, notes.recording.clone(), options)?);
    }
    let end = wait(&attached, pace.time, stop);
    arm.ended_us = notes.clock.now_us();
    for note in observers.into_iter().flat_map(|observer| observer.stop().notes) {
        terminal::say(format_args!(" observe  {}", note.text));
        notes.recording.event(&note)?;
    }
    if end != End::Gone {
        arm.witnesses = witnesses("server", &before, &told(attached.counters(), &mut refused));
        refused.drain(..).try_for_each(|what| notes.event("observe", what))?;
    }
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

/// The caveats of the result.
fn conditions(attached: &Attached, variables: BTreeMap<String, String>) -> Conditions {
    // A server on another host, or an unknown place: nothing is known of its disk.
    let host = conditions::host(&attached.data(&variables).unwrap_or_default());
    let caveats = conditions::caveats(&host);
    let (pid, server) = (attached.pid(), attached.server.as_ref());
    let program = pid.and_then(process::program).map(|program| program.display().to_string());
    Conditions {
        tool: Tool {
            version: env!("CARGO_PKG_VERSION").into(),
            command: without_passwords(command_line().into_iter()),
            as_root: rustix::process::geteuid().is_root(),
        },
        host,
        server: ServerFacts {
            flavour: server.map(|it| it.kind.flavour.to_string()).unwrap_or_default(),
            version: server.map(|it| it.version.clone()).unwrap_or_default(),
            binary: program.unwrap_or_default(),
            source: pid.map(|pid| format!("process {pid}, which ran before")).unwrap_or_default(),
            variables,
        },
        mechanisms: BTreeMap::new(),
        traits: BTreeMap::new(),
        caveats,
    }
}

/// The server's answers; refused questions are added to `refused`.
fn told<T: Default>(answer: Result<T, ::observe::Error>, refused: &mut Vec<String>) -> T {
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

fn wait(attached: &Attached, time: Option<Duration>, stop: &AtomicBool) -> End {
    let started = Instant::now();
    loop {
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
