// SPDX-License-Identifier: Apache-2.0
//! Undoes steps on the real host.

use crate::boot::{is_of_another_boot, survives_boot};
use crate::dismantle::{Executor, repair_command};
use crate::folder::Folder;
use crate::trace::second_record;
use crate::{controllers, layers, ram_steps};
use host::change::loop_device;
use host::change::mapping::{pass_through, remove_mapping};
use host::change::{self, Restored, busy_timeout};
use host::mapper::Mapping;
use host::mounts::serves_files;
use host::namespace::FUSE_TYPE;
use host::permit::Permit;
use host::process::{self, Identity, Process, StopRequest, Stopped};
use journal::{Content, Members, Outcome, Role, RunId, State, Step, StepState};
use rustix::process::Signal;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The time that the last sweep gives processes before SIGKILL.
const SWEEP_GRACE: Duration = Duration::from_secs(2);

/// The real host, for one run. It finds the run's processes by the token, and by the journal, which names them.
#[derive(Debug)]
pub(crate) struct RealHost {
    run: RunId,
    folder: Folder,
    /// The processes that the journal records, for any step.
    known: Vec<Identity>,
    /// The journal was written in an earlier boot: only changes that survive a boot are undone.
    stale: bool,
    /// How long to wait until others stop using a mount or a device.
    patience: Duration,
    /// The mounts and devices that still use the slow layers, in words.
    served: Vec<String>,
    /// Whether the last process that was asked to end did not end in its time, and was killed.
    killed: Cell<bool>,
}

impl RealHost {
    pub(crate) fn new(run: RunId, folder: Folder) -> Self {
        let (known, served, killed) = (Vec::new(), Vec::new(), Cell::new(false));
        Self { run, folder, known, stale: false, patience: busy_timeout(), served, killed }
    }

    /// For a journal that was read from the disk.
    pub(crate) fn for_journal(run: RunId, folder: Folder, content: &Content) -> Self {
        Self { stale: is_of_another_boot(content), ..Self::of_state(run, folder, &content.state) }
    }

    /// For a run of this boot.
    pub(crate) fn of_state(run: RunId, folder: Folder, state: &State) -> Self {
        let known = state.steps.iter().flat_map(|step| step.processes.clone()).collect();
        Self { known, ..Self::new(run, folder) }
    }

    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(crate) fn know(&mut self, process: Identity) {
        self.known.push(process);
    }

    /// Whether the last process that was asked to end did not end in its time, and was killed.
    pub(crate) fn has_killed(&self) -> bool {
        self.killed.get()
    }

    /// Every process that carries the run's mark, except the caller.
    pub(crate) fn marked(&self) -> Vec<Identity> {
        process::with_mark(&self.folder.token(), self.run.as_str()).found
    }

    /// Marked processes that were started and not recorded: the journal names neither them nor a process above them. Only the topmost of them: a
    /// launcher ends its server, and a server ends its own children.
    pub(crate) fn strays(&self) -> Vec<Identity> {
        let known = process::descendants(&self.known);
        let strays: Vec<Identity> = self.marked().into_iter().filter(|it| !known.contains(it)).collect();
        let below: BTreeSet<Identity> = strays
            .iter()
            .flat_map(|stray| process::descendants(&[*stray]).into_iter().filter(move |it| it != stray))
            .collect();
        strays.into_iter().filter(|stray| !below.contains(stray)).collect()
    }

    /// The recorded processes of a step, or, if there is no record, all marked processes without a record. Never the caller: a watchdog that undoes
    /// its run is a marked process.
    fn processes_of(&self, step: &StepState) -> Vec<Identity> {
        let own = std::process::id();
        let all = if step.processes.is_empty() { self.strays() } else { step.processes.clone() };
        all.into_iter().filter(|process| process.pid != own).collect()
    }

    /// Whether the file is in a cgroup of this run, by the cgroup's name.
    fn is_in_a_cgroup_of_ours(&self, path: &Path) -> bool {
        let ours = format!("wringer-{}", self.run);
        let folder = path.parent().filter(|folder| folder.join("cgroup.procs").exists() || !folder.exists());
        folder.and_then(Path::file_name).is_some_and(|name| name.to_string_lossy().starts_with(&ours))
    }

