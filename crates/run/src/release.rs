// SPDX-License-Identifier: Apache-2.0
use crate::dismantle::{Conflict, Report, dismantle, neutralise};
use crate::folder::{Folder, remove_folder};
use crate::reading::Unsure;
use crate::trace::second_record::forget_home;
use crate::{Error, Run};
use journal::{Journal, Role, RunId, Step, StepState};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Released {
    pub run: RunId,
    /// The steps that were undone, newest first.
    pub restored: Vec<String>,
    /// If not empty: exit code 5, and each repair command is printed.
    pub conflicts: Vec<Conflict>,
    /// Why the watchdog ended the run, if it did.
    pub neutralised: Option<String>,
    /// Set when the journal does not tell all changes: exit code 5, and the run stays.
    pub unsure: Option<Unsure>,
}

impl Run {
    /// Restores everything: neutralises at once, dismantles newest step first, ends the journal and removes the run's folder.
    ///
    /// # Errors
    /// [`Error::NotRestored`] with each step that is not undone; the journal stays, and `wringer undo` tries again.
    pub fn release(self) -> Result<Released, Error> {
        self.release_with(&mut |_| {})
    }

    /// As [`Run::release`]; `progress` gets each step's name before its undo.
    pub fn release_with(mut self, progress: &mut dyn FnMut(&str)) -> Result<Released, Error> {
        self.finish(progress)
    }

    /// Ends the command and leaves its server running, without controller or watchdog: for `sandbox start`. The journal stays; [`crate::undo`] of
    /// this run ends the server. All steps must have been undone before, except processes that were spawned without a lifeline, and the cgroups of
    /// these processes.
    pub fn leave(mut self) -> Result<RunId, Error> {
        let watchdog = self.journal.state().steps.first().map(|step| step.id);
        self.journal.leave()?;
        self.finished = true;
        if let Some(watchdog) = watchdog {
            self.undo_step(watchdog)?;
        }
        Ok(self.id.clone())
    }

    fn finish(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Released, Error> {
        self.finished = true;
        neutralise(&self.journal, &mut self.host);
        note_reason(&mut self.journal, &self.folder);
        self.held.clear();
        let report = dismantle(&mut self.journal, &mut self.host, progress);
        self.reap();
        // before anybody can see that the run is over and begins the next one
        if report.failures.is_empty() {
            self.free_resources();
        }
        let released = close(&mut self.journal, &self.id, &self.folder.path, report)?;
        forget_home(&self.folder.path);
        Ok(released)
    }
}

impl Drop for Run {
    /// Releases as far as that works: nobody can get the error, and the journal stays for `wringer undo`.
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.finish(&mut |_| {});
        }
    }
}

/// Ends a journal whose steps are all undone, and removes the run's folder, the journal last.
pub(crate) fn close(
    journal: &mut Journal,
    id: &RunId,
    folder: &std::path::Path,
    report: Report,
) -> Result<Released, Error> {
    if !report.failures.is_empty() {
        return Err(Error::NotRestored { id: id.clone(), failures: report.failures });
    }
    journal.end();
    remove_folder(folder)?;
    let neutralised = journal.state().neutralised.clone();
    Ok(Released { run: id.clone(), restored: report.restored, conflicts: report.conflicts, neutralised, unsure: None })
}

/// Records the watchdog's reason in the journal, once.
pub(crate) fn note_reason(journal: &mut Journal, folder: &Folder) {
    if let Some(reason) = folder.read_reason().filter(|_| journal.state().neutralised.is_none()) {
        journal.neutralised(&reason);
    }
}

/// How long the children of these steps may take to end.
pub(crate) fn graces(steps: &[StepState]) -> Duration {
    let grace_ms = |step: &StepState| match step.change {
        // the watchdog ends last, and needs no grace
        Step::Process { role: Role::Watchdog, .. } => 0,
        Step::Process { grace_ms, .. } if step.is_open() => grace_ms,
        _ => 0,
    };
    Duration::from_millis(steps.iter().map(grace_ms).sum())
}
