// SPDX-License-Identifier: Apache-2.0
use std::io;

/// Why no stall, or no further stall, can be injected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was changed; `hint` says what would help.
    #[error("{what}")]
    Refused { what: String, hint: String },
    #[error(transparent)]
    Server(#[from] load::Error),
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Layer(#[from] slowfs::Error),
    #[error("start a thread")]
    Thread(#[source] io::Error),
}

impl Error {
    pub(crate) fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), hint: hint.into() }
    }
}
