// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use crate::alive::{Alive, alive};
use crate::executor::survives_boot;
use crate::folder::{Folder, all_runs};
use crate::locks::is_held;
use crate::release::remove_folder;
use host::places::Places;
use host::process::{Identity, Mark, Sight, with_marks};
use host::{chain, files};
use journal::{Kind, RunId, Step, StepState};
use std::time::Duration;

/// A run as it lies on the disk, and what is left of it on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    pub id: RunId,
    /// `None` when the journal cannot be read.
    pub kind: Option<Kind>,
    pub command: Vec<String>,
    /// Names of the locks it holds, or held.
    pub resources: Vec<String>,
    /// Seconds since 1970, as the clock said then; 0 when unknown.
    pub started: u64,
    /// How long ago its controller was started, of a run of this boot: no jump of the clock moves it.
    pub age: Option<Duration>,
    pub controller: Option<Identity>,
    /// Somebody holds the owner lock: its controller, or who undoes it.
    pub live: bool,
    /// Something may be left of it, and nobody cares: not live, not left, this boot. It wants `wringer undo`, and blocks new runs.
    pub hot: bool,
    /// Of another boot: what it changed is gone with that boot.
    pub stale: bool,
    /// Its command has ended and left a server standing; see [`crate::Run::leave`].
    pub left: bool,
    pub ended: bool,
    /// Why the watchdog ended it, when it did.
    pub neutralised: Option<String>,
    /// With how far each has come, oldest first.
    pub steps: Vec<StepState>,
    /// The live processes with the run's token that can be seen, watchdog and controller included.
    pub processes: Vec<Identity>,
    /// Why there are others, or may be, that cannot be seen from here. Nothing of the run is removed, released, or called stopped then.
    pub unknown: Option<String>,
    /// Why the journal cannot be read, or is not ours to touch.
    pub trouble: Option<String>,
    /// Written by a later release.
    pub future: bool,
}

/// All runs of these places, oldest first. Changes nothing.
pub fn find_runs(places: &Places) -> Result<Vec<FoundRun>, Error> {
    let ids = all_runs(places)?;
    let mark = |id: &RunId| Mark { token: Folder::of(places, id).token(), run_id: id.as_str().to_owned() };
    let sights = with_marks(&ids.iter().map(mark).collect::<Vec<_>>());
    Ok(ids.into_iter().zip(sights).map(|(id, sight)| look_at(places, id, sight)).collect())
}

fn look_at(places: &Places, id: RunId, sight: Sight) -> FoundRun {
    let folder = Folder::of(places, &id);
    let live = is_held(&folder.owner());
    let read = files::safe_folder(&folder.path).map_err(journal::Error::Host);
    match read.and_then(|_| journal::read(&folder.journal())) {
        Ok(reading) => {
            let alive = alive(&folder, &id, sight, Some(&reading.state));
            describe(id, live, alive, reading, folder.read_reason())
        }
        Err(error) => {
            let alive = alive(&folder, &id, sight, None);
            unreadable(id, live, alive, &error)
        }
    }
}

fn describe(
    id: RunId,
    live: bool,
    Alive { seen: processes, unknown }: Alive,
    reading: journal::Reading,
    reason: Option<String>,
) -> FoundRun {
    let stale = journal::boot_id().is_ok_and(|now| now != reading.boot_id);
    let state = reading.state;
    let begun = state.begun.as_ref();
    let something_left = !processes.is_empty()
        || unknown.is_some()
        || state.open_steps().iter().any(|step| outlives_processes(&step.change));
    FoundRun {
        id,
        kind: begun.map(|begun| begun.kind),
        command: begun.map(|begun| begun.command.clone()).unwrap_or_default(),
        resources: begun.map(|begun| begun.resources.clone()).unwrap_or_default(),
        started: begun.map_or(0, |begun| begun.started),
        age: begun.filter(|_| !stale).map(|begun| begun.controller.age()),
        controller: begun.map(|begun| begun.controller),
        live,
        hot: !live && !stale && !state.ended && !state.left && something_left,
        stale,
        left: state.left,
        ended: state.ended,
        neutralised: state.neutralised.or(reason),
        steps: state.steps,
        processes,
        unknown,
        trouble: None,
        future: false,
    }
}

/// Without a readable journal nothing was changed under it, unless a later release wrote it, or somebody else.
fn unreadable(id: RunId, live: bool, Alive { seen: processes, unknown }: Alive, error: &journal::Error) -> FoundRun {
    let future = matches!(error, journal::Error::Future { .. });
    let untrusted = matches!(error, journal::Error::Host(host::Error::Untrusted { .. }));
    FoundRun {
        id,
        kind: None,
        command: Vec::new(),
        resources: Vec::new(),
        started: 0,
        age: None,
        controller: None,
        live,
        hot: !live && (future || untrusted || !processes.is_empty() || unknown.is_some()),
        stale: false,
        left: false,
        ended: false,
        neutralised: None,
        steps: Vec::new(),
        processes,
        unknown,
        trouble: Some(chain(error)),
        future,
    }
}

impl FoundRun {
    /// Nothing of it is left but its folder: it ended, or changed nothing, or its server has gone by itself.
    fn is_debris(&self) -> bool {
        let mut open = self.steps.iter().filter(|step| step.is_open());
        let changed =
            |step: &StepState| if self.stale { survives_boot(&step.change) } else { outlives_processes(&step.change) };
        !self.live
            && !self.hot
            && !self.future
            && self.processes.is_empty()
            && self.unknown.is_none()
            && !open.any(changed)
    }
}

/// The token shows what is left of processes; what else a step changes is known from the journal alone.
fn outlives_processes(change: &Step) -> bool {
    !matches!(change, Step::Process { .. } | Step::Note { .. })
}

/// To be called under the begin lock. Clears away what is settled.
pub(crate) fn refuse_when_hot(places: &Places) -> Result<(), Error> {
    let found = find_runs(places)?;
    let hot: Vec<RunId> = found.iter().filter(|run| run.hot).map(|run| run.id.clone()).collect();
    if !hot.is_empty() {
        return Err(Error::Hot { runs: hot });
    }
    found.iter().filter(|run| run.is_debris()).try_for_each(|run| remove_folder(&Folder::of(places, &run.id).path))
}
