// SPDX-License-Identifier: Apache-2.0
//! Other programs as the load of an arm: sysbench, pgbench, any command. Each is a child of the run, beside the same squeezes and
//! observers as Wringer's own load, and what it prints is kept.

mod access;
mod attend;
mod filling;
mod outputs;

use crate::cell::{Phase, Program};
use crate::error::Error;
use crate::lab::Lab;
use crate::load_cpus;
use crate::witnesses::Counts;
use access::Access;
use attend::Ended;
use evidence::{Arm as ArmEvidence, Arrivals, Driven, LatencyHistogram, LoadResult, Output};
use experiment::{Driver, DriverProgram};
use explain::driven::{self, Understood};
pub(crate) use filling::fill;
use load::engine::PhaseEdge;
use outputs::Streams;
use run::{Child, ChildSpec, Role};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for the counters of a PostgreSQL backend: it reports them when it ends, a moment after its client.
const SETTLE: Duration = Duration::from_millis(200);
/// The time between the signal that asks a driver to end and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the arm's program to its end; before that a separate run to warm up, where the arm asks for one. The results are in `evidence`, as
/// far as there are any, also when this fails.
///
/// # Errors
/// The program cannot be started, ended with another exit code than 0, or was cut short.
pub(crate) fn run(
    lab: &mut Lab<'_>,
    phase: &Phase,
    driver: &Driver,
    evidence: &mut ArmEvidence,
    ends: &mut Vec<Counts>,
) -> Result<(), Error> {
    let program = OfPhase::of(lab, phase)?;
    if let Some(why) = program.access.led_away().filter(|_| driver.program == DriverProgram::Command) {
        lab.notes.event("load", why)?;
    }
    let warmed = match phase.load.warmup.is_zero() {
        true => None,
        false => Some(program.warm_up(lab, &driver.for_warmup(phase.load.warmup), evidence)?),
    };
    ends.push(counts(lab, PhaseEdge::MeasuredStart)?);
    lab.notes.event("load", format!("{}: {} starts", phase.name, phase.load.workload))?;
    let running = program.start(lab, driver, driver.program.name())?;
    if let Some(asked) = &phase.load.cpuset {
        let measured = load_cpus::measured(&running.child.pid.to_string(), asked, &phase.name, &lab.notes);
        lab.notes.measured(&measured)?;
    }
    let ended = attend::until_it_ends(lab, driver, phase.load.time.map(|span| span.0), &running.child, &phase.name);
    let elapsed_us = lab.notes.clock.now_us() - running.started_us;
    std::thread::sleep(SETTLE);
    let after = counts(lab, PhaseEdge::MeasuredEnd).map(|counts| ends.push(counts));
    let started_us = running.started_us;
    let mut seen = program.end(lab, running, driver, elapsed_us)?;
    let cut = matches!(ended, Ok(Ended::TimeOver));
    let understood = understood(driver, &seen, &program.folder).filter(|_| seen.exit_code == 0 || cut);
    seen.understood = understood.as_ref().map(|it| it.program.clone());
    seen.figures = understood.as_ref().map(|it| it.figures.clone()).unwrap_or_default();
    evidence.load = understood.map(|it| load_result(it, &seen, phase, driver, started_us));
    let (failed, said) = (program.failed(&seen, "the load"), outputs::said(&seen, evidence.load.as_ref()));
    if let Some(warmed) = warmed {
        seen.outputs.extend(warmed.outputs);
        evidence.load.iter_mut().for_each(|load| load.warmup.clone_from(&warmed.phase));
    }
    let exit_code = seen.exit_code;
    evidence.driven = Some(seen);
    ended?;
    if exit_code != 0 && !cut {
        return Err(failed);
    }
    lab.notes.event("load", format!("{}: {said}", phase.name))?;
    after
}

/// The phase's program, ready to be started.
struct OfPhase<'a> {
    phase: &'a Phase,
    prepared: &'a Program,
    access: Access,
    folder: PathBuf,
}

/// One start of the program.
struct Running {
    child: Child,
    args: Vec<String>,
    streams: Streams,
    started_us: u64,
    cpu: attend::Cpu,
}

/// Results of the run before the measured one.
struct Warmed {
    phase: Option<evidence::Phase>,
    outputs: Vec<Output>,
}

impl<'a> OfPhase<'a> {
    fn of(lab: &Lab<'_>, phase: &'a Phase) -> Result<Self, Error> {
        let prepared = phase.program.as_ref().ok_or(Error::NotPrepared)?;
        let serving = lab.serving.as_ref().ok_or(Error::NotPrepared)?;
        let access = Access::of(serving, lab.cell.fill.tables, lab.rows_per_table);
        let folder = lab.run.folder().join(format!("driver-{}", lab.notes.clock.now_us()));
        host::files::private_dir(&folder, 0o700)?;
        Ok(Self { phase, prepared, access, folder })
    }

