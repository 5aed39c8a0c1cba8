// SPDX-License-Identifier: Apache-2.0
//! The recording of what is seen, from the first reading to the last.

use super::subject::Subject;
use crate::commands::run::{Output, RECORDING};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use ::observe::process::readable;
use ::observe::server::{self, witnesses};
use ::observe::{Observer, Options, Reader, Reopening, host_readers};
use evidence::{Arm, ENDED_EARLY};
use host::clock::{RunClock, rfc3339_us, unix_us};
use lab::Notes;
use recording::{Recording, Start};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use units::Span;

/// How often, and for how long; `None`: until somebody asks us to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) interval: Duration,
    pub(super) time: Option<Duration>,
}

/// How soon a wish to stop is seen.
const TICK: Duration = Duration::from_millis(50);

/// Everything up to the end of the recording, which is closed whatever happens.
pub(super) fn record(subject: Subject, id: String, pace: Pace, output: &Output, stop: &AtomicBool) -> Outcome {
    output.prepare()?;
    let clock = RunClock::start();
    let start = Start { run_id: id, started: rfc3339_us(unix_us()), ..Start::default() };
    let recording = Recording::create(&output.path(RECORDING), &start)?;
    let notes = Notes { recording, clock, progress: &terminal::Shown };
    let watched = watch(subject, pace, &notes, stop);
    if let Err(failure) = &watched {
        let _ = notes.event("observe", format!("{ENDED_EARLY}{}", failure.error));
    }
    let finished = notes.recording.finish(clock.now_us()).map_err(Failure::from);
    watched.and(finished)
}

fn watch(mut subject: Subject, pace: Pace, notes: &Notes<'_>, stop: &AtomicBool) -> Outcome {
    let mut refused = Vec::new();
    let conditions = subject.conditions(&mut refused);
    notes.recording.conditions(&conditions)?;
    let until = pace.time.map_or("Ctrl-C".to_owned(), |time| format!("{} are over", Span(time)));
    notes.event("observe", format!("{}; every {} until {until}", subject.describe(), Span(pace.interval)))?;
    let groups = groups(&subject, &mut refused);
    let before = subject.counters(&mut refused);
    for what in refused.drain(..).chain(subject.oddities()) {
        notes.event("observe", what)?;
    }
    let mut arm = Arm::observed(notes.clock.now_us());
    notes.recording.arm(0, &arm)?;
    let mut observers = Vec::new();
    for (name, readers) in groups {
        let options = Options { name, interval: pace.interval, ..Options::default() };
        observers.push(Observer::start(notes.clock, readers, notes.recording.clone(), options)?);
    }
    let end = wait(&subject, pace.time, stop);
    arm.ended_us = notes.clock.now_us();
    for note in observers.into_iter().flat_map(|observer| observer.stop().notes) {
        terminal::say(format_args!(" observe  {}", note.text));
        notes.recording.event(&note)?;
    }
    if end != End::Gone {
        arm.witnesses = witnesses("server", &before, &subject.counters(&mut refused));
        refused.drain(..).try_for_each(|what| notes.event("observe", what))?;
    }
    notes.recording.arm(0, &arm)?;
    match (end, subject.pid()) {
        (End::Gone, Some(pid)) => {
            let seconds = (arm.ended_us - arm.started_us) as f64 / 1e6;
            let message = format!("process {pid} ended while it was observed, after {seconds:.1} s");
            Err(Failure::message(Exit::Failed, message)
                .hint("what was seen until then is in the recording and its report"))
        }
        _ => {
            let why = if end == End::Asked { "asked to stop" } else { "the time is over" };
            Ok(notes.event("observe", format!("{why}: the end"))?)
        }
    }
}

type Group = (&'static str, Vec<Box<dyn Reader>>);

/// As a run has them: what may block, a server's answers, does not hold up the others.
fn groups(subject: &Subject, refused: &mut Vec<String>) -> Vec<Group> {
    let (readers, missing) = host_readers::all(Path::new("/proc"));
    refused.extend(missing.into_iter().map(|what| format!("not on this kernel: {what}")));
    let mut groups: Vec<Group> = vec![("host", readers)];
    if let Some(pid) = subject.pid() {
        let (readers, unread) = readable("server", pid, subject.has_many_processes());
        refused.extend(unread.into_iter().map(|what| format!("not for this user: {what}")));
        groups.push(("process", readers));
    }
    if let Some(it) = &subject.server {
        groups.push(("server", server::readers(Reopening::new(it.target.clone()), &it.kind)));
    }
    groups
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    TimeOver,
    Asked,
    /// The server's process has ended.
    Gone,
}

fn wait(subject: &Subject, time: Option<Duration>, stop: &AtomicBool) -> End {
    let started = Instant::now();
    loop {
        if stop.load(Ordering::SeqCst) {
            return End::Asked;
        }
        let left = time.map_or(TICK, |time| time.saturating_sub(started.elapsed()).min(TICK));
        match &subject.process {
            Some(process) if process.wait(left) => return End::Gone,
            Some(_) => {}
            None => thread::sleep(left),
        }
        if left.is_zero() {
            return End::TimeOver;
        }
    }
}
