// SPDX-License-Identifier: Apache-2.0
//! One phase: its squeeze, its load, and the witnesses at both ends of what is measured.

use crate::cell::Phase;
use crate::drivers;
use crate::error::Error;
use crate::hooks::{Bar, Progress};
use crate::idle;
use crate::judged;
use crate::lab::Lab;
use crate::load_cpus::{self, LoadCpus};
use crate::meaning::Kind;
use crate::moments::Moments;
use crate::notes::load_summary;
use crate::replays;
use crate::translate;
use crate::witnesses::Counts;
use evidence::{Arm as ArmEvidence, ArmOutcome, LoadResult};
use explain::busy;
use load::engine::{self, LoadSpec, PhaseEdge};
use observe::busy::Look;
use observe::server::witnesses;
use sandbox::Sandbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sets the squeeze, runs the load, and keeps the results, also of a phase that was cut short.
pub(crate) fn run(lab: &mut Lab<'_>, phase: &Phase, position: u32) -> Result<ArmEvidence, Error> {
    let mut evidence = begun(lab, phase);
    lab.goes_on(Some(&phase.name));
    let look = Look::on_behalf_of(std::process::id(), lab.sandbox.as_ref().map(Sandbox::data).as_deref());
    let before = look.counters();
    let measured = measure(lab, phase, &mut evidence);
    let missed = measured.as_ref().ok().cloned().flatten();
    let outcome = measured.and_then(|missed| match missed {
        None => judge(lab, phase, &mut evidence),
        Some(why) => lab.note_missed(phase, &why),
    });
    evidence.witnesses.extend(witnesses(busy::HOST, &before, &look.counters()));
    evidence.ended_us = lab.notes.clock.now_us();
    evidence.outcome = match (&outcome, &missed) {
        (Err(_), _) => ArmOutcome::BrokeOff,
        (Ok(()), Some(_)) => ArmOutcome::Missed,
        (Ok(()), None) => ArmOutcome::Measured,
    };
    evidence.broke_off = outcome.as_ref().err().map(reason).or(missed);
    lab.goes_on(None);
    lab.notes.recording.arm(position, &evidence)?;
    let told = lab.load_spans(&evidence);
    if let Err(error) = outcome {
        lab.broken = Some((position, evidence));
        return Err(error);
    }
    told.map(|()| evidence)
}

/// An arm of which nothing is measured yet.
pub(crate) fn begun(lab: &Lab<'_>, phase: &Phase) -> ArmEvidence {
    ArmEvidence {
        cell: phase.arm.clone(),
        repeat: phase.repetition + 1,
        settings: phase.settings.clone(),
        ..ArmEvidence::begun(&phase.name, lab.notes.clock.now_us())
    }
}

/// Why a phase broke off, in one line. The error may also have the end of a log; that is in the events.
pub(crate) fn reason(error: &Error) -> String {
    if error.kind() == Kind::Interrupted {
        return "somebody interrupted the run".to_owned();
    }
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.split("; the end of its log:").next().unwrap_or(line).trim_end_matches(':').to_owned()
}

