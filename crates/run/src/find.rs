// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use crate::alive::{Alive, alive};
use crate::boot::{is_of_another_boot, survives_boot};
use crate::folder::{Folder, all_runs};
use crate::locks::is_held;
use crate::reading::{self, Unsure};
use host::places::Places;
use host::process::{Census, Identity, Mark, Sight};
use journal::{Kind, Namespaces, Reading, RunId, Step, StepState};
use std::time::Duration;

/// A run as it lies on the disk, and what is left of it on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    pub id: RunId,
    /// `None` when the journal does not say.
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
    /// Something may be left of it, and no process is in charge: not live, not left, of this boot. It blocks new runs until `wringer undo`.
    pub hot: bool,
    /// Of another boot: what it changed is gone with that boot.
    pub stale: bool,
    /// Its command has ended and left a server standing; see [`crate::Run::leave`].
    pub left: bool,
    pub ended: bool,
    /// Why the watchdog ended it, when it did.
    pub neutralised: Option<String>,
    /// Each with its phase, oldest first.
    pub steps: Vec<StepState>,
    /// The live processes with the run's token that can be seen, watchdog and controller included.
    pub processes: Vec<Identity>,
    /// Why the run has, or may have, processes that cannot be seen from here. Then nothing of the run is removed, released, or called stopped.
    pub unknown: Option<String>,
    /// Where its controller lived, as its journal says since version 2.
    pub namespaces: Option<Namespaces>,
    /// How far its journal could be read. A run whose journal was not read whole is hot, and never removed.
    pub reading: Reading,
}

/// One look at the runs of these places and at the host. The processes are listed once, for all questions.
#[derive(Debug)]
pub struct Look {
    /// Oldest first.
    pub runs: Vec<FoundRun>,
    pub(crate) census: Census,
}

impl Look {
    /// Changes nothing.
    pub fn take(places: &Places) -> Result<Self, Error> {
        // The processes first: a run that begins meanwhile is among the folders, and a process that ends meanwhile is found dead.
        let census = Census::take();
        let ids = all_runs(places)?;
        let runs = ids.into_iter().map(|id| find_run(places, id, &census)).collect();
        Ok(Self { runs, census })
    }
}

/// All runs of these places, oldest first. Changes nothing.
pub fn find_runs(places: &Places) -> Result<Vec<FoundRun>, Error> {
    Ok(Look::take(places)?.runs)
}

pub(crate) fn find_run(places: &Places, id: RunId, census: &Census) -> FoundRun {
    let mark = Mark { token: Folder::of(places, &id).token(), run_id: id.as_str().to_owned() };
    look_at(places, id, census.with_mark(&mark))
}

fn look_at(places: &Places, id: RunId, sight: Sight) -> FoundRun {
    let folder = Folder::of(places, &id);
    let live = is_held(&folder.owner());
    let reading = reading::read(&folder);
    let alive = alive(&folder, &id, sight, reading.content().map(|content| &content.state));
    describe(id, live, alive, reading, folder.read_reason())
}

fn describe(
    id: RunId,
    live: bool,
    Alive { seen: processes, unknown }: Alive,
    reading: Reading,
    reason: Option<String>,
) -> FoundRun {
    let content = reading.content().cloned().unwrap_or_default();
    let stale = is_of_another_boot(&content);
    let state = content.state;
    let begun = state.begun.as_ref();
    let something_left = match &reading {
        Reading::Whole(_) | Reading::TornTail(_) => {
            !processes.is_empty()
                || unknown.is_some()
                || state.open_steps().iter().any(|step| outlives_processes(&step.change))
        }
        Reading::Damaged(..) | Reading::Unknown(..) | Reading::Unreadable(_) => true,
    };
    // when a journal was not read whole, anything may stand behind its record "ended"
    let is_over = match &reading {
        Reading::Whole(_) | Reading::TornTail(_) => state.ended || state.left,
        Reading::Damaged(..) => state.left && (!processes.is_empty() || unknown.is_some()),
        Reading::Unknown(..) | Reading::Unreadable(_) => false,
    };
    FoundRun {
        id,
        kind: begun.map(|begun| begun.kind),
        command: begun.map(|begun| begun.command.clone()).unwrap_or_default(),
        resources: begun.map(|begun| begun.resources.clone()).unwrap_or_default(),
        started: begun.map_or(0, |begun| begun.started),
        age: begun.filter(|_| !stale).map(|begun| begun.controller.age()),
        controller: begun.map(|begun| begun.controller),
        namespaces: begun.and_then(|begun| begun.namespaces),
        live,
        hot: !live && !stale && !is_over && something_left,
        stale,
        left: state.left,
        ended: state.ended,
        neutralised: state.neutralised.or(reason),
        steps: state.steps,
        processes,
        unknown,
        reading,
    }
}

impl FoundRun {
    /// Nothing of it is left but its folder: it ended, or changed nothing, or its server has gone by itself.
    pub(crate) fn is_debris(&self) -> bool {
        match &self.reading {
            Reading::Whole(_) | Reading::TornTail(_) => {}
            Reading::Damaged(..) | Reading::Unknown(..) | Reading::Unreadable(_) => {
                return journal::forgets_kind("unread");
            }
        }
        let mut open = self.steps.iter().filter(|step| step.is_open());
        let changed =
            |step: &StepState| if self.stale { survives_boot(&step.change) } else { outlives_processes(&step.change) };
        !self.live && !self.hot && self.processes.is_empty() && self.unknown.is_none() && !open.any(changed)
    }

    /// What its journal does not say, with where to look and what to do. `None` when it was read whole.
    pub fn unsure(&self) -> Option<Unsure> {
        Unsure::of(&self.id, &self.reading)
    }
}

/// Processes that are left are found by the run's token; any other change is known from the journal alone.
fn outlives_processes(change: &Step) -> bool {
    !matches!(change, Step::Process { .. } | Step::Note { .. })
}

/// Refuses while something of an earlier run may be left.
///
/// # Errors
/// [`Error::Hot`] with those runs, and with what is wrong with their journals.
pub fn refuse_hot(found: &[FoundRun]) -> Result<(), Error> {
    let hot: Vec<&FoundRun> = found.iter().filter(|run| run.hot && !is_forgotten(run)).collect();
    if hot.is_empty() {
        return Ok(());
    }
    let unread = |run: &&FoundRun| run.unsure().map(|unsure| unsure.why);
    Err(Error::Hot {
        runs: hot.iter().map(|run| run.id.clone()).collect(),
        unread: hot.iter().filter_map(unread).collect(),
    })
}

/// For tests: a Wringer that takes what it cannot read for what is over.
fn is_forgotten(run: &FoundRun) -> bool {
    run.reading.whole().is_none() && journal::forgets_kind("unread")
}
