// SPDX-License-Identifier: Apache-2.0
//! One command, from its squeezes to its end. In any case the run gives everything back.

use super::Args;
use super::prepare::Prepared;
use super::summary::{DiskSeen, Summary};
use crate::commands::command_line;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals::Relay;
use crate::terminal;
use diskmodel::Model;
use evidence::Measured;
use host::interrupt;
use host::places::Places;
use host::process::{Identity, LaunchSettings, Process};
use indicatif::ProgressBar;
use run::{Begin, Child, ChildSpec, Kind, Role, Run};
use slowfs::stats::Stats;
use squeeze::directory::probe_file;
use squeeze::disk::SlowLayer;
use squeeze::foreign_cache::Watch;
use squeeze::limits::Limits;
use squeeze::{InForce, LayerPlan, Plan, Squeezes};
use std::path::Path;
use std::time::{Duration, Instant};
use units::Bytes;

/// The time between the signal that asks the command to end and SIGKILL.
const GRACE: Duration = Duration::from_secs(30);
/// The same time for processes that the command has left running.
const STRAY_GRACE: Duration = Duration::from_secs(10);
/// The pause between two checks of the squeezes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Returns when the command has ended, and everything is given back.
pub fn run(prepared: &Prepared, args: &Args, places: Places) -> Result<Summary, Failure> {
    let relay = Relay::install()?;
    let begin = Begin { kind: Kind::Run, command: own_words(args), resources: prepared.resources(), places };
    let mut run = Run::begin(begin)?;
    let ended = squeezed(&mut run, prepared, args, &relay);
    let ended = ended.map_err(|failure| explain(&run, failure));
    let released = release(run);
    // A host that is not restored is worse than the error that ended the command.
    let mut summary = released.and(ended)?;
    // Processes that we may not end may have ended with their cgroup.
    summary.not_ended.retain(Identity::is_alive);
    Ok(summary)
}

/// The command line for the journal, without the command's own arguments, which may hold a password.
fn own_words(args: &Args) -> Vec<String> {
    let words = command_line();
    let own = words.len() - args.command.len() + 1;
    let more = (args.command.len() > 1).then(|| "...".to_owned());
    std::iter::once("wringer".to_owned()).chain(words.into_iter().take(own).skip(1)).chain(more).collect()
}

fn squeezed(run: &mut Run, prepared: &Prepared, args: &Args, relay: &Relay) -> Result<Summary, Failure> {
    let Applied { mut squeezes, probed } = apply(run, prepared, args)?;
    let before = squeezes.layers_mut().map(SlowLayer::stats).collect::<Result<Vec<_>, _>>()?;
    let spec = child_spec(prepared, args, &squeezes);
    let (start, cpu_before) = (Instant::now(), children_cpu());
    // declared before the relay: the process must live longer than the relay of signals to it
    let process;
    let relaying = relay.starting();
    let child = run.spawn(Role::Server, spec)?;
    process = Process::open(child.identity());
    process.iter().for_each(|process| relaying.to(process));
    let cpus_allowed = cpus_allowed(&child);
    let mut cache = squeezes.limits().and_then(Limits::memory_folder).map(Watch::new);
    attend(run, &child, &squeezes, cache.as_mut())?;
    drop(relaying);
    let elapsed = start.elapsed();
    let orphans = run.await_orphans(&child)?;
    let exit_code = exit_code(run, &child)?;
    let orphans = orphans.ok_or_else(launcher_killed)?;
    let cpu = children_cpu().saturating_sub(cpu_before);
    let left_behind = orphans.ended + run.end_strays(STRAY_GRACE)?;
    let disks = seen(&mut squeezes, probed, &before, prepared)?;
    refuse_not_loaded(&disks)?;
    let limits = squeezes.limits();
    let (got, account) = limits.map(|limits| (limits.got(), limits.account())).unwrap_or_default();
    let mechanisms = ["memory", "cpu", "cpuset"].map(|name| limits?.mechanism(name));
    Ok(Summary {
        run: run.id().to_string(),
        program: prepared.program.clone(),
        exit_code,
        elapsed,
        cpu,
        left_behind,
        left_running: orphans.left.len(),
        not_ended: orphans.refused,
        asked: prepared.limits.clone(),
        got,
        account,
        cached_by_others: cache.and_then(|cache| cache.seen),
        mechanisms,
        cpus_allowed,
        host_ram: squeezes.into_hidden_ram(),
        disks,
    })
}

struct Applied {
    squeezes: Squeezes,
    /// A probe's results, for each slow disk.
    probed: Vec<Vec<Measured>>,
}

fn apply(run: &mut Run, prepared: &Prepared, args: &Args) -> Result<Applied, Failure> {
    let (mut squeezes, mut probed) = (Squeezes::default(), Vec::new());
    for plan in &prepared.plans {
        let spinner = match plan {
            Plan::Ram(plan) => Some(terminal::spinner(&format!("hiding {}", Bytes(plan.hide_bytes)))),
            _ => None,
        };
        let applied = squeezes.apply(run, plan, args.strict);
        spinner.iter().for_each(ProgressBar::finish_and_clear);
        if let (InForce::Layer(layer), Plan::Layer(disk)) = (applied?, plan) {
            probed.push(slow_down(run, layer, disk, args)?);
        }
    }
    Ok(Applied { squeezes, probed })
}

