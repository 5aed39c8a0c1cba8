// SPDX-License-Identifier: Apache-2.0
//! Sets the host's transparent huge pages for one server, and puts the setting back. For one process alone they can only be turned off (prctl(2),
//! `PR_SET_THP_DISABLE`), so `always` and `madvise` can only be set for the whole host.

use crate::Error;
use host::change;
use run::{Run, StepId};
use std::path::Path;

/// The kernel's setting (kernel, admin-guide/mm/transhuge.rst).
pub const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The setting that was made, with the one before.
#[derive(Debug)]
pub struct HostThp {
    step: StepId,
    pub before: String,
    pub set: String,
}

impl HostThp {
    /// # Errors
    /// Somebody else has changed the setting meanwhile.
    pub fn give_back(self, run: &mut Run) -> Result<(), Error> {
        Ok(run.undo_step(self.step)?)
    }
}

/// The word in force. `None`: this kernel has no such setting.
pub fn in_force() -> Option<String> {
    let found = change::read_value(Path::new(PATH)).ok()?;
    change::chosen(&found).map(str::to_owned)
}

/// Whether this user may change the setting.
pub fn may_set() -> bool {
    rustix::fs::access(PATH, rustix::fs::Access::WRITE_OK).is_ok() && in_force().is_some()
}

/// Puts the word in force. `None`: the word was in force already.
///
/// # Errors
/// The setting cannot be written, or somebody else changed it at this moment.
pub fn set(run: &mut Run, word: &str) -> Result<Option<HostThp>, Error> {
    let path = Path::new(PATH);
    let found = change::read_value(path)?;
    let before = change::chosen(&found).unwrap_or(&found).to_owned();
    if before == word {
        return Ok(None);
    }
    let step = run::Step::Value { path: path.to_owned(), before: before.clone(), after: word.to_owned() };
    let (step, _) = run.step(step, |permit| change::set_value(permit, path, &before, word))?;
    Ok(Some(HostThp { step, before, set: word.to_owned() }))
}
