// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::{Path, PathBuf};

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} {}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("the kernel tells only the owner of {}, or who may write it, what of it is cached", path.display())]
    NotOwner { path: PathBuf },
    /// Nothing was probed: the request does not fit the file.
    #[error("{}: {why}", path.display())]
    Unfit { path: PathBuf, why: String, hint: String },
    #[error(transparent)]
    Host(#[from] host::Error),
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { operation, path: path.to_owned(), source }
    }

    pub(crate) fn unfit(path: &Path, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unfit { path: path.to_owned(), why: why.into(), hint: hint.into() }
    }
}
