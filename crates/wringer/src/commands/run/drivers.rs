// SPDX-License-Identifier: Apache-2.0
//! Other programs as the load of an arm: sysbench, pgbench, any command. Each is a child of the run, beside the same squeezes and
//! observers as Wringer's own load, and what it prints is kept.

mod access;
mod attend;
mod outputs;
mod prepare;

use super::lab::Lab;
use super::load_cpus;
use super::witnesses::Counts;
use crate::exit::{Exit, Failure};
use access::Access;
use attend::Ended;
use evidence::{Arm as ArmEvidence, Arrivals, Driven, LatencyHistogram, LoadResult};
use experiment::{Arm, Driver, DriverProgram};
use explain::driven::{self, Understood};
use load::engine::PhaseEdge;
use outputs::Streams;
pub use prepare::{Prepared, prepare};
use run::{ChildSpec, Role};
use std::path::Path;
use std::time::Duration;

/// A PostgreSQL backend hands its counters in when it ends, a moment after its client.
const SETTLE: Duration = Duration::from_millis(200);
/// Between the signal that asks a driver to end and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the arm's program to its end. What there is of it is in `evidence`, also when this fails.
///
/// # Errors
/// It cannot be started, ended with another exit code than 0, or was cut short.
pub fn run(lab: &mut Lab<'_>, arm: &Arm, driver: &Driver, evidence: &mut ArmEvidence) -> Result<Vec<Counts>, Failure> {
    let missing = || Failure::message(Exit::Failed, "no server runs, or its load was not prepared");
    let prepared = lab.settings.drivers.get(&arm.name).ok_or_else(missing)?.clone();
    let serving = lab.serving.as_ref().ok_or_else(missing)?;
    let access = Access::of(serving, lab.experiment.fill.tables, lab.rows_per_table);
    let folder = lab.run.folder().join(format!("driver-{}", lab.notes.clock.now_us()));
    host::files::private_dir(&folder, 0o700)?;
    let args = access.words(driver, &folder)?;
    let streams = Streams::below(&folder, driver.program.name());
    let spec = ChildSpec {
        program: prepared.program.clone(),
        args: args.iter().map(Into::into).collect(),
        env: access.environment(),
        cwd: Some(prepared.folder.clone()),
        affinity: arm.load.cpuset.as_ref().map(units::CpuList::numbers),
        stdout: Some(streams.stdout.clone()),
        stderr: Some(streams.stderr.clone()),
        grace: GRACE,
        launcher: true,
        ..ChildSpec::default()
    };
    let name = evidence.name.clone();
    let before = counts(lab, PhaseEdge::MeasuredStart)?;
    let started_us = lab.notes.clock.now_us();
    lab.notes.event("load", format!("{name}: {} starts", arm.load.workload))?;
    let cpu = attend::children_cpu();
    let child = lab.run.spawn(Role::Server, spec)?;
    if let Some(asked) = &arm.load.cpuset {
        lab.notes.measured(&load_cpus::measured(&child.pid.to_string(), asked, &name, &lab.notes))?;
    }
    let ended = attend::until_it_ends(lab, arm, driver, &child, &name);
    let elapsed_us = lab.notes.clock.now_us() - started_us;
    std::thread::sleep(SETTLE);
    let after = counts(lab, PhaseEdge::MeasuredEnd);
    let exit_code = attend::end(lab, &child)?;
    let cpu = attend::children_cpu().since(cpu);
    let mut seen = Driven {
        driver: driver.program.name().to_owned(),
        command: access.without_password(std::iter::once(prepared.program.display().to_string()).chain(args)),
        exit_code,
        elapsed_us,
        client_user_us: cpu.user_us,
        client_system_us: cpu.system_us,
        outputs: streams.read(access.password()),
        ..Driven::default()
    };
    let cut = matches!(ended, Ok(Ended::TimeOver));
    let understood = understood(driver, &seen, &folder).filter(|_| exit_code == 0 || cut);
    seen.understood = understood.as_ref().map(|it| it.program.clone());
    seen.figures = understood.as_ref().map(|it| it.figures.clone()).unwrap_or_default();
    evidence.load = understood.map(|it| load_result(it, &seen, arm, started_us));
    let (tail, said) = (outputs::tail(&seen.outputs), outputs::said(&seen, evidence.load.as_ref()));
    evidence.driven = Some(seen);
    ended?;
    if exit_code != 0 && !cut {
        let what = driver.program.name();
        let message =
            format!("{what} ended the load of arm '{name}' with exit code {exit_code}; the end of its log:\n{tail}");
        return Err(Failure::message(Exit::Failed, message)
            .hint("its whole output is in the recording: wringer report FOLDER -o json | jq '.arms[].driven'"));
    }
    lab.notes.event("load", format!("{name}: {said}"))?;
    Ok(vec![before, after?])
}

fn counts(lab: &mut Lab<'_>, edge: PhaseEdge) -> Result<Counts, Failure> {
    let Lab { serving, squeezes, notes, .. } = lab;
    let serving = serving.as_ref().ok_or_else(|| Failure::message(Exit::Failed, "no server runs"))?;
    Counts::read(edge, serving, squeezes, notes.clock)
}

/// The program's own figures, where it printed them in a form that is known.
fn understood(driver: &Driver, seen: &Driven, folder: &Path) -> Option<Understood> {
    let mut understood = driven::read(&seen.outputs.first()?.text)?;
    if let (Arrivals::Poisson { per_second }, Some(asked)) = (&mut understood.arrivals, driver.rate()) {
        *per_second = asked;
    }
    if driver.program == DriverProgram::Pgbench {
        outputs::logs(folder).iter().for_each(|log| driven::add_log(&mut understood, log));
    }
    Some(understood)
}

/// Marked as the program's own by [`LoadResult::driver`]; what it does not say is left empty, and `arms[].driven` says so.
fn load_result(found: Understood, seen: &Driven, arm: &Arm, started_us: u64) -> LoadResult {
    let mut measured = found.phase;
    measured.started_us = started_us;
    measured.client_user_us = seen.client_user_us;
    measured.client_system_us = seen.client_system_us;
    LoadResult {
        workload: arm.load.workload.clone(),
        driver: seen.driver.clone(),
        connections: found.connections.unwrap_or_default(),
        workers: found.workers.unwrap_or_default(),
        arrivals: found.arrivals,
        seed: 0,
        distribution: String::new(),
        prepared_statements: false,
        connect: LatencyHistogram::new(),
        warmup: None,
        measured,
    }
}
