// SPDX-License-Identifier: Apache-2.0
//! A server's log as the load of an arm, as `wringer replay` sends it: for each connection of the log this process opens one.

use crate::cell::{Log, Phase};
use crate::error::Error;
use crate::lab::Lab;
use crate::load_cpus::{self, LoadCpus};
use crate::notes::load_summary;
use crate::witnesses::Counts;
use evidence::{Arm as ArmEvidence, LoadResult};
use experiment::{Replay, Speed};
use load::Target;
use load::engine::PhaseEdge;
use load::replay::{self, Options, Pace, Plan, Replayed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The length of a slot of the timeline, the same as that of `wringer replay`.
const TIMELINE: Duration = Duration::from_millis(100);
/// The time between two checks whether everything is still in force.
const LOOK: Duration = Duration::from_millis(50);

/// Sends the arm's log, with the witnesses read at the begin and the end. Results are in `evidence` and `ends`, also when this fails.
///
/// # Errors
/// The server does not take the first connection, or has ended; a process that holds a squeeze has died; the end was asked for.
pub(crate) fn run(
    lab: &mut Lab<'_>,
    phase: &Phase,
    asked: &Replay,
    evidence: &mut ArmEvidence,
    ends: &mut Vec<Counts>,
) -> Result<(), Error> {
    let log = phase.log.as_ref().ok_or(Error::NotPrepared)?;
    let target = lab.serving.as_ref().ok_or(Error::NoServer)?.load_target().clone();
    let plan = replay::plan(&log.recorded, target.protocol, asked.writes, target.database.as_deref());
    tell(lab, phase, log, &plan)?;
    load::capacity::check(&target, u32::try_from(plan.most_at_once()).unwrap_or(u32::MAX), 0)?;
    let _on_cpus = LoadCpus::only(phase.load.cpuset.as_ref())?;
    if let Some(cpus) = &phase.load.cpuset {
        lab.notes.measured(&load_cpus::measured("thread-self", cpus, &phase.name, &lab.notes))?;
    }
    ends.push(counts(lab, PhaseEdge::MeasuredStart)?);
    lab.notes.progress.step("load", &format!("{}: measuring", phase.name));
    let pace = match asked.speed {
        Speed::Times(times) => Pace::Times(times),
        Speed::Max => Pace::Max,
    };
    let options = Options { pace, writes: asked.writes, timeline: TIMELINE };
    let sent = watched(lab, phase, &plan, &target, options, log.recorded.length_us());
    let is_over = lab.serving.as_ref().is_none_or(|serving| serving.running.wait(Duration::ZERO));
    let after = if is_over { without_the_server(lab) } else { counts(lab, PhaseEdge::MeasuredEnd) };
    let after = after.map(|counts| ends.push(counts));
    if let Ok(replayed) = &sent {
        evidence.load = Some(load_result(lab, replayed, phase, &target));
    }
    // the load ended because a process that holds a squeeze died
    lab.squeezes.check()?;
    if is_over {
        return Err(Error::NoServer);
    }
    lab.check_stop()?;
    let replayed = sent?;
    if let Some(load) = &evidence.load {
        lab.notes.event("load", load_summary(&phase.name, load))?;
    }
    if replayed.without_database > 0 {
        let left_out = replayed.without_database;
        let said = format!("{}: {left_out} not sent: the server refused their database (USE)", phase.name);
        lab.notes.event("load", said)?;
    }
    after
}

/// Which statements of the log are sent, which not, and why.
fn tell(lab: &Lab<'_>, phase: &Phase, log: &Log, plan: &Plan) -> Result<(), Error> {
    let seconds = log.recorded.length_us() as f64 / 1e6;
    let Log { name, format, .. } = log;
    let (statements, sessions) = (plan.statements(), plan.sessions());
    let of = format!("{}: {name}, a {} of {seconds:.1} s", phase.name, format.name());
    let said = format!("{of}: {statements} statements in {sessions} sessions are sent");
    lab.notes.event("load", said)?;
    for (reason, count) in &plan.skipped {
        let line = plan.first_skipped.get(reason).copied().unwrap_or_default();
        lab.notes.event("load", format!("{}: not sent: {count} {reason} (first on line {line})", phase.name))?;
    }
    Ok(())
}

/// The replay in threads of its own. It is ended when the end is asked for, or when the server or a process that holds a squeeze has ended.
fn watched(
    lab: &Lab<'_>,
    phase: &Phase,
    plan: &Plan,
    target: &Target,
    options: Options,
    log_us: u64,
) -> Result<Replayed, Error> {
    let (holders, stop) = (lab.squeezes.holders(), AtomicBool::new(false));
    let length = match options.pace {
        Pace::Times(times) => Some(Duration::from_micros(log_us).as_millis() as f64 / times),
        Pace::Max => None,
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // only shown
    let bar = lab.notes.progress.bar(&phase.name, length.map(|length| length as u64));
    let began = Instant::now();
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| replay::run(plan, target, options, &stop));
        while !sending.is_finished() {
            let is_gone = lab.serving.as_ref().is_none_or(|serving| serving.running.wait(LOOK));
            let is_over = is_gone || lab.stop.load(Ordering::SeqCst) || holders.iter().any(|it| !it.is_alive());
            stop.fetch_or(is_over, Ordering::SeqCst);
            if is_gone {
                std::thread::sleep(LOOK);
            }
            bar.set_position(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        }
        sending.join()
    });
    drop(bar);
    Ok(sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
}

fn counts(lab: &mut Lab<'_>, edge: PhaseEdge) -> Result<Counts, Error> {
    let Lab { serving, squeezes, notes, .. } = lab;
    Counts::read(edge, serving.as_ref().ok_or(Error::NoServer)?, squeezes, notes.clock)
}

fn without_the_server(lab: &mut Lab<'_>) -> Result<Counts, Error> {
    let Lab { serving, squeezes, notes, .. } = lab;
    Ok(Counts::without_the_server(serving.as_ref().ok_or(Error::NoServer)?, squeezes, notes.clock))
}

/// The times on the run's clock.
fn load_result(lab: &Lab<'_>, replayed: &Replayed, phase: &Phase, target: &Target) -> LoadResult {
    let mut measured = replayed.measured.clone();
    measured.started_us = lab.notes.clock.at(replayed.started);
    measured.timeline.iter_mut().for_each(|slot| slot.at_us += measured.started_us);
    LoadResult {
        workload: phase.load.workload.clone(),
        driver: target.protocol.name().to_owned(),
        connections: replayed.connections,
        workers: replayed.connections,
        arrivals: phase.load.arrivals,
        seed: 0,
        distribution: String::new(),
        prepared_statements: false,
        connect: replayed.connect.clone(),
        warmup: None,
        measured,
    }
}