    fn is_ours_in_a_cgroup(&self, process: &Identity, members: Members) -> bool {
        // the watchdog is the run's first process, so no process of the run is older
        let began = self.known.iter().map(|known| known.start_time).min();
        match members {
            Members::Leave => false,
            Members::Marked => process::carries_mark(process, &self.folder.token(), self.run.as_str()),
            Members::Command => {
                began.is_some_and(|began| process.start_time >= began)
                    && !process::is_of_another_run(process.pid, &self.folder.token())
            }
        }
    }

    fn end_process(&self, permit: &Permit, step: &StepState, request: StopRequest) -> Result<Outcome, host::Error> {
        let processes = self.processes_of(step);
        // a thread of the watchdog may wait for a file system that hangs
        if matches!(step.change, Step::Process { role: Role::Watchdog, .. }) {
            return Ok(found(process::stop_main_thread(permit, &processes, request)? != Stopped::AlreadyGone));
        }
        // Of a launcher and its server, the server is asked to end first; the launcher then ends by itself.
        let asked = if step.processes.is_empty() { processes.clone() } else { last_alive(&processes) };
        let asked_outcome = process::stop(permit, &asked, request)?;
        self.killed.set(asked_outcome == Stopped::Killed);
        let rest = StopRequest { signal: libc::SIGTERM, ..request };
        let rest_outcome = process::stop(permit, &processes, StopRequest { grace: SWEEP_GRACE, ..rest })?;
        let nothing = asked_outcome == Stopped::AlreadyGone && rest_outcome == Stopped::AlreadyGone;
        Ok(if nothing { Outcome::Nothing } else { Outcome::Restored })
    }

    /// `served`: the mounts and devices that still use the slow layers, in words. When it is empty, the layers may end.
    pub(crate) fn layers_serve_on(&mut self, served: &[String]) {
        served.clone_into(&mut self.served);
    }

    fn end_layers(&self, permit: &Permit, processes: &[Identity]) -> Result<Stopped, host::Error> {
        if !self.served.is_empty() {
            return Err(host::Error::InUse { path: "the slow layer".into(), by: self.served.clone() });
        }
        let ours = layers::ours(&self.folder.path, &format!("wringer-{}", self.run), FUSE_TYPE);
        layers::end(permit, processes, &ours, self.patience)
    }

    /// Undoes the step as the journal records it; the second record is not read.
    fn undo_once(&self, permit: &Permit, step: &StepState) -> Result<Outcome, host::Error> {
        if self.stale && !survives_boot(&step.change) {
            return Ok(Outcome::Nothing);
        }
        match &step.change {
            Step::Process { role: Role::SlowLayer, .. } => {
                Ok(found(self.end_layers(permit, &self.processes_of(step))? != Stopped::AlreadyGone))
            }
            Step::Process { stop_signal, grace_ms, .. } => {
                let request = StopRequest { signal: *stop_signal, grace: Duration::from_millis(*grace_ms) };
                self.end_process(permit, step, request)
            }
            Step::Value { path, before, .. } if self.is_in_a_cgroup_of_ours(path) => {
                // the value ends with its cgroup; while a process is in the cgroup, the kernel may refuse the write (ENOSPC: CPUs of a cpuset of v1)
                let restored = change::restore_value(permit, path, before, &observed_or_set(step));
                Ok(if matches!(restored, Ok(Restored::Restored)) { Outcome::Restored } else { Outcome::Nothing })
            }
            change @ Step::Value { path, before, after } if controllers::is_switch(change) => {
                let _one_at_a_time = controllers::locked(&self.folder.path).ok();
                if controllers::is_in_use_by_another(&self.folder.path, &self.run, change) {
                    return Ok(Outcome::Nothing);
                }
                Self::restore_value(permit, step, path, before, after)
            }
            Step::Value { path, before, after } => Self::restore_value(permit, step, path, before, after),
            Step::Cgroup { path, home, members, .. } => {
                let is_ours = |process: &Identity| self.is_ours_in_a_cgroup(process, *members);
                Ok(found(change::remove_cgroup(permit, path, home.as_deref(), &is_ours)?))
            }
            Step::Mount { source, fstype, .. } => {
                let ours = layers::ours(&self.folder.path, source, fstype);
                Ok(found(change::unmount(permit, &ours, layers::served(&self.marked()), self.patience)?))
            }
            Step::HugePool { .. } | Step::MemoryBlocks { .. } => {
                Ok(ram_steps::give_back(permit, step)?.unwrap_or(Outcome::Nothing))
            }
            Step::Mapping { name, uuid, .. } => Ok(found(remove_mapping(permit, &mapping(name, uuid), self.patience)?)),
            Step::LoopDevice { name, read_ahead, .. } => {
                let detached = loop_device::detach(permit, name, self.patience)?;
                let put_back =
                    read_ahead.as_ref().map(|it| loop_device::restore_read_ahead(permit, &it.path, &it.before));
                Ok(found(put_back.transpose()?.unwrap_or_default() || detached))
            }
            Step::Note { .. } => Ok(Outcome::Nothing),
        }
    }