/// Why the phase could not be measured, where its squeeze did not take effect; the other phases are measured.
fn measure(lab: &mut Lab<'_>, phase: &Phase, evidence: &mut ArmEvidence) -> Result<Option<String>, Error> {
    if let Some(why) = lab.squeezes.ram(&mut lab.run, phase, &lab.notes)? {
        return Ok(Some(why));
    }
    lab.record_ram_traits()?;
    lab.record_start(phase)?;
    let delayed = lab.squeezes.delay(phase, &lab.notes)?;
    evidence.delay = delayed.delay;
    if delayed.missed.is_some() {
        return Ok(delayed.missed);
    }
    lab.probe(phase)?;
    lab.squeezes.forget_cache();
    lab.look_at_cache();
    lab.set_live(phase)?;
    lab.pause(phase)?;
    let mut moments = lab.await_moments(phase)?;
    // dropped at the end of the arm
    let _staying = moments.staying();
    lab.footprint(&evidence.name, "before")?;
    let beside = lab.start_beside(phase)?;
    let loads_beside = lab.start_loads_beside(phase)?;
    let stalls = lab.watch_stalls(&evidence.name)?;
    let mut ends = Vec::new();
    let loaded = match (&phase.load.driver, &phase.load.replay) {
        (Some(driver), _) => drivers::run(lab, phase, driver, evidence, &mut ends),
        (None, Some(replay)) => replays::run(lab, phase, replay, evidence, &mut ends),
        (None, None) => own_load(lab, phase, evidence, &mut ends, moments),
    };
    let mut usage = None;
    if let [before, after] = ends.as_slice() {
        evidence.witnesses = after.since(before);
        evidence.layer_reads = after.layer_reads_since(before);
        usage = Some(after.usage_since(before));
    }
    let beside_ended = lab.end_loads_beside(phase, loads_beside);
    let told = lab.end_beside(phase, beside);
    let seen = lab.end_of_stalls(&evidence.name, stalls);
    loaded?;
    seen?;
    told?;
    beside_ended?;
    lab.look_at_cache();
    let server = lab.serving.as_ref().map_or(0, |serving| serving.running.pid);
    lab.squeezes.after_arm(&evidence.name, server, usage.as_ref(), &lab.notes)?;
    lab.innodb_status()?;
    lab.processes_at_end(&evidence.name)?;
    lab.footprint(&evidence.name, "after")?;
    lab.idle(phase)?;
    lab.check_stop().map(|()| None)
}

/// `ends`: the witnesses at the begin and the end of the measured part, as far as they were read.
fn own_load(
    lab: &mut Lab<'_>,
    phase: &Phase,
    evidence: &mut ArmEvidence,
    ends: &mut Vec<Counts>,
    mut moments: Moments,
) -> Result<(), Error> {
    let Some(protocol) = lab.serving.as_ref().map(|serving| serving.target().protocol) else { return Ok(()) };
    let (fill, written) = (&lab.cell.fill, phase.written.as_ref());
    let spec = translate::load_spec(fill, &phase.load, written, protocol, lab.rows_per_table)?;
    let driven = drive(lab, &spec, phase, evidence, ends, &mut moments);
    let planted = lab.end_moments(phase, moments);
    if let Some(result) = &evidence.load {
        lab.notes.event("load", load_summary(&evidence.name, result))?;
    }
    driven.and(planted)
}

/// Fills the server's own page cache at full speed; its measurements are thrown away.
pub(crate) fn preheat(lab: &mut Lab<'_>, phase: &Phase) -> Result<(), Error> {
    let Some(serving) = &lab.serving else { return Ok(()) };
    let target = serving.load_target().clone();
    let (fill, written) = (&lab.cell.fill, phase.written.as_ref());
    let spec = translate::preheat_spec(fill, &phase.load, written, target.protocol, lab.rows_per_table)?;
    let Some(spec) = spec else { return Ok(()) };
    lab.squeezes.full_speed()?;
    load::capacity::check(&target, spec.connections, spec.statements_prepared())?;
    let (bar, began) = (load_bar(lab.notes.progress, &spec, "preheating"), lab.notes.clock.now_us());
    let _on_cpus = LoadCpus::only(phase.load.cpuset.as_ref())?;
    let result = engine::run(
        &spec,
        &target,
        &lab.notes.clock,
        &mut engine::Hooks {
            on_phase: &mut |_| {},
            on_progress: &mut |progress| show(bar.as_ref(), &spec, progress),
            progress_interval: Some(SHOW_EVERY),
            stop: lab.stop.clone(),
        },
    );
    drop(bar);
    let done = result?.measured;
    lab.check_stop()?;
    lab.span("preheat", &phase.name, began, &[("transactions", done.transactions.to_string())])?;
    lab.notes.event(
        "load",
        format!("preheated with {} transactions in {:.1} s", done.transactions, done.elapsed_us as f64 / 1e6),
    )
}

const SHOW_EVERY: Duration = Duration::from_millis(250);

