// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error("{operation} journal {}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    /// Written by a later release: only that one, or a later one, may undo it.
    #[error("journal {} has format version {version}, and this release knows up to {known}", path.display())]
    Future { path: PathBuf, version: u32, known: u32 },
    /// No valid header, or no valid first record: nothing was changed under it.
    #[error("{} is not a journal", path.display())]
    NotAJournal { path: PathBuf },
    #[error("'{text}' is not the id of a run")]
    RunId { text: String },
}