    fn restore_value(
        permit: &Permit,
        step: &StepState,
        path: &Path,
        before: &str,
        after: &str,
    ) -> Result<Outcome, host::Error> {
        Ok(match change::restore_value(permit, path, before, &observed_or_set(step))? {
            Restored::Restored => Outcome::Restored,
            Restored::Already | Restored::Missing => Outcome::Nothing,
            Restored::Foreign(found) => {
                Outcome::Conflict { expected: after.to_owned(), found, repair: repair_command(path, before) }
            }
        })
    }
}

impl Executor for RealHost {
    fn neutralise(&mut self, permit: &Permit, step: &StepState) {
        if self.stale || journal::forgets(&step.change) {
            return;
        }
        if let Step::Mapping { name, uuid, .. } = &step.change {
            let _ = pass_through(permit, &mapping(name, uuid));
            return;
        }
        let Step::Process { role, .. } = step.change else {
            // `undo` tries again, and reports the failure
            let _ = ram_steps::give_back(permit, step);
            return;
        };
        match role {
            Role::Holder => drop(process::stop(permit, &self.processes_of(step), StopRequest::KILL)),
            Role::SlowLayer => self.processes_of(step).into_iter().filter_map(Process::open).for_each(|layer| {
                let _ = layer.signal(Signal::USR1);
                // a stopped layer would block every process that uses its files
                let _ = layer.signal(Signal::CONT);
            }),
            _ => {}
        }
    }

    fn undo(&mut self, permit: &Permit, step: &StepState) -> Result<Outcome, host::Error> {
        if journal::forgets(&step.change) {
            return Ok(Outcome::Nothing);
        }
        let outcome = self.undo_once(permit, step)?;
        second_record::forget_step(&self.folder.path, &self.run, step.id);
        Ok(outcome)
    }

    fn sweep(&mut self, permit: &Permit, spared: &[Identity]) -> Result<(), host::Error> {
        if self.stale || journal::forgets_kind("process") {
            return Ok(());
        }
        let left =
            || -> Vec<Identity> { self.marked().into_iter().filter(|process| !spared.contains(process)).collect() };
        let (layers, others): (Vec<_>, Vec<_>) = left().into_iter().partition(|it| serves_files(it.pid));
        process::stop(permit, &others, StopRequest { signal: libc::SIGTERM, grace: SWEEP_GRACE })?;
        self.end_layers(permit, &layers)?;
        let pids: Vec<u32> = left().iter().map(|identity| identity.pid).collect();
        if pids.is_empty() { Ok(()) } else { Err(host::Error::Unstoppable { pids }) }
    }
}

/// The values that the run itself may have written to the file.
fn observed_or_set(step: &StepState) -> Vec<&str> {
    let set = if let Step::Value { after, .. } = &step.change { Some(after.as_str()) } else { None };
    set.into_iter().chain(step.observed.as_deref()).collect()
}

fn mapping(name: &str, uuid: &str) -> Mapping {
    Mapping { name: name.to_owned(), uuid: uuid.to_owned() }
}

fn last_alive(processes: &[Identity]) -> Vec<Identity> {
    processes.iter().rev().find(|process| process.is_alive()).copied().into_iter().collect()
}

fn found(was_there: bool) -> Outcome {
    if was_there { Outcome::Restored } else { Outcome::Nothing }
}
