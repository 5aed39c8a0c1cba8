// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error("{operation} journal {}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    /// Nothing was changed.
    #[error("a record is not written to journal {}: {why}", path.display())]
    Unwritable { path: PathBuf, why: String },
    #[error("'{text}' is not the id of a run")]
    RunId { text: String },
}
