// SPDX-License-Identifier: Apache-2.0
use std::path::{Path, PathBuf};

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("create recording {}", path.display())]
    Create { path: PathBuf, source: std::io::Error },
    #[error("{operation} recording {}", path.display())]
    Sqlite { operation: &'static str, path: PathBuf, source: rusqlite::Error },
    #[error("{operation} recording {}", path.display())]
    Json { operation: &'static str, path: PathBuf, source: serde_json::Error },
    #[error("{} is not a recording: {why}", path.display())]
    NotARecording { path: PathBuf, why: &'static str },
    #[error("{} has schema {found}; this build reads up to {known}", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("recording {} is finished: nothing can be added", path.display())]
    Finished { path: PathBuf },
}

impl Error {
    pub(crate) fn sqlite(operation: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { operation, path: path.to_owned(), source }
    }

    pub(crate) fn json(operation: &'static str, path: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Json { operation, path: path.to_owned(), source }
    }
}
