// SPDX-License-Identifier: Apache-2.0
//! Undoes runs whose journal is gone: RAM first, delays to zero, servers stopped in order, mounts before the layers that serve them,
//! cgroups when they are empty. A thing that cannot be undone, or belongs to another user, is reported with the command that undoes it.

use super::{Condition, Lost, SETTLING, Thing, Trace, find_lost, find_settled, second_record, traces_of};
use crate::dismantle::{Conflict, Executor as _, repair_command};
use crate::executor::RealHost;
use crate::find::Look;
use crate::folder::Folder;
use crate::undo_report::UndoReport;
use crate::{Error, RunId};
use host::change::POOL;
use host::change::memory::{Blocks, MEMORY, is_online};
use host::permit::Permit;
use host::places::Places;
use host::process::{Identity, Process};
use host::{chain, interrupt};
use journal::{Members, OomVictim, Outcome, Phase, Role, State, Step, StepId, StepState};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a controller that was asked may take: it must stop servers.
const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(180);
/// It is longer than the grace that a launcher itself gives its server.
const SERVER_GRACE_MS: u64 = 180_000;
const GRACE_MS: u64 = 10_000;

/// Undoes the runs for which no journal of these places answers: one run, or all. `first`: a look that was taken just now.
pub(crate) fn undo_lost(
    places: &Places,
    of: Option<&RunId>,
    first: Look,
    report: &mut UndoReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let look = || Ok::<_, Error>(find_settled(places, &Look::take(places)?, of));
    let mut lost = find_settled(places, &first, of);
    let controllers: Vec<Identity> = lost.iter().filter_map(controller).collect();
    if !controllers.is_empty() {
        controllers.iter().for_each(|controller| ask(*controller));
        lost = look()?;
    }
    let due: Vec<Lost> = lost.iter().filter(|run| run.is_due()).cloned().collect();
    for run in &due {
        progress(&format!("run {}, whose journal is gone", run.id));
        give_back(places, run, report);
    }
    let left = if due.is_empty() { lost } else { look()? };
    left.iter().filter(|run| run.is_due()).for_each(|run| tell(run, report));
    let is_left = |id: &RunId| left.iter().any(|run| run.id == *id && run.is_due());
    // a damaged journal does not tell what else the run changed: such a run is not over
    let is_told = |id: &RunId| report.ended.contains(id) || report.unsure.iter().any(|unsure| unsure.run == *id);
    let ended = due.iter().map(|run| run.id.clone()).filter(|id| !is_left(id) && !is_told(id));
    let ended: Vec<RunId> = ended.collect();
    report.ended.extend(ended);
    report.ended.retain(|id| !is_left(id));
    report.left = left;
    // the second records of other runs stay
    let all = if of.is_none() { None } else { Some(find_lost(places, &Look::take(places)?)) };
    second_record::tidy(&places.journal, all.as_ref().unwrap_or(&report.left));
    Ok(())
}

/// To be called before the undo of a journal that may have lost records. Removes mounts and devices that have the run's mark and that no step
/// records: the slow layer below them is ended later. Returns the failures.
pub(crate) fn take_unrecorded(places: &Places, id: &RunId, state: &State, host: &mut RealHost) -> Vec<String> {
    let open = state.open_steps();
    let is_recorded = |change: &Step| open.iter().any(|step| is_same(&step.change, change));
    let mut steps: Vec<(u8, StepState)> = traces_of(places, id)
        .iter()
        .filter(|trace| trace.is_ours && is_served(&trace.thing))
        .filter_map(|trace| step_of(&trace.thing))
        .filter(|(_, step)| !is_recorded(&step.change))
        .collect();
    steps.sort_by_key(|(order, _)| *order);
    let mut failures = Vec::new();
    for (_, step) in steps {
        if let Err(error) = host.undo(&permit(), &step) {
            failures.push(format!("run {id}, {}: {}", step.change, chain(&error)));
        }
    }
    failures
}

/// Whether a slow layer may be below it.
fn is_served(thing: &Thing) -> bool {
    matches!(thing, Thing::Mount { .. } | Thing::LoopDevice { .. } | Thing::Mapping { .. })
}

