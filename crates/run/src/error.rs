// SPDX-License-Identifier: Apache-2.0
use journal::RunId;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Exit code 3: nothing was changed.
    #[error("{resource} is held by run {}{}", owner.as_ref().map_or("(unknown)", |owner| owner.as_str()), elsewhere(journal.as_deref()))]
    Busy {
        resource: String,
        owner: Option<RunId>,
        /// The folder of that run's journal, when it is not ours: another `WRINGER_HOME`.
        journal: Option<PathBuf>,
    },
    /// Exit code 3: nothing was changed. The hint is `wringer undo`.
    #[error("an earlier run was not undone: {}{}", list(runs), and(unread))]
    Hot {
        runs: Vec<RunId>,
        /// The damage of the journals that were not read as a whole.
        unread: Vec<String>,
    },
    /// Exit code 3: nothing was changed.
    #[error("whether run {id} has ended is unknown: {why}")]
    Unknown { id: RunId, why: String },
    /// Exit code 3: nothing was changed.
    #[error("another one measures on this host: {who}")]
    Measured { who: String },
    #[error("there is no run {id}")]
    NoSuchRun { id: RunId },
    #[error("run {id} has no {step} that is not undone")]
    NoSuchStep { id: RunId, step: journal::StepId },
    #[error("the watchdog of run {id} died")]
    WatchdogDied { id: RunId },
    /// Exit code 5. Each failure names its step; `wringer undo` tries again.
    #[error("run {id} is not undone: {}", failures.join("; "))]
    NotRestored { id: RunId, failures: Vec<String> },
    #[error("{operation} {}", path.display())]
    Lock { operation: &'static str, path: PathBuf, source: std::io::Error },
    /// A supervisor found an obstacle: exit code 3; nothing was changed, or everything is restored.
    #[error("{what}")]
    Refused { what: String, hint: Option<String> },
    /// The supervisor could not apply its squeezes.
    #[error("{message}")]
    Apply { message: String },
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
}

fn elsewhere(journal: Option<&Path>) -> String {
    journal.map(|journal| format!(", whose journal is in {}", journal.display())).unwrap_or_default()
}

fn and(unread: &[String]) -> String {
    unread.iter().map(|why| format!("; {why}")).collect()
}

fn list(runs: &[RunId]) -> String {
    runs.iter().map(RunId::as_str).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Whether there was an obstacle and nothing was changed: exit code 3.
    pub fn is_in_the_way(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Measured { .. }
                | Self::Hot { .. }
                | Self::Unknown { .. }
                | Self::NoSuchRun { .. }
                | Self::Refused { .. }
        ) || self.untrusted().is_some()
    }

    /// The file that somebody else can have written, and why it is not used.
    pub fn untrusted(&self) -> Option<(&Path, host::files::Distrust)> {
        match self {
            Self::Host(host::Error::Untrusted { path, why })
            | Self::Journal(journal::Error::Host(host::Error::Untrusted { path, why })) => Some((path, *why)),
            _ => None,
        }
    }

    /// Whether the host is not restored: exit code 5.
    pub fn is_not_restored(&self) -> bool {
        matches!(self, Self::NotRestored { .. })
    }

    /// Whether the user asked us to stop: exit code 130.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Host(host::Error::Interrupted))
    }
}
