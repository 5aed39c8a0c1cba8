// SPDX-License-Identifier: Apache-2.0
//! Ends runs of other processes: dead runs by their journals, live runs by asking their controller first.

use crate::Error;
use crate::dismantle::{Conflict, Executor as _, dismantle, neutralise};
use crate::executor::RealHost;
use crate::find::{FoundRun, Look};
use crate::folder::{Folder, locks, remove_folder, require_own};
use crate::locks::begin_lock;
use crate::reading::{Unsure, aside, read_to_undo};
use crate::release::{close, note_reason};
use crate::take_over::{Taken, take_over};
use crate::trace::give_back::{take_unrecorded, undo_lost};
use crate::trace::{find_lost, second_record};
use crate::undo_report::UndoReport;
use host::places::Places;
use host::{chain, files};
use journal::{Journal, JournalFile, Outcome, Phase, Reading, Role, RunId, State, Step, StepState};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every run, live or not; a server that was left running only if it or its disk was squeezed.
    All,
    One(RunId),
}

/// Ends runs and restores the host. May be repeated; deletes nothing but run folders.
///
/// # Errors
/// The named run does not exist; or the journals belong to somebody else, and nothing was looked at. A change that is not restored is in the report,
/// and is no error.
pub fn undo(places: &Places, scope: Scope, progress: &mut dyn FnMut(&str)) -> Result<UndoReport, Error> {
    let mut report = UndoReport::default();
    require_own(places)?;
    let mut look = Look::take(places)?;
    let of = if let Scope::One(id) = &scope { Some(id) } else { None };
    let is_meant = |run: &&FoundRun| of.is_none_or(|id| run.id == *id);
    if let Some(id) = of {
        let is_lost = || find_lost(places, &look).iter().any(|run| run.id == *id);
        if !look.runs.iter().any(|run| run.id == *id) && !is_lost() {
            return Err(Error::NoSuchRun { id: id.clone() });
        }
    }
    let mut is_changed = false;
    for run in look.runs.iter().rev().filter(is_meant) {
        match (&run.unknown, reason_to_leave(run, &scope)) {
            (Some(why), _) => report.unknown.push((run.id.clone(), why.clone())),
            (None, Some(reason)) => report.untouched.push((run.id.clone(), reason)),
            (None, None) => {
                is_changed = true;
                undo_run(places, run, &mut report, progress);
            }
        }
    }
    if is_changed {
        look = Look::take(places)?;
    }
    undo_lost(places, of, look, &mut report, progress)?;
    Ok(report)
}

/// Why [`undo`] leaves this run alone, if it does.
pub fn reason_to_leave(run: &FoundRun, scope: &Scope) -> Option<String> {
    let squeezed = run.steps.iter().any(|step| step.is_open() && is_squeeze(&step.change));
    let stands = *scope == Scope::All && run.left && !squeezed && !run.processes.is_empty();
    stands.then(|| "a standing server; `wringer sandbox stop` ends it".to_owned())
}

/// Whether the change is anything but a server with its launcher.
fn is_squeeze(change: &Step) -> bool {
    use journal::Role::{Launcher, Server, Watchdog};
    !matches!(change, Step::Process { role: Launcher | Server | Watchdog, .. } | Step::Note { .. })
}

fn undo_run(places: &Places, run: &FoundRun, report: &mut UndoReport, progress: &mut dyn FnMut(&str)) {
    progress(&format!("run {}", run.id));
    let folder = Folder::of(places, &run.id);
    // a journal that another user can have written is not used
    let own = folder.require_own().and_then(|()| match files::open_safe(&folder.journal(), false) {
        Err(error @ host::Error::Untrusted { .. }) => Err(error),
        _ => Ok(()),
    });
    if let Err(error) = own {
        report.failures.push(format!("run {}: its journal is not acted upon: {}", run.id, chain(&error)));
        return;
    }
    let journal = JournalFile::open(&folder.journal());
    let by_others = || journal.ok().and_then(|file| file.read().content().map(|it| outcomes(&run.id, &it.state)));
    let undone = take_over(places, run).and_then(|taken| match taken {
        Some(Taken { _owner, patience }) => undo_owned(places, &run.id, patience, progress),
        None => Ok(by_others()),
    });
    match undone {
        Ok(None) => report.ended.push(run.id.clone()),
        Ok(Some(released)) => {
            if released.unsure.is_none() {
                report.ended.push(run.id.clone());
            }
            report.unsure.extend(released.unsure);
            report.restored.extend(released.restored);
            report.conflicts.extend(released.conflicts);
        }
        Err(Error::NotRestored { failures, .. }) => report.failures.extend(failures),
        Err(Error::Refused { what, hint }) => {
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            report.failures.push(format!("run {}: {what}{hint}", run.id));
        }
        Err(error) => report.failures.push(format!("run {}: {}", run.id, chain(&error))),
    }
}

