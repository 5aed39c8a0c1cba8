// SPDX-License-Identifier: Apache-2.0
//! Putting back what others left: dead runs from their journals, live ones by asking their controller first.

use crate::Error;
use crate::dismantle::{Conflict, Executor as _, dismantle, neutralise};
use crate::executor::RealHost;
use crate::find::{FoundRun, find_runs};
use crate::folder::{Folder, locks, require_own};
use crate::locks::{begin_lock, lock_within};
use crate::release::{close, graces, note_reason, remove_folder};
use host::change::BUSY_TIMEOUT;
use host::places::Places;
use host::process::{Process, holders_of, kill_alone};
use host::{chain, files};
use journal::{Journal, Outcome, Phase, RunId, State, Step};
use rustix::process::Signal;
use std::fs::File;
use std::time::{Duration, Instant};

/// How long an asked controller, or a watchdog at work, may take beyond the graces of its children before it is replaced.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);
/// The owner lock of a killed process is free within moments.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// What others have at least to let go of what is busy, also after a controller that has waited for them.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every run, live or not, but a standing server only when it or its disk was squeezed.
    All,
    One(RunId),
}

/// What [`undo`] found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Runs that have ended now.
    pub ended: Vec<RunId>,
    pub restored: Vec<String>,
    /// Not empty: exit code 5.
    pub conflicts: Vec<Conflict>,
    /// Not empty: exit code 5; the journals stay, and another `wringer undo` tries again.
    pub failures: Vec<String>,
    /// Left as they are, with the reason: standing servers, journals of a later release.
    pub untouched: Vec<(RunId, String)>,
    /// Left as they are, because processes of theirs may live that cannot be seen from here. Not empty: exit code 3.
    pub unknown: Vec<(RunId, String)>,
}

impl UndoReport {
    /// Everything that was to be put back is back.
    pub fn is_whole(&self) -> bool {
        self.conflicts.is_empty() && self.failures.is_empty()
    }
}

/// Ends runs and gives the host back. May be repeated; deletes nothing but run folders.
///
/// # Errors
/// The named run does not exist; the journals are somebody else's, and nothing was looked at. What does not come back is in the report, not an error.
pub fn undo(places: &Places, scope: Scope, progress: &mut dyn FnMut(&str)) -> Result<UndoReport, Error> {
    let mut report = UndoReport::default();
    require_own(places)?;
    let mut found = find_runs(places)?;
    if let Scope::One(id) = &scope {
        found.retain(|run| run.id == *id);
        if found.is_empty() {
            return Err(Error::NoSuchRun { id: id.clone() });
        }
    }
    for run in found.iter().rev() {
        match (&run.unknown, reason_to_leave(run, &scope)) {
            (Some(why), _) => report.unknown.push((run.id.clone(), why.clone())),
            (None, Some(reason)) => report.untouched.push((run.id.clone(), reason)),
            (None, None) => undo_run(places, run, &mut report, progress),
        }
    }
    Ok(report)
}

fn reason_to_leave(run: &FoundRun, scope: &Scope) -> Option<String> {
    if run.future {
        return run.trouble.clone();
    }
    let squeezed = run.steps.iter().any(|step| step.is_open() && is_squeeze(&step.change));
    let stands = *scope == Scope::All && run.left && !squeezed && !run.processes.is_empty();
    stands.then(|| "a standing server; `wringer sandbox stop` ends it".to_owned())
}

/// Anything but a server with its launcher.
fn is_squeeze(change: &Step) -> bool {
    use journal::Role::{Launcher, Server, Watchdog};
    !matches!(change, Step::Process { role: Launcher | Server | Watchdog, .. } | Step::Note { .. })
}

fn undo_run(places: &Places, run: &FoundRun, report: &mut UndoReport, progress: &mut dyn FnMut(&str)) {
    progress(&format!("run {}", run.id));
    let folder = Folder::of(places, &run.id);
    let path = folder.journal();
    // what another user has written is no order
    let own = folder.require_own().and_then(|()| match files::open_safe(&path, false) {
        Err(error @ host::Error::Untrusted { .. }) => Err(error),
        other => Ok(other.ok()),
    });
    let journal = match own {
        Ok(journal) => journal,
        Err(error) => {
            report.failures.push(format!("run {}: its journal is not acted upon: {}", run.id, chain(&error)));
            return;
        }
    };
    let by_others =
        || journal.and_then(|file| journal::read_open(&file, &path).ok()).map(|it| outcomes(&run.id, &it.state));
    let undone = take_over(places, run).and_then(|taken| match taken {
        Some(Taken { _owner, patience }) => undo_owned(places, &run.id, patience, progress),
        None => Ok(by_others()),
    });
    match undone {
        Ok(released) => {
            report.ended.push(run.id.clone());
            if let Some(released) = released {
                report.restored.extend(released.restored);
                report.conflicts.extend(released.conflicts);
            }
        }
        Err(Error::NotRestored { failures, .. }) => report.failures.extend(failures),
        Err(error) => report.failures.push(format!("run {}: {}", run.id, chain(&error))),
    }
}

/// What the steps of an ended run came to, from its journal.
fn outcomes(run: &RunId, state: &State) -> crate::Released {
    let run = run.clone();
    let mut released = crate::Released {
        run: run.clone(),
        restored: Vec::new(),
        conflicts: Vec::new(),
        neutralised: state.neutralised.clone(),
    };
    for step in state.steps.iter().rev() {
        let name = step.change.to_string();
        match step.phase.clone() {
            Phase::Undone(Outcome::Conflict { expected, found, repair }) => {
                released.conflicts.push(Conflict { run: run.clone(), step: name, expected, found, repair });
            }
            Phase::Undone(_) => released.restored.push(name),
            Phase::Intended | Phase::Done | Phase::Undoing => {}
        }
    }
    released
}