    /// `tag` is part of the names of the files that it writes.
    fn start(&self, lab: &mut Lab<'_>, driver: &Driver, tag: &str) -> Result<Running, Error> {
        let args = self.access.words(driver, &self.folder)?;
        let streams = Streams::below(&self.folder, tag);
        let spec = ChildSpec {
            program: self.prepared.program.clone(),
            args: args.iter().map(Into::into).collect(),
            env: self.access.environment(&self.folder)?,
            cwd: Some(self.prepared.folder.clone()),
            affinity: self.phase.load.cpuset.as_ref().map(units::CpuList::numbers),
            stdout: Some(streams.stdout.clone()),
            stderr: Some(streams.stderr.clone()),
            grace: GRACE,
            launcher: true,
            ..ChildSpec::default()
        };
        let (started_us, cpu) = (lab.notes.clock.now_us(), attend::children_cpu());
        let child = lab.run.spawn(Role::Server, spec)?;
        Ok(Running { child, args, streams, started_us, cpu })
    }

    /// Ends its processes that still run; returns its results and its output.
    fn end(&self, lab: &mut Lab<'_>, running: Running, driver: &Driver, elapsed_us: u64) -> Result<Driven, Error> {
        let exit_code = attend::end(lab, &running.child)?;
        let cpu = attend::children_cpu().since(running.cpu);
        let program = std::iter::once(self.prepared.program.display().to_string());
        Ok(Driven {
            driver: driver.program.name().to_owned(),
            command: self.access.without_password(program.chain(running.args)),
            exit_code,
            elapsed_us,
            client_user_us: cpu.user_us,
            client_system_us: cpu.system_us,
            outputs: running.streams.read(self.access.password()),
            ..Driven::default()
        })
    }

    /// A separate run to warm up, under the same squeeze and before any counter is read: sysbench 1.0.20 and pgbench have no warm-up that they measure
    /// separately.
    fn warm_up(&self, lab: &mut Lab<'_>, driver: &Driver, evidence: &mut ArmEvidence) -> Result<Warmed, Error> {
        let length = self.phase.load.warmup;
        lab.notes.event("load", format!("{}: {} warms up for {length}", self.phase.name, self.phase.load.workload))?;
        let running = self.start(lab, driver, &format!("{}.warmup", driver.program.name()))?;
        let started_us = running.started_us;
        let ended = attend::until_it_ends(lab, driver, Some(length.0), &running.child, &self.phase.name);
        let elapsed_us = lab.notes.clock.now_us() - started_us;
        let seen = self.end(lab, running, driver, elapsed_us)?;
        if ended.is_err() || seen.exit_code != 0 {
            let failed = self.failed(&seen, "the warm-up");
            evidence.driven = Some(seen);
            return Err(ended.err().unwrap_or(failed));
        }
        let phase = understood(driver, &seen, &self.folder).map(|it| on_our_clock(it.phase, &seen, driver, started_us));
        Ok(Warmed { phase, outputs: seen.outputs })
    }

    /// The error for an exit code that means a failure.
    fn failed(&self, seen: &Driven, what: &'static str) -> Error {
        let (program, arm) = (seen.driver.clone(), self.phase.arm.clone());
        Error::Driver { program, what, arm, exit_code: seen.exit_code, log: outputs::tail(&seen.outputs) }
    }
}

fn counts(lab: &mut Lab<'_>, edge: PhaseEdge) -> Result<Counts, Error> {
    let Lab { serving, squeezes, notes, .. } = lab;
    let serving = serving.as_ref().ok_or(Error::NoServer)?;
    Counts::read(edge, serving, squeezes, notes.clock)
}

/// The program's own figures, where it printed them in a form that is known.
fn understood(driver: &Driver, seen: &Driven, folder: &Path) -> Option<Understood> {
    let mut understood = driven::read(&seen.outputs.first()?.text)?;
    if let (Arrivals::Poisson { per_second }, Some(asked)) = (&mut understood.arrivals, driver.rate()) {
        *per_second = asked;
    }
    if driver.logs() {
        driven::add_logs(&mut understood, &outputs::logs(folder));
    }
    if understood.program.starts_with("pgbench") {
        driven::add_progress(&mut understood, seen.outputs.get(1).map_or("", |stderr| &stderr.text));
    }
    Some(understood)
}

/// The program's own times begin at 0. They are placed on the run's clock by its end: sysbench and pgbench end a moment after what they measure.
fn on_our_clock(mut phase: evidence::Phase, seen: &Driven, driver: &Driver, started_us: u64) -> evidence::Phase {
    phase.started_us = match driver.program {
        DriverProgram::Command => started_us,
        _ => started_us + seen.elapsed_us.saturating_sub(phase.elapsed_us),
    };
    phase.timeline.iter_mut().for_each(|slot| slot.at_us += phase.started_us);
    phase.client_user_us = seen.client_user_us;
    phase.client_system_us = seen.client_system_us;
    phase
}

/// The program's own results, marked as such by [`LoadResult::driver`]. Figures that it does not tell are left empty, and `arms[].driven` names them.
fn load_result(found: Understood, seen: &Driven, phase: &Phase, driver: &Driver, started_us: u64) -> LoadResult {
    LoadResult {
        workload: phase.load.workload.clone(),
        driver: seen.driver.clone(),
        connections: found.connections.unwrap_or_default(),
        workers: found.workers.unwrap_or_default(),
        arrivals: found.arrivals,
        seed: 0,
        distribution: String::new(),
        prepared_statements: false,
        connect: LatencyHistogram::new(),
        warmup: None,
        measured: on_our_clock(found.phase, seen, driver, started_us),
    }
}
