// SPDX-License-Identifier: Apache-2.0
//! The things on this host that carry a run's mark, found without its journal: a journal may have been deleted or damaged.
//!
//! In: the host, and the runs that have a journal. Out: a [`Lost`] for each run for which no readable journal of these places answers: what is left
//! of the run, who owns that, and whether a process holds the run. [`lost_runs`] reads nothing from the host; [`HostMarks`] reads it; [`give_back`]
//! undoes.
//!
//! A change without a mark (the pool of huge pages, memory blocks, values) has a second record outside of the journal: [`second_record`].

pub(crate) mod give_back;
mod host_marks;
mod lost_runs;
pub(crate) mod second_record;

use crate::Error;
use crate::find::{FoundRun, Look, find_run};
use crate::folder::Folder;
use host::places::Places;
use host::process::{Census, Identity};
use host_marks::HostMarks;
use journal::{CgroupVersion, Reading, RunId};
use lost_runs::{Below, Known};
use second_record::SecondRecord;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A run that ends loses its processes and its folder one after the other: a trace that disappears within this time is not reported.
const SETTLING: Duration = Duration::from_secs(2);

/// A run without a readable journal below these places, with the traces of it that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub id: RunId,
    pub condition: Condition,
    pub traces: Vec<Trace>,
    /// The folder in which its journal was, or is, if that is known.
    pub journal: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Its journal is gone, and no process is left that could release it.
    CutOff,
    /// Its journal was below these places and is gone; its controller lives.
    Held(Identity),
    /// Its journal is gone; all that is left is a server that should go on running, or programs that are not Wringer's.
    Stands,
    /// It belongs to another `WRINGER_HOME`, and is live.
    LiveElsewhere,
    /// It belongs to another `WRINGER_HOME`, whose `wringer undo` ends it, with or without a journal.
    HotElsewhere,
    /// All its traces belong to this other user.
    Foreign(u32),
}

/// One thing with a run's mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub thing: Thing,
    /// Its mark and its owner prove that the caller may undo it.
    pub is_ours: bool,
    pub owner: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    Process {
        identity: Identity,
        /// For one of Wringer's own processes.
        role: Option<String>,
        command: String,
        has_lifeline: bool,
    },
    Mount {
        target: PathBuf,
        source: String,
        fstype: String,
        /// A process in the mount's namespace, when that is not our namespace.
        namespace_of: Option<u32>,
    },
    Cgroup {
        path: PathBuf,
        version: CgroupVersion,
    },
    LoopDevice {
        path: PathBuf,
        name: String,
    },
    Mapping {
        name: String,
        uuid: String,
    },
    /// A change without a mark, which was recorded beside the lock of its resource.
    Change(Box<SecondRecord>),
}

/// The runs for which no readable journal of these places answers. Changes nothing.
pub fn find_lost(places: &Places, look: &Look) -> Vec<Lost> {
    lost_among(places, &look.runs, &look.census)
}

fn lost_among(places: &Places, found: &[FoundRun], census: &Census) -> Vec<Lost> {
    let seen = HostMarks::take(&places.journal, census);
    let answered: BTreeSet<RunId> = found.iter().filter(|run| is_answered_for(run)).map(|run| run.id.clone()).collect();
    let below = |journal: &Path, id: &RunId| look_below(places, journal, id, census);
    let known = Known { answered: &answered, journal: &canonical(&places.journal), below: &below };
    let mut lost = lost_runs::lost_runs(&seen, &known, rustix::process::geteuid().as_raw());
    lost.retain(|run| !began_meanwhile(places, found, &run.id));
    lost
}

/// Whether the run did not exist when the runs were listed, and exists now.
fn began_meanwhile(places: &Places, found: &[FoundRun], id: &RunId) -> bool {
    !found.iter().any(|run| run.id == *id) && Folder::of(places, id).path.exists()
}

/// All traces with the mark of one run, even if a journal records them.
fn traces_of(places: &Places, id: &RunId) -> Vec<Trace> {
    let seen = HostMarks::take(&places.journal, &Census::take());
    let (journal, answered) = (canonical(&places.journal), BTreeSet::new());
    let known = Known { answered: &answered, journal: &journal, below: &|_, _| Below::Lost };
    let lost = lost_runs::lost_runs(&seen, &known, rustix::process::geteuid().as_raw());
    lost.into_iter().find(|run| run.id == *id).map(|run| run.traces).unwrap_or_default()
}

/// Whether the run's own journal tells what is left of the run, so that the undo uses that journal.
fn is_answered_for(run: &FoundRun) -> bool {
    match &run.reading {
        Reading::Whole(_) | Reading::TornTail(_) => run.live || run.hot || run.left || run.unknown.is_some(),
        // the content of a later format is not guessed; a journal that cannot be read now may be readable later
        Reading::Unknown(..) | Reading::Unreadable(_) => true,
        Reading::Damaged(..) => run.live || run.unknown.is_some(),
    }
}