/// The load, with the witnesses read at the begin and the end of its measured part. Results are in `evidence` and `ends`, also when this fails.
fn drive(
    lab: &mut Lab<'_>,
    spec: &LoadSpec,
    phase: &Phase,
    evidence: &mut ArmEvidence,
    ends: &mut Vec<Counts>,
    moments: &mut Moments,
) -> Result<(), Error> {
    let name = evidence.name.as_str();
    let holders = lab.squeezes.holders();
    let Lab { serving, squeezes, notes, stop: asked_to_stop, .. } = lab;
    let Some(serving) = serving else { return Err(Error::NoServer) };
    if spec.stay.is_some() {
        // those of the load before close, so that they leave room for these
        serving.staying.clone_from(&spec.stay);
    }
    load::capacity::check(serving.load_target(), spec.connections, spec.statements_prepared())?;
    let mut trouble: Option<Error> = None;
    let bar = load_bar(notes.progress, spec, name);
    let mut on_phase = |edge: PhaseEdge| {
        if edge == PhaseEdge::MeasuredStart {
            notes.progress.step("load", &format!("{name}: measuring"));
        }
        match Counts::read(edge, serving, squeezes, notes.clock) {
            Ok(counts) => ends.push(counts),
            Err(error) => trouble = Some(error),
        }
        match edge {
            PhaseEdge::MeasuredStart => moments.begin(),
            PhaseEdge::MeasuredEnd => {
                moments.no_more();
                if let Err(error) = idle::size_under_load(notes, serving, phase) {
                    trouble = Some(error);
                }
            }
        }
    };
    let _on_cpus = LoadCpus::only(phase.load.cpuset.as_ref())?;
    if let Some(asked) = &phase.load.cpuset {
        notes.measured(&load_cpus::measured("thread-self", asked, name, notes))?;
    }
    // the user's request to stop is passed on; the death of a process that holds a squeeze ends the load, too
    let stop = Arc::new(AtomicBool::new(false));
    let result = engine::run(
        spec,
        serving.load_target(),
        &notes.clock,
        &mut engine::Hooks {
            on_phase: &mut on_phase,
            on_progress: &mut |progress| {
                show(bar.as_ref(), spec, progress);
                let is_over = asked_to_stop.load(Ordering::SeqCst) || holders.iter().any(|it| !it.is_alive());
                stop.fetch_or(is_over, Ordering::SeqCst);
            },
            progress_interval: Some(SHOW_EVERY),
            stop: stop.clone(),
        },
    );
    drop(bar);
    if ends.len() == 1 {
        ends.push(Counts::without_the_server(serving, squeezes, notes.clock));
    }
    let (kept, ended) = match result {
        Ok(result) => (Some(result), Ok(())),
        Err(error) => broke_off(error, name),
    };
    evidence.load = kept;
    // the load ended because a process that holds a squeeze died
    lab.squeezes.check()?;
    ended?;
    trouble.map_or(Ok(()), Err)
}

/// Keeps the measurements until then. The lab checks whether the server has ended, and tells how.
fn broke_off(error: load::Error, name: &str) -> (Option<LoadResult>, Result<(), Error>) {
    let load::Error::ServerLost { partial, phase, .. } = &error else { return (None, Err(error.into())) };
    let kept = partial.as_ref().clone();
    let (phase, arm, transactions) = (*phase, name.into(), kept.measured.transactions);
    (Some(kept), Err(Error::BrokeOff { phase, arm, transactions, source: error }))
}

fn load_bar(progress: &dyn Progress, spec: &LoadSpec, what: &str) -> Box<dyn Bar> {
    let length = match spec.events {
        Some(events) => events,
        None => milliseconds(spec.warmup + spec.time.unwrap_or_default()),
    };
    progress.bar(what, Some(length))
}

fn show(bar: &dyn Bar, spec: &LoadSpec, progress: &engine::Progress) {
    if progress.connecting.is_some() {
        return;
    }
    if spec.events.is_some() {
        bar.advance(progress.transactions);
        return;
    }
    let before = if progress.warmup { Duration::ZERO } else { spec.warmup };
    bar.set_position(milliseconds(before + progress.elapsed));
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The verdicts of a phase that ran to its end, on its load. An assertion that fails does not end the walk: the caller decides. What the run records
/// besides is judged at its end: [`crate::judged`].
fn judge(lab: &Lab<'_>, phase: &Phase, evidence: &mut ArmEvidence) -> Result<(), Error> {
    for assertion in phase.assertions.iter().filter(|assertion| assertion.recorded().is_none()) {
        let verdict = evidence.load.as_ref().map_or_else(|| assertion.judge_nothing(), |load| assertion.judge(load));
        judged::tell(&lab.notes, &evidence.name, &verdict)?;
        evidence.verdicts.push(verdict);
    }
    Ok(())
}