/// A run that is to be undone here.
struct Taken {
    /// Its lock.
    _owner: File,
    /// What others have to let go of what is busy.
    patience: Duration,
}

/// `None` when the run has ended meanwhile, by the hand of its controller or its watchdog.
fn take_over(places: &Places, run: &FoundRun) -> Result<Option<Taken>, Error> {
    let path = Folder::of(places, &run.id).owner();
    let taken = |owner, patience| Some(Taken { _owner: owner, patience }).filter(|_| path.exists());
    if run.live {
        let began = Instant::now();
        let asked = ask_controller(run);
        if let Some(owner) = lock_within(&path, RELEASE_TIMEOUT + graces(&run.steps))? {
            let waited = if asked { began.elapsed() } else { Duration::ZERO };
            return Ok(taken(owner, patience_after(waited)));
        }
        replace_holders(&path)?;
    }
    if !path.exists() && clear_ended(places, &run.id)? {
        return Ok(None);
    }
    match lock_within(&path, LOCK_TIMEOUT)? {
        Some(owner) => Ok(taken(owner, BUSY_TIMEOUT)),
        None if path.exists() => Err(Error::Busy { resource: format!("run {}", run.id), owner: None, journal: None }),
        None => Ok(None),
    }
}

/// A folder without its owner lock is one whose removal was begun, and perhaps cut: then the rest goes, too. `false`: its journal
/// says that the run has not ended.
fn clear_ended(places: &Places, id: &RunId) -> Result<bool, Error> {
    let folder = Folder::of(places, id);
    if !folder.path.exists() {
        return Ok(true);
    }
    // who begins a run makes the folder first, and then the lock
    let _beginning = locks(places).exists().then(|| begin_lock(places)).transpose()?;
    let ended = match journal::read(&folder.journal()) {
        Ok(reading) => reading.state.ended,
        Err(_) => journal::never_began(&folder.journal()),
    };
    let removable = ended && !folder.owner().exists();
    if removable {
        remove_folder(&folder.path)?;
    }
    Ok(removable)
}

/// A controller that was asked has waited for whoever was in its way: the same wait goes on.
fn patience_after(waited: Duration) -> Duration {
    BUSY_TIMEOUT.saturating_sub(waited).max(LEAST_PATIENCE)
}

/// Whether it lives, and was asked.
fn ask_controller(run: &FoundRun) -> bool {
    run.controller.and_then(Process::open).is_some_and(|controller| controller.signal(Signal::TERM).is_ok())
}

/// A controller or watchdog that does not come to an end is killed; the run is then undone from its journal. Its children live on
/// until then: a server is to be stopped in order, and the caller may be one of them.
#[allow(clippy::disallowed_methods)] // a process of ours that holds a lock of ours: nothing to journal
pub(crate) fn replace_holders(owner: &std::path::Path) -> Result<(), Error> {
    let permit = host::permit::Permit::issue(0);
    Ok(kill_alone(&permit, &holders_of(owner).found)?)
}

/// Undoes a run whose owner lock the caller holds; others have `patience` to let go of each thing that is busy. `None` when there was
/// nothing to undo.
pub(crate) fn undo_owned(
    places: &Places,
    id: &RunId,
    patience: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<crate::Released>, Error> {
    let folder = Folder::of(places, id);
    let (mut journal, reading) = match Journal::open(&folder.journal()) {
        Err(error @ (journal::Error::Future { .. } | journal::Error::Host(host::Error::Untrusted { .. }))) => {
            return Err(error.into());
        }
        Err(_) => return clear_unbegun(places, &folder, id),
        Ok(opened) => opened,
    };
    let mut host =
        RealHost::for_journal(id.clone(), folder.clone(), &journal, &reading.boot_id).with_patience(patience);
    neutralise(&journal, &mut host);
    note_reason(&mut journal, &folder);
    let report = dismantle(&mut journal, &mut host, progress);
    close(&mut journal, id, &folder.path, report).map(Some)
}

/// A folder without a readable journal: its run never came to an intent, or the file was damaged. The token still finds the
/// processes; a damaged file is set aside, and told, because it may have held changes that are not undone.
fn clear_unbegun(places: &Places, folder: &Folder, id: &RunId) -> Result<Option<crate::Released>, Error> {
    let _beginning = locks(places).exists().then(|| begin_lock(places)).transpose()?;
    #[allow(clippy::disallowed_methods)] // there is no journal to record it in
    let permit = host::permit::Permit::issue(0);
    let not_restored = |failure: String| Error::NotRestored { id: id.clone(), failures: vec![failure] };
    RealHost::new(id.clone(), folder.clone()).sweep(&permit, &[]).map_err(|error| not_restored(chain(&error)))?;
    let damaged = !journal::never_began(&folder.journal());
    let aside = places.journal.join(format!("damaged-{id}"));
    if damaged {
        files::rename(&folder.journal(), &aside)?;
    }
    remove_folder(&folder.path)?;
    let told = format!(
        "the journal of run {id} is damaged: its processes were ended, its values, cgroups and mounts were not looked at; the file is now {}",
        aside.display()
    );
    if damaged { Err(not_restored(told)) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_hold_something_are_waited_for_once() {
        let patience = |waited_ms| patience_after(Duration::from_millis(waited_ms)).as_millis();
        assert_eq!((patience(0), patience(2000)), (5000, 3000));
        assert_eq!((patience(5100), patience(60_000)), (1000, 1000));
    }
}
