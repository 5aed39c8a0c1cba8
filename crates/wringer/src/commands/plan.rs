// SPDX-License-Identifier: Apache-2.0
//! The ordered steps of an experiment file, each host change with its undo beside it. Changes nothing.

mod asks;

use super::doctor::check::{Check, State};
use super::doctor::checks;
use super::experiment_file::{Require, assertions, disks, own_data, programs, read, read_text, replays, workloads};
use super::matrix;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use experiment::{Experiment, HostFacts, LeftOut, Plan, Step};
use host::places::Places;
use lab::{refuse_limits, refuse_ram, server_request};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use units::{Bytes, Span};

#[derive(Debug, clap::Args)]
#[command(after_help = "Reads the file, looks at this host, and changes nothing. Seconds and sizes are estimates.\n\n\
    Examples:\n  \
      wringer examples one-read-or-two | wringer plan -\n  \
      wringer plan my.toml -o json | jq '.steps[] | select(.change)'\n\n\
    Exit codes: 0 it would start; 2 the file is wrong (every problem is listed with its line); 3 something on this host is \
    in the way. The file's keys are in docs/experiment.md, or `wringer doc experiment`.")]
pub struct Args {
    /// The experiment file; `-` reads standard input
    file: PathBuf,
    #[command(flatten)]
    require: Require,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: Args) -> Outcome {
    if args.file.to_str() != Some("-") && ::matrix::is_matrix(&read_text(&args.file)?) {
        return matrix::plan_as_plan(args.file, args.require, args.output);
    }
    let (experiment, plan) = look(&args.file, &args.require, &Places::from_environment())?;
    match args.output {
        Output::Json => terminal::json(&plan),
        Output::Text => terminal::data(as_text(&plan).trim_end()),
    }
    refuse(&args.file, &experiment, &plan)
}

/// The experiment and its plan, with the answers of the server's program and of the disk. Changes nothing.
///
/// # Errors
/// Exit code 2: the file is wrong.
pub fn look(file: &Path, require: &Require, places: &Places) -> Result<(Experiment, Plan), Failure> {
    let (text, mut experiment) = read(file)?;
    require.of(&mut experiment)?;
    let workloads = workloads::read(file, &experiment)?;
    assertions::check(file, &text, &experiment, &workloads)?;
    disks::check(file, &text, &experiment)?;
    let logs = replays::read(file, &experiment)?;
    let facts = host_facts(&experiment, places).of_logs(replays::seconds(&logs));
    let mut plan = experiment::plan(&experiment, &facts);
    asks::options(&experiment, places, &mut plan);
    asks::disks(&experiment, &facts, places, &mut plan);
    Ok((experiment, plan))
}

/// Fails with exit code 3 when a run would not start here.
///
/// # Errors
/// Everything that is known to prevent the run.
pub fn refuse(file: &Path, experiment: &Experiment, plan: &Plan) -> Outcome {
    refuse_blocked(file, plan)?;
    refuse_ram(experiment)?;
    refuse_limits(experiment)?;
    own_data::look(file, experiment)?;
    programs::filler(file, experiment)?;
    programs::find(file, experiment).map(drop)
}

pub use asks::options as ask_options;

/// Fails with exit code 3 when something on this host stands in the way.
///
/// # Errors
/// The plan has blockers.
pub fn refuse_blocked(file: &Path, plan: &Plan) -> Outcome {
    if plan.blockers.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = plan.blockers.iter().map(|problem| format!("{}:{problem}", file.display())).collect();
    Err(Failure::message(Exit::Missing, format!("this host cannot run it as written\n  {}", list.join("\n  ")))
        .hint("nothing was changed; `wringer doctor` says what this host can do"))
}