fn slow_down(run: &mut Run, layer: &mut SlowLayer, disk: &LayerPlan, args: &Args) -> Result<Vec<Measured>, Failure> {
    let Some(model) = disk.model() else { return Ok(Vec::new()) };
    let mut measured = if args.no_probe {
        layer.set(model).map(|()| Vec::new())?
    } else {
        hold(run, layer, &disk.directory, model, args.strict)?
    };
    measured.extend(layer.measured_way(0)?);
    Ok(measured)
}

/// Sets the delay, and checks whether reads take as long as they should. If there is no readable file of 1 MiB, the check is left out.
fn hold(
    run: &mut Run,
    layer: &mut SlowLayer,
    directory: &Path,
    model: &Model,
    strict: bool,
) -> Result<Vec<Measured>, Failure> {
    let spinner = terminal::spinner(&format!("probing {}", directory.display()));
    let measured = layer.apply(run, model, probe_file(directory).as_deref(), "command");
    spinner.finish_and_clear();
    squeeze::accept(measured?, strict).map_err(|error| Failure::from(error).hint("--no-probe starts without a look"))
}

fn child_spec(prepared: &Prepared, args: &Args, squeezes: &Squeezes) -> ChildSpec {
    ChildSpec {
        cwd: std::env::current_dir().ok(),
        foreground: true,
        leave: args.leave,
        grace: GRACE,
        launcher: true,
        program: prepared.program.clone(),
        args: args.command.iter().skip(1).cloned().collect(),
        ..squeezes.for_program()
    }
}

/// Waits until the command ends; fails as soon as a squeeze or the watchdog is gone.
fn attend(run: &Run, child: &Child, squeezes: &Squeezes, mut cache: Option<&mut Watch>) -> Outcome {
    while !child.wait(LOOK_EVERY) {
        if let Some(cache) = cache.as_deref_mut() {
            cache.look();
        }
        // the request to stop came before the command was started
        if interrupt::requested() {
            return Err(interrupted());
        }
        if let Some(reason) = run.neutralised() {
            return Err(ended_by_watchdog(&reason));
        }
        squeezes.check()?;
        if run.dead_child(Role::Watchdog).is_some() {
            return Err(run::Error::WatchdogDied { id: run.id().clone() }.into());
        }
    }
    // if the watchdog has ended the command, the command's status is no exit code of its own
    run.neutralised().map_or(Ok(()), |reason| Err(ended_by_watchdog(&reason)))
}

fn ended_by_watchdog(reason: &str) -> Failure {
    Failure::message(Exit::Failed, format_args!("the watchdog ended the command: {reason}"))
}

fn interrupted() -> Failure {
    Failure::message(Exit::Interrupted, "interrupted; everything is undone")
}

/// The failure to report: a failure by the watchdog's work is the watchdog's, and a failure after a signal is an interruption.
fn explain(run: &Run, failure: Failure) -> Failure {
    match run.neutralised() {
        Some(reason) => ended_by_watchdog(&reason),
        None if interrupt::requested() => interrupted(),
        None => failure,
    }
}

/// Waits for the exit status, which the launcher returns a moment after the command's end.
fn exit_code(run: &mut Run, child: &Child) -> Result<i32, Failure> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Some(code) = run.exit_status(child).map(|status| status.code()) {
            return code.ok_or_else(launcher_killed);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(Failure::message(
        Exit::Failed,
        "the command has ended, but the process of Wringer that started it is still there",
    ))
}

fn launcher_killed() -> Failure {
    let message = "the launcher of the command was killed, and nobody knows what the command has left running";
    Failure::message(Exit::Failed, message)
}

fn seen(
    squeezes: &mut Squeezes,
    probed: Vec<Vec<Measured>>,
    before: &[Stats],
    prepared: &Prepared,
) -> Result<Vec<DiskSeen>, Failure> {
    let all = squeezes.layers_mut().zip(prepared.disks()).zip(probed).zip(before);
    all.map(|(((layer, disk), measured), before)| {
        let after = layer.stats()?;
        Ok(DiskSeen::new(disk, layer.mechanism(), measured, before, &after))
    })
    .collect()
}

/// Refuses the result if the library was not loaded: a program without it ran at full speed, and its result would be useless.
fn refuse_not_loaded(disks: &[DiskSeen]) -> Outcome {
    if disks.iter().all(DiskSeen::was_loaded) {
        return Ok(());
    }
    let message = "the preloaded library was in none of the command's processes: nothing was slowed down";
    Err(Failure::message(Exit::Failed, message)
        .hint("does it change its user, or clear its environment? name the program itself, not what starts it"))
}

fn release(run: Run) -> Outcome {
    let released = run.release()?;
    let Some(first) = released.conflicts.first() else { return Ok(()) };
    let what = format!("{}: expected {}, found {}", first.step, first.expected, first.found);
    let failure = Failure::message(Exit::NotRestored, format!("somebody else changed what we had set: {what}"));
    Err(released.conflicts.iter().fold(failure, |failure, conflict| failure.hint(conflict.repair.clone())))
}

/// The CPUs on which the command may run, as the kernel reports them for the command itself; `None`: the command has ended already.
fn cpus_allowed(child: &Child) -> Option<String> {
    // The pid that the launcher has reported. If the command had ended by then, the child is the launcher itself.
    let pid = child.ready::<LaunchSettings>().ok()?.pid;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
}

/// The CPU time of the children that were waited for, and of their children.
fn children_cpu() -> Duration {
    // SAFETY: the kernel fills the structure, which consists of plain numbers.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let micros = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
    Duration::from_micros(micros(usage.ru_utime) + micros(usage.ru_stime))
}
