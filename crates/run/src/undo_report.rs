// SPDX-License-Identifier: Apache-2.0
use crate::dismantle::Conflict;
use crate::reading::Unsure;
use crate::trace::Lost;
use journal::RunId;
use std::path::PathBuf;

/// What [`crate::undo`] found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Runs that have ended now.
    pub ended: Vec<RunId>,
    pub restored: Vec<String>,
    /// Not empty: exit code 5.
    pub conflicts: Vec<Conflict>,
    /// Not empty: exit code 5; the journals stay, and another `wringer undo` tries again.
    pub failures: Vec<String>,
    /// Not empty: exit code 5; it is not known whether everything that these runs changed is back, until the user says so: see [`crate::settle`].
    pub unsure: Vec<Unsure>,
    /// Left as they are, with the reason: standing servers.
    pub untouched: Vec<(RunId, String)>,
    /// Left as they are, because processes of theirs may live that cannot be seen from here. Not empty: exit code 3.
    pub unknown: Vec<(RunId, String)>,
    /// Where the folders of settled runs are kept.
    pub aside: Vec<PathBuf>,
    /// Runs that no journal of these places answers for at the end. When one run was to be undone, only that run is looked for.
    pub left: Vec<Lost>,
}

impl UndoReport {
    /// Everything that was to be put back is back.
    pub fn is_whole(&self) -> bool {
        self.conflicts.is_empty() && self.failures.is_empty() && self.unsure.is_empty()
    }
}
