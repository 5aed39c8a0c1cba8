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

/// A run as its folder on the disk shows it, and the parts of it that are left on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    pub id: RunId,
    /// `None` when the journal does not tell.
    pub kind: Option<Kind>,
    pub command: Vec<String>,
    /// Names of the locks that the run holds, or held.
    pub resources: Vec<String>,
    /// Seconds since 1970, by the clock at that time; 0 when unknown.
    pub started: u64,
    /// The time since the controller of a run of this boot was started: setting the clock does not change it.
    pub age: Option<Duration>,
    pub controller: Option<Identity>,
    /// A process holds the owner lock: the run's controller, or the process that undoes the run.
    pub live: bool,
    /// Changes of the run may be left, and no process is in charge of them: the run is not live, not left, and of this boot. It blocks new runs until
    /// `wringer undo`.
    pub hot: bool,
    /// The run is of another boot: its changes ended with that boot.
    pub stale: bool,
    /// Its command has ended and has left a server running; see [`crate::Run::leave`].
    pub left: bool,
    pub ended: bool,
    /// Why the watchdog ended the run, if it did.
    pub neutralised: Option<String>,
    /// The steps with their phases, oldest first.
    pub steps: Vec<StepState>,
    /// The live processes with the run's token that can be seen, watchdog and controller included.
    pub processes: Vec<Identity>,
    /// Why the run has, or may have, processes that cannot be seen from here. Then nothing of the run is removed, released, or called stopped.
    pub unknown: Option<String>,
    /// The namespaces of its controller, which a journal tells since version 2.
    pub namespaces: Option<Namespaces>,
    /// How far its journal could be read. A run whose journal was not read as a whole is hot, and is never removed.
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
        // The processes are listed first: then a run that begins meanwhile has its folder in the second list, and a process that ends meanwhile is
        // found dead.
        let census = Census::take();
        let ids = all_runs(places)?;
        let runs = oldest_first(ids.into_iter().map(|id| find_run(places, id, &census)).collect());
        Ok(Self { runs, census })
    }
}

/// An id has a second and then random digits, and a script begins several runs in a second: there, the start of the controllers tells which run was
/// first. The runs of one second are of one boot, so that their clock ticks can be compared. A run whose journal cannot be read comes last of its second:
/// the undo looks at it first.
fn oldest_first(mut runs: Vec<FoundRun>) -> Vec<FoundRun> {
    let start = |run: &FoundRun| run.controller.map_or(u64::MAX, |controller| controller.start_time);
    runs.sort_by(|one, other| {
        let seconds = one.id.second().cmp(other.id.second());
        seconds.then_with(|| start(one).cmp(&start(other))).then_with(|| one.id.cmp(&other.id))
    });
    runs
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
    // when a journal was not read as a whole, any record may follow its record "ended"
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
    /// Only its folder is left: the run ended, or changed nothing, or its server has ended by itself.
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

    /// The things that its journal does not tell, with where to look and what to do. `None` when the journal was read as a whole.
    pub fn unsure(&self) -> Option<Unsure> {
        Unsure::of(&self.id, &self.reading)
    }
}

/// Whether the change is known from the journal alone. Processes that are left can also be found by the run's token.
fn outlives_processes(change: &Step) -> bool {
    !matches!(change, Step::Process { .. } | Step::Note { .. })
}

/// Refuses while changes of an earlier run may be left.
///
/// # Errors
/// [`Error::Hot`] with those runs, and with the damage of their journals.
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

/// For tests: a Wringer that treats a run with an unreadable journal as one that is over.
fn is_forgotten(run: &FoundRun) -> bool {
    run.reading.whole().is_none() && journal::forgets_kind("unread")
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::{Begun, Content};

    fn found(second: u64, random: u64, start_time: Option<u64>) -> FoundRun {
        let id = RunId::new(second, random);
        let begun = start_time.map(|start_time| Begun {
            run: id.clone(),
            build: String::new(),
            uid: 0,
            controller: Identity { pid: 1, start_time },
            namespaces: None,
            boot_id: None,
            kind: Kind::Run,
            command: vec![],
            resources: vec![],
            started: second,
        });
        let mut content = Content::default();
        content.state.begun = begun;
        describe(id, false, Alive { seen: vec![], unknown: None }, Reading::Whole(content), None)
    }

    #[test]
    fn runs_of_one_second_are_in_the_order_in_which_they_began() {
        let runs = [
            found(8, 1, Some(5)),
            found(7, 0x1, None),
            found(7, 0x2, Some(30)),
            found(7, 0xf, Some(20)),
            found(6, 9, Some(90)),
        ];
        let order: Vec<String> = oldest_first(runs.into()).iter().map(|run| run.id.to_string()).collect();
        let digits: Vec<&str> = order.iter().map(|id| &id[id.len() - 6..]).collect();
        assert_eq!(digits, ["6-0009", "7-000f", "7-0002", "7-0001", "8-0001"]);
    }
}
