// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;

/// Why a sweep could not go on. Everything that was measured is kept; the same call goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not a sweep's state: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} is of a later version of Wringer (schema {schema})", path.display())]
    Newer { path: PathBuf, schema: u64 },
    #[error("{} belongs to the sweep \"{theirs}\", not to \"{ours}\"", folder.display())]
    Another { folder: PathBuf, theirs: String, ours: String },
    #[error("{} holds other files, and no sweep", folder.display())]
    NotEmpty { folder: PathBuf },
    #[error("another process runs the sweep in {} now", folder.display())]
    Busy { folder: PathBuf },
    #[error("no room for the next cell: it needs {}, and {} are free in {}", units::Bytes(*needed_bytes), units::Bytes(*free_bytes), folder.display())]
    NoRoom { needed_bytes: u64, free_bytes: u64, folder: PathBuf },
    /// `why`: each change that could not be undone.
    #[error("changes of an interrupted cell could not be undone: {}", why.join("; "))]
    NotUndone { why: Vec<String> },
    /// The cell's own error, which left the host changed.
    #[error("the host is not restored after a cell")]
    NotRestored { source: Box<lab::Error> },
    #[error("remove the data of an interrupted cell")]
    Sandbox { source: Box<sandbox::Error> },
    #[error("write the state")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// Something is in the way or missing: exit code 3.
    pub fn is_in_the_way(&self) -> bool {
        match self {
            Self::Run(error) => error.is_in_the_way(),
            Self::Read { .. }
            | Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Another { .. }
            | Self::NotEmpty { .. }
            | Self::Busy { .. }
            | Self::NoRoom { .. } => true,
            _ => false,
        }
    }

    /// The host is not as it was: exit code 5.
    pub fn is_not_restored(&self) -> bool {
        match self {
            Self::NotUndone { .. } | Self::NotRestored { .. } => true,
            Self::Run(error) => error.is_not_restored(),
            _ => false,
        }
    }

    /// What would help.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Run(run::Error::Measured { .. }) => {
                "two processes that measure would disturb each other: wait until it ends, as the same command does with --in-turn".into()
            }
            Self::Busy { .. } => "wait until it ends; `wringer matrix status FOLDER` shows how far it is".into(),
            Self::Damaged { path, .. } => {
                format!("name another folder with --to; the recordings beside {} can still be read", path.display())
            }
            Self::Newer { .. } => "use that version, or name another folder with --to".into(),
            Self::Another { theirs, .. } => {
                format!("put the name back, name = \"{theirs}\", to go on with that sweep; or name another folder with --to")
            }
            Self::NotEmpty { .. } => "name another folder with --to".into(),
            Self::NoRoom { .. } => {
                "make room (`wringer purge` frees kept fills), and give the same command again: it goes on from here"
                    .into()
            }
            Self::NotUndone { .. } | Self::NotRestored { .. } => {
                "`wringer undo` puts the host back; `wringer status` shows what is changed".into()
            }
            _ => return None,
        })
    }
}