/// The outcomes of the steps of an ended run, from its journal.
fn outcomes(run: &RunId, state: &State) -> crate::Released {
    let mut released = crate::Released { neutralised: state.neutralised.clone(), ..nothing_undone(run) };
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

/// Undoes a run whose owner lock the caller holds; waits for `patience` until others stop using each mount and device. `None`: there was nothing to
/// undo.
pub(crate) fn undo_owned(
    places: &Places,
    id: &RunId,
    patience: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<crate::Released>, Error> {
    let (file, reading) = read_to_undo(&Folder::of(places, id));
    undo_read(places, id, (file, &reading), patience, progress)
}

/// As [`undo_owned`], with a journal that was read already.
pub(crate) fn undo_read(
    places: &Places,
    id: &RunId,
    (file, reading): (Option<JournalFile>, &Reading),
    patience: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<crate::Released>, Error> {
    let folder = Folder::of(places, id);
    match reading {
        Reading::Whole(content) | Reading::TornTail(content) if content.state.begun.is_none() => {
            clear_unbegun(places, &folder, id).map(|()| None)
        }
        Reading::Whole(content) | Reading::TornTail(content) | Reading::Damaged(content, _) => {
            let mut host = RealHost::for_journal(id.clone(), folder.clone(), content).with_patience(patience);
            match file.and_then(|file| Journal::resume(file, reading)) {
                Some(journal) => undo_journal(journal, &mut host, (places, id), &folder, reading, progress),
                None => sweep(&mut host, id).map(|()| not_known(id, reading)),
            }
        }
        Reading::Unknown(..) | Reading::Unreadable(_) => Ok(not_known(id, reading)),
    }
}

/// Undoes the steps of a journal. If it is damaged, the steps that can be read are undone; the journal is never ended, and stays.
fn undo_journal(
    mut journal: Journal,
    host: &mut RealHost,
    (places, id): (&Places, &RunId),
    folder: &Folder,
    reading: &Reading,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<crate::Released>, Error> {
    neutralise(&journal, host);
    note_reason(&mut journal, folder);
    let unrecorded =
        if may_lack_records(reading) { take_unrecorded(places, id, journal.state(), host) } else { Vec::new() };
    host.layers_serve_on(&unrecorded);
    let mut report = dismantle(&mut journal, host, progress);
    report.failures.splice(0..0, unrecorded);
    let Some(unsure) = Unsure::of(id, reading) else {
        return close(&mut journal, id, &folder.path, report).map(Some);
    };
    if !report.failures.is_empty() {
        let failures = report.failures.into_iter().chain([unsure.why]).collect();
        return Err(Error::NotRestored { id: id.clone(), failures });
    }
    let neutralised = journal.state().neutralised.clone();
    let (restored, conflicts) = (report.restored, report.conflicts);
    Ok(Some(crate::Released { run: id.clone(), restored, conflicts, neutralised, unsure: Some(unsure) }))
}

/// Whether the journal may lack records. A journal whose last record was never written looks whole. It lacks a record if it has an open slow layer,
/// and no step for a mount or device on that layer.
fn may_lack_records(reading: &Reading) -> bool {
    let Some(content) = reading.whole() else { return true };
    let steps = &content.state.steps;
    let is_layer = |step: &StepState| matches!(step.change, Step::Process { role: Role::SlowLayer, .. });
    let is_served =
        |change: &Step| matches!(change, Step::Mount { .. } | Step::LoopDevice { .. } | Step::Mapping { .. });
    steps.iter().any(|step| step.is_open() && is_layer(step)) && !steps.iter().any(|step| is_served(&step.change))
}

fn not_known(id: &RunId, reading: &Reading) -> Option<crate::Released> {
    Some(crate::Released { unsure: Unsure::of(id, reading), ..nothing_undone(id) })
}

fn nothing_undone(id: &RunId) -> crate::Released {
    let (restored, conflicts) = (Vec::new(), Vec::new());
    crate::Released { run: id.clone(), restored, conflicts, neutralised: None, unsure: None }
}

/// Ends the run's processes without a journal: the token and the run's id identify them.
fn sweep(host: &mut RealHost, id: &RunId) -> Result<(), Error> {
    #[allow(clippy::disallowed_methods)] // there is no journal to record it in
    let permit = host::permit::Permit::issue(0);
    let failed = |error| Error::NotRestored { id: id.clone(), failures: vec![chain(&error)] };
    host.sweep(&permit, &[]).map_err(failed)
}

/// Removes a run that had not begun: nothing was changed.
fn clear_unbegun(places: &Places, folder: &Folder, id: &RunId) -> Result<(), Error> {
    let _beginning = locks(places).exists().then(|| begin_lock(places, || false)).transpose()?;
    sweep(&mut RealHost::new(id.clone(), folder.clone()), id)?;
    remove_folder(&folder.path)
}

/// Undoes one run. When its journal does not tell all changes, the user declares here that the host is as it should be: the run's folder is moved
/// aside unchanged, and the run is over.
///
/// # Errors
/// Those of [`undo`].
pub fn settle(places: &Places, id: &RunId, progress: &mut dyn FnMut(&str)) -> Result<UndoReport, Error> {
    let mut report = undo(places, Scope::One(id.clone()), progress)?;
    let folder = Folder::of(places, id);
    let left = || RealHost::new(id.clone(), folder.clone()).marked();
    if report.unsure.is_empty() || !report.failures.is_empty() {
        return Ok(report);
    }
    let pids: Vec<String> = left().iter().map(|process| process.pid.to_string()).collect();
    if !pids.is_empty() {
        let failure = format!("processes of run {id} are there: {}; it is not settled", pids.join(" "));
        report.failures.push(failure);
        return Ok(report);
    }
    let _beginning = locks(places).exists().then(|| begin_lock(places, || false)).transpose()?;
    let kept = aside(&places.journal, id);
    files::rename(&folder.path, &kept)?;
    second_record::forget_run(places, id);
    report.unsure.clear();
    report.ended.push(id.clone());
    report.aside.push(kept);
    Ok(report)
}
