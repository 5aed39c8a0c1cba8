// SPDX-License-Identifier: Apache-2.0
use crate::dismantle::Conflict;
use crate::reading::Unsure;
use crate::trace::Lost;
use journal::RunId;
use std::path::PathBuf;

/// The result of [`crate::undo`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Runs that have ended now.
    pub ended: Vec<RunId>,
    pub restored: Vec<String>,
    /// If not empty: exit code 5.
    pub conflicts: Vec<Conflict>,
    /// If not empty: exit code 5; the journals stay, and another `wringer undo` tries again.
    pub failures: Vec<String>,
    /// If not empty: exit code 5; it is not known whether all changes of these runs are undone, until the user declares it: see [`crate::settle`].
    pub unsure: Vec<Unsure>,
    /// Runs that were left alone, with the reason: servers that should go on running.
    pub untouched: Vec<(RunId, String)>,
    /// Runs that were left alone, because processes of theirs may live that cannot be seen from here. If not empty: exit code 3.
    pub unknown: Vec<(RunId, String)>,
    /// The new paths of the folders of settled runs.
    pub aside: Vec<PathBuf>,
    /// Runs for which no journal of these places answers at the end. When only one run should be undone, only that run is looked for.
    pub left: Vec<Lost>,
}

impl UndoReport {
    /// Whether everything that should be restored is restored.
    pub fn is_whole(&self) -> bool {
        self.conflicts.is_empty() && self.failures.is_empty() && self.unsure.is_empty()
    }
}