/// The facts about this host that a plan needs.
pub fn host_facts(experiment: &Experiment, places: &Places) -> HostFacts {
    let checks = checks::all(places);
    let check = |id: &str| checks.iter().find(|check| check.id == id);
    let good = |id: &str| check(id).is_some_and(|check| check.state == State::Good);
    let existing = places.sandboxes.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    HostFacts {
        as_root: rustix::process::geteuid().is_root(),
        mem_total_bytes: checks::meminfo("MemTotal").unwrap_or_default(),
        mem_available_bytes: checks::meminfo("MemAvailable").unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        disk_free_bytes: rustix::fs::statvfs(existing).ok().map(|stat| stat.f_bavail * stat.f_frsize),
        data_folder: places.sandboxes.display().to_string(),
        ram_mechanism: squeeze::ram::automatic().unwrap_or_default(),
        fuse: good("fuse") && good("namespaces"),
        preload: good("preload"),
        huge_pool: rustix::fs::access(host::change::POOL, rustix::fs::Access::WRITE_OK).is_ok(),
        huge_unclaimed_bytes: huge_unclaimed_bytes(),
        host_thp: squeeze::host_thp::in_force().filter(|_| squeeze::host_thp::may_set()),
        memory_cgroup: cgroup(check("memory-cgroup")),
        cpu_cgroup: cgroup(check("cpu-cgroup")),
        cpuset_cgroup: cgroup(check("cpuset-cgroup")),
        server_binary: server_binary(experiment, places),
        log_seconds: BTreeMap::new(),
    }
}

/// Free huge pages that nobody has reserved.
fn huge_unclaimed_bytes() -> u64 {
    squeeze::Meminfo::now().map_or(0, |now| now.huge_unclaimed_pages() * now.huge_page_bytes)
}

/// The version of a check's cgroup: `v1 at /sys/fs/cgroup/memory` -> `v1`.
fn cgroup(check: Option<&Check>) -> String {
    let good = check.filter(|check| check.state == State::Good);
    good.and_then(|check| check.found.split(' ').next()).unwrap_or("none").to_owned()
}

/// The server that the run would use, and whether it is installed or was fetched.
pub fn server_binary(experiment: &Experiment, places: &Places) -> Option<String> {
    let request = server_request(&experiment.server).ok()?;
    sandbox::present(&request, places).map(|found| found.describe())
}

/// The plan for people.
pub fn as_text(plan: &Plan) -> String {
    let who = if plan.as_root { "root" } else { "an ordinary user" };
    let mut out =
        format!("{}, as {who}: {} steps, about {}\n", plan.experiment, plan.steps.len(), minutes(plan.seconds));
    let _ = writeln!(out, "needs about {} of disk and {} of RAM\n", Bytes(plan.disk_bytes), Bytes(plan.ram_bytes));
    let mut arm = None;
    for step in &plan.steps {
        if step.arm != arm {
            arm.clone_from(&step.arm);
            let _ = writeln!(
                out,
                "{}",
                arm.as_ref().map_or("-- after the arms --".into(), |arm| format!("-- arm \"{arm}\" --"))
            );
        }
        line(&mut out, step);
    }
    out + &remarks(plan)
}

/// The plan's remarks, without its steps.
pub fn remarks(plan: &Plan) -> String {
    let mut out = String::new();
    for LeftOut { what, why, instead } in &plan.left_out {
        let _ = write!(out, "\nleft out: {what}\n     why: {why}\n instead: {instead}\n");
    }
    for doubt in &plan.doubts {
        let _ = write!(out, "\n  doubt: line {}: {}\n", doubt.line, doubt.message);
        if let Some(hint) = &doubt.suggestion {
            let _ = writeln!(out, "      -> {hint}");
        }
    }
    if !plan.not_asked.is_empty() {
        let _ = writeln!(out);
    }
    for what in &plan.not_asked {
        let _ = writeln!(out, "not asked: {what}");
    }
    out
}

fn line(out: &mut String, step: &Step) {
    let seconds = if step.seconds >= 1.0 { format!("{:.0} s", step.seconds) } else { String::new() };
    let _ = writeln!(out, "{:>3}  {:<8} {:>6}  {}", step.number, step.station, seconds, step.text);
    if let Some(change) = &step.change {
        let _ = writeln!(out, "{:21}changes: {change}", "");
    }
    if let Some(undo) = &step.undo {
        let _ = writeln!(out, "{:21}undo:    {undo}", "");
    }
}

pub fn minutes(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation)] // an estimate of at most days
    let whole = seconds.round() as u64;
    if whole < 90 { Span::secs(whole).to_string() } else { format!("{} min {} s", whole / 60, whole % 60) }
}