fn is_same(one: &Step, other: &Step) -> bool {
    match (one, other) {
        (Step::Mount { source, .. }, Step::Mount { source: other, .. }) => source == other,
        (Step::LoopDevice { name, .. }, Step::LoopDevice { name: other, .. }) => name == other,
        (Step::Mapping { uuid, .. }, Step::Mapping { uuid: other, .. }) => uuid == other,
        _ => false,
    }
}

fn controller(run: &Lost) -> Option<Identity> {
    if let Condition::Held(controller) = run.condition { Some(controller) } else { None }
}

/// Asks a controller to release its run: it still has its deleted journal open. A controller that does not end in time is killed.
fn ask(controller: Identity) {
    let Some(process) = Process::open(controller) else { return };
    let asked = process.signal(Signal::TERM).and_then(|()| process.signal(Signal::CONT)).is_ok();
    let deadline = Instant::now() + if asked { CONTROLLER_TIMEOUT } else { Duration::ZERO };
    while !process.wait(Duration::from_millis(100)) {
        if Instant::now() >= deadline || interrupt::impatient() {
            let _ = host::process::kill_alone(&permit(), &[controller]);
            process.wait(SETTLING);
            return;
        }
    }
}

/// A permit without a journal: there is no journal to record these changes in. Each undo looks at the present state, and may be repeated.
#[allow(clippy::disallowed_methods)]
fn permit() -> Permit {
    Permit::issue(0)
}

fn give_back(places: &Places, run: &Lost, report: &mut UndoReport) {
    let journal = run.journal.clone().unwrap_or_else(|| places.journal.clone());
    let mut host = RealHost::new(run.id.clone(), Folder { path: journal.join(run.id.as_str()) });
    let steps = steps_of(run);
    steps.iter().for_each(|step| host.neutralise(&permit(), step));
    let mut is_served = false;
    for step in &steps {
        if is_served && is_layer(&step.change) {
            // the layer serves on without delay below a mount in use; the look afterwards reports the mount
            continue;
        }
        match host.undo(&permit(), step) {
            Ok(Outcome::Conflict { expected, found, repair }) => report.conflicts.push(Conflict {
                run: run.id.clone(),
                step: step.change.to_string(),
                expected,
                found,
                repair,
            }),
            Ok(_) => report.restored.push(step.change.to_string()),
            Err(error) => {
                is_served |= matches!(step.change, Step::Mount { .. } | Step::LoopDevice { .. });
                report.failures.push(format!("run {}, {}: {}", run.id, step.change, chain(&error)));
            }
        }
    }
}

fn is_layer(change: &Step) -> bool {
    matches!(change, Step::Process { role: Role::SlowLayer, .. })
}

/// The run's own traces as steps, in the order of their undo.
fn steps_of(run: &Lost) -> Vec<StepState> {
    let mut steps: Vec<(u8, StepState)> =
        run.traces.iter().filter(|trace| trace.is_ours).filter_map(|trace| step_of(&trace.thing)).collect();
    // changes of the same kind are undone newest first
    steps.sort_by_key(|(order, step)| (*order, std::cmp::Reverse(step.id)));
    steps.into_iter().map(|(_, step)| step).collect()
}

fn step_of(thing: &Thing) -> Option<(u8, StepState)> {
    let new = |order, change| Some((order, step(change, Vec::new())));
    match thing {
        Thing::Process { identity, role, command, .. } => {
            let (order, role, grace_ms) = match role.as_deref() {
                Some("holder" | "balloon") => (0, Role::Holder, 0),
                Some("launch") => (2, Role::Launcher, SERVER_GRACE_MS),
                Some("slowfs" | "slowdisk" | "preload") => (7, Role::SlowLayer, GRACE_MS),
                Some("watchdog") => (10, Role::Watchdog, GRACE_MS),
                _ => (3, Role::Server, GRACE_MS),
            };
            let stop_signal = if role == Role::Holder { libc::SIGKILL } else { libc::SIGTERM };
            let change = Step::Process { role, program: command.clone(), stop_signal, grace_ms };
            Some((order, step(change, vec![*identity])))
        }
        Thing::Change(written) => {
            let order = if matches!(written.change, Step::Value { .. }) { 9 } else { 1 };
            Some((order, written.as_step()))
        }
        Thing::Mapping { name, uuid } => {
            new(4, Step::Mapping { name: name.clone(), uuid: uuid.clone(), device: name.into() })
        }
        Thing::LoopDevice { name, path } => {
            new(5, Step::LoopDevice { name: name.clone(), image: path.clone(), read_ahead: None })
        }
        Thing::Mount { namespace_of: Some(_), .. } => None,
        Thing::Mount { target, source, fstype, .. } => {
            new(6, Step::Mount { target: target.clone(), source: source.clone(), fstype: fstype.clone() })
        }
        Thing::Cgroup { path, version } => {
            new(8, Step::Cgroup { path: path.clone(), version: *version, home: None, members: Members::default() })
        }
    }
}