/// The state of a run whose journal may be in this folder.
fn look_below(places: &Places, journal: &Path, id: &RunId, census: &Census) -> Below {
    if !journal.join(id.as_str()).exists() {
        // the home is still there, and only its journals were deleted: `undo` can be called there
        return if journal.parent().is_some_and(Path::exists) { Below::Lost } else { Below::Nothing };
    }
    let run = find_run(&Places { journal: journal.to_owned(), ..places.clone() }, id.clone(), census);
    match run {
        run if run.live || run.unknown.is_some() => Below::Live,
        run if run.left && !run.hot => Below::Left,
        _ => Below::Hot,
    }
}

/// The canonical path. The journal's folder may be gone; the folder above it is still there.
fn canonical(journal: &Path) -> PathBuf {
    let above = || Some(journal.parent()?.canonicalize().ok()?.join(journal.file_name()?));
    journal.canonicalize().ok().or_else(above).unwrap_or_else(|| journal.to_owned())
}

/// As [`find_lost`], for one run or for all, without runs that are just ending: their traces disappear within moments.
pub fn find_settled(places: &Places, look: &Look, of: Option<&RunId>) -> Vec<Lost> {
    let deadline = Instant::now() + SETTLING;
    let mut lost = find_lost(places, look);
    loop {
        lost.retain(|run| of.is_none_or(|id| run.id == *id));
        if !lost.iter().any(|run| run.is_due() && run.may_be_ending()) || Instant::now() >= deadline {
            return lost;
        }
        std::thread::sleep(Duration::from_millis(50));
        lost = lost_among(places, &look.runs, &Census::take());
    }
}

/// To be called before anything is started: otherwise a change that an earlier run has left would be taken for the host's own state.
///
/// # Errors
/// [`Error::Refused`], which names the traces.
pub fn refuse_lost(places: &Places, look: &Look) -> Result<(), Error> {
    let lost = find_settled(places, look, None);
    let due: Vec<String> = lost.iter().filter(|run| run.is_due()).map(|run| format!("{run}")).collect();
    if due.is_empty() {
        second_record::tidy(&places.journal, &lost);
        return Ok(());
    }
    let what = format!("an earlier run was not undone, and its journal is gone: {}", due.join("; "));
    Err(Error::Refused { what, hint: Some("`wringer undo` puts back what is left of it".into()) })
}

impl Lost {
    /// Whether `wringer undo` must be called for this run, with these places.
    pub fn is_due(&self) -> bool {
        matches!(self.condition, Condition::CutOff | Condition::Held(_))
    }

    /// Whether the run belongs to another `WRINGER_HOME` or user: no undo with these places would remove its traces.
    pub fn is_of_others(&self) -> bool {
        matches!(self.condition, Condition::LiveElsewhere | Condition::HotElsewhere | Condition::Foreign(_))
    }

    /// Whether a process is left that ends by itself when the run ends. Slow layers do not count: they wait for their users.
    fn may_be_ending(&self) -> bool {
        let is_layer = |role: &str| ["slowfs", "slowdisk", "preload"].contains(&role);
        self.traces.iter().any(|trace| match &trace.thing {
            Thing::Process { role, .. } => !role.as_deref().is_some_and(is_layer),
            _ => false,
        })
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let traces: Vec<String> = self.traces.iter().map(|trace| trace.thing.to_string()).collect();
        write!(formatter, "run {}: {}", self.id, traces.join(", "))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff => formatter.write_str("no journal tells of it, and nobody is left who could release it"),
            Self::Held(controller) => {
                write!(formatter, "its journal is gone, its controller (process {}) lives", controller.pid)
            }
            Self::Stands => formatter.write_str("its journal is gone, and what is left changes nothing of the host's"),
            Self::LiveElsewhere => formatter.write_str("live, below another WRINGER_HOME"),
            Self::HotElsewhere => formatter.write_str("cut off, below another WRINGER_HOME"),
            Self::Foreign(uid) => write!(formatter, "of the user with uid {uid}"),
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { identity, role, command, .. } => {
                write!(formatter, "{} (process {})", role.as_deref().unwrap_or(command), identity.pid)
            }
            Self::Mount { target, fstype, namespace_of, .. } => {
                write!(formatter, "mount {fstype} on {}", target.display())?;
                namespace_of.map_or(Ok(()), |pid| write!(formatter, " in the mount namespace of process {pid}"))
            }
            Self::Cgroup { path, .. } => write!(formatter, "cgroup {}", path.display()),
            Self::LoopDevice { path, .. } => write!(formatter, "loop device {}", path.display()),
            Self::Mapping { name, .. } => write!(formatter, "mapping {name}"),
            Self::Change(written) => write!(formatter, "{}", written.change),
        }
    }
}
