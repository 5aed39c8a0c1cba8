// SPDX-License-Identifier: Apache-2.0
//! How a command ends. The codes are a promise to scripts; `wringer --help` lists them.

use std::fmt;
use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// Ran, and an assertion failed.
    Finding = 1,
    Usage = 2,
    /// Something required is missing or in the way; nothing was changed.
    Missing = 3,
    /// Failed; everything that was changed is undone.
    Failed = 4,
    /// Failed, and the host is not restored, or a value was changed by someone else.
    NotRestored = 5,
    /// Interrupted; everything undone.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error on its way to the user: the exit code, the chain of causes, and what would help.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub error: anyhow::Error,
    pub hints: Vec<String>,
}

impl Failure {
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hints: Vec::new() }
    }

    pub fn message(exit: Exit, message: impl fmt::Display) -> Self {
        Self::new(exit, anyhow::anyhow!("{message}"))
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// What is not classified has failed, with nothing left changed: steps that change the host classify their own errors.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(Exit::Failed, error)
    }
}

pub type Outcome = Result<(), Failure>;