fn step(change: Step, processes: Vec<Identity>) -> StepState {
    StepState {
        id: StepId(0),
        change,
        oom_victim: OomVictim::default(),
        phase: Phase::Done,
        completed: true,
        processes,
        observed: None,
    }
}

/// Reports the traces that are left after everything was tried.
fn tell(run: &Lost, report: &mut UndoReport) {
    let id = &run.id;
    let told = |trace: &Trace| match trace.is_ours {
        true => format!("run {id}: {} is still there; as root: {}", trace.thing, command(&trace.thing)),
        false => format!("run {id}: {} is not yours{}: {}", trace.thing, of(trace.owner), command(&trace.thing)),
    };
    report.failures.extend(run.traces.iter().map(told));
}

fn of(owner: Option<u32>) -> String {
    owner.map(|uid| format!(", but of uid {uid}")).unwrap_or_default()
}

/// The shell command with which a person would undo the trace.
pub(super) fn command(thing: &Thing) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    match thing {
        Thing::Process { identity, .. } => format!("kill {}", identity.pid),
        Thing::Mount { target, namespace_of: None, .. } => format!("umount {}", quoted(target)),
        Thing::Mount { target, namespace_of: Some(pid), .. } => {
            format!("nsenter -t {pid} -m umount {}", quoted(target))
        }
        Thing::Cgroup { path, .. } => format!("rmdir {}", quoted(path)),
        Thing::LoopDevice { path, .. } => format!("losetup -d {}", quoted(path)),
        Thing::Mapping { name, .. } => format!("dmsetup remove {name}"),
        Thing::Change(written) => repair(&written.change),
    }
}

fn repair(change: &Step) -> String {
    match change {
        Step::Value { path, before, .. } => repair_command(path, before),
        Step::HugePool { before, .. } => repair_command(Path::new(POOL), &before.to_string()),
        Step::MemoryBlocks { kernel, movable, .. } => {
            let offline = |list: &str| -> Vec<u32> {
                Blocks::parse(list).unwrap_or_default().0.into_iter().filter(|block| !is_online(*block)).collect()
            };
            let word = |list: &str, word: &str| {
                let numbers: Vec<String> = offline(list).iter().map(ToString::to_string).collect();
                let numbers = numbers.join(" ");
                (!numbers.is_empty())
                    .then(|| format!("for n in {numbers}; do echo {word} > {MEMORY}/memory$n/state; done"))
            };
            let both = [word(kernel, "online_kernel"), word(movable, "online_movable")];
            both.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

impl Lost {
    /// The `WRINGER_HOME` to which the run belongs.
    pub fn home(&self) -> Option<&Path> {
        self.journal.as_deref()?.parent()
    }

    /// A note for the user who undoes something here: what was found and left alone, and what would end it. `None`: the run is live, or must be
    /// undone.
    pub fn note(&self) -> Option<String> {
        let id = &self.id;
        match &self.condition {
            Condition::CutOff | Condition::Held(_) | Condition::LiveElsewhere | Condition::HotElsewhere => None,
            Condition::Stands => {
                let commands: Vec<String> = self.traces.iter().map(Trace::command).collect();
                Some(format!(
                    "run {id} was left alone: {}; a sandbox's server ends with `wringer sandbox stop`, anything else with: {}",
                    self.condition,
                    commands.join("; ")
                ))
            }
            Condition::Foreign(uid) => Some(format!(
                "{self} was left alone: it is of the user with uid {uid}, whose `wringer undo` ends it unless it is live"
            )),
        }
    }
}

impl Trace {
    /// The shell command that undoes this trace by hand.
    pub fn command(&self) -> String {
        command(&self.thing)
    }
}
