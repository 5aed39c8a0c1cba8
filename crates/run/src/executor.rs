// SPDX-License-Identifier: Apache-2.0
//! Undo on the real host.

use crate::dismantle::Executor;
use crate::folder::Folder;
use crate::trace::twice;
use crate::{layers, taken};
use host::change::loop_device;
use host::change::mapping::{pass_through, remove_mapping};
use host::change::{self, BUSY_TIMEOUT, Restored};
use host::mapper::Mapping;
use host::mounts::serves_files;
use host::namespace::FUSE_TYPE;
use host::permit::Permit;
use host::process::{self, Identity, Process, StopRequest, Stopped};
use journal::{Content, Members, Outcome, Role, RunId, State, Step, StepState};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// What the last sweep grants before SIGKILL.
const SWEEP_GRACE: Duration = Duration::from_secs(2);

/// Knows a run by its token, and all processes that its journal names.
#[derive(Debug)]
pub(crate) struct RealHost {
    run: RunId,
    folder: Folder,
    /// Recorded in the journal, for any step.
    known: Vec<Identity>,
    /// Another boot than the one in which the journal was written: what does not survive a boot is void.
    stale: bool,
    /// What others have to let go of each mount and device.
    patience: Duration,
    /// What is above the slow layers and stays there, in words.
    served: Vec<String>,
}

impl RealHost {
    pub(crate) fn new(run: RunId, folder: Folder) -> Self {
        Self { run, folder, known: Vec::new(), stale: false, patience: BUSY_TIMEOUT, served: Vec::new() }
    }

    /// For a journal that was read back.
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

    /// Everything that carries the run's mark, except ourselves.
    pub(crate) fn marked(&self) -> Vec<Identity> {
        process::with_mark(&self.folder.token(), self.run.as_str()).found
    }

    /// Marked processes that no record names, and that are not below one that a record names: started, but not written down.
    /// Only the topmost of them: a launcher ends its server, a server its own children.
    pub(crate) fn strays(&self) -> Vec<Identity> {
        let known = process::descendants(&self.known);
        let strays: Vec<Identity> = self.marked().into_iter().filter(|it| !known.contains(it)).collect();
        let below: BTreeSet<Identity> = strays
            .iter()
            .flat_map(|stray| process::descendants(&[*stray]).into_iter().filter(move |it| it != stray))
            .collect();
        strays.into_iter().filter(|stray| !below.contains(stray)).collect()
    }

    /// The processes of a step: as recorded, or, when it was cut before its record, whoever is not accounted for. A watchdog that
    /// undoes its run is one of them, and ends by itself when it is done.
    fn processes_of(&self, step: &StepState) -> Vec<Identity> {
        let own = std::process::id();
        let all = if step.processes.is_empty() { self.strays() } else { step.processes.clone() };
        all.into_iter().filter(|process| process.pid != own).collect()
    }

    /// Its name says whose it is.
    fn is_in_a_cgroup_of_ours(&self, path: &Path) -> bool {
        let ours = format!("wringer-{}", self.run);
        let folder = path.parent().filter(|folder| folder.join("cgroup.procs").exists() || !folder.exists());
        folder.and_then(Path::file_name).is_some_and(|name| name.to_string_lossy().starts_with(&ours))
    }

    fn is_ours_in_a_cgroup(&self, process: &Identity, members: Members) -> bool {
        // the watchdog is the first of all
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
        // it may have a thread that waits for a file system which answers nobody
        if matches!(step.change, Step::Process { role: Role::Watchdog, .. }) {
            return Ok(found(process::stop_main_thread(permit, &processes, request)? != Stopped::AlreadyGone));
        }
        // Of a launcher and its server, the server is asked first, and the launcher ends with it.
        let asked = if step.processes.is_empty() { processes.clone() } else { last_alive(&processes) };
        let asked_outcome = process::stop(permit, &asked, request)?;
        let rest = StopRequest { signal: libc::SIGTERM, ..request };
        let rest_outcome = process::stop(permit, &processes, StopRequest { grace: SWEEP_GRACE, ..rest })?;
        let nothing = asked_outcome == Stopped::AlreadyGone && rest_outcome == Stopped::AlreadyGone;
        Ok(if nothing { Outcome::Nothing } else { Outcome::Restored })
    }

    /// What stays above them, in words; nothing: they may end.
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

    /// As the journal has it, whatever else was written down of it.
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
                // it goes with the cgroup; while somebody is in it, the kernel may keep it (ENOSPC: CPUs of a cpuset of v1)
                let restored = change::restore_value(permit, path, before, &observed_or_set(step));
                Ok(if matches!(restored, Ok(Restored::Restored)) { Outcome::Restored } else { Outcome::Nothing })
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
                Ok(taken::give_back(permit, step)?.unwrap_or(Outcome::Nothing))
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
            // what fails here is tried again by `undo`, which reports it
            let _ = taken::give_back(permit, step);
            return;
        };
        match role {
            Role::Holder => drop(process::stop(permit, &self.processes_of(step), StopRequest::KILL)),
            Role::SlowLayer => self.processes_of(step).into_iter().filter_map(Process::open).for_each(|layer| {
                let _ = layer.signal(Signal::USR1);
                // one that somebody stopped would hold up everybody below it
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
        twice::forget_step(&self.folder.path, &self.run, step.id);
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

/// A journal that does not say counts as one of this boot.
pub(crate) fn is_of_another_boot(content: &Content) -> bool {
    let now = journal::boot_id().ok();
    content.boot_id.as_ref().zip(now).is_some_and(|(then, now)| *then != now)
}

/// What a changed value may be, while nobody else has changed it.
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

/// Kernel values, cgroups, mounts and processes end with the boot; a value in an ordinary file does not.
pub(crate) fn survives_boot(change: &Step) -> bool {
    matches!(change, Step::Value { path, .. } if !path.starts_with("/proc") && !path.starts_with("/sys"))
}

/// For a POSIX shell, whatever the value and path hold.
pub(crate) fn repair_command(path: &Path, before: &str) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    format!("echo {} > {}", quote(before), quote(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repair_command_is_quoted() {
        let command = repair_command(Path::new("/tmp/it's"), "4096 87380");
        assert_eq!(command, r"echo '4096 87380' > '/tmp/it'\''s'");
    }
}
