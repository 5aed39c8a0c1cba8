// SPDX-License-Identifier: Apache-2.0
//! The exit codes of a command. Scripts rely on them; `wringer --help` lists them.

use lab::{Kind, meaning};
use std::fmt;
use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// The command ran, and an assertion failed.
    Finding = 1,
    Usage = 2,
    /// Something required is missing, or something prevents the command; nothing was changed.
    Missing = 3,
    /// The command failed; everything that was changed is undone.
    Failed = 4,
    /// The command failed, and the host is not restored, or somebody else changed a value.
    NotRestored = 5,
    /// The command was interrupted; everything is undone.
    Interrupted = 130,
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Usage => Self::Usage,
            Kind::Missing => Self::Missing,
            Kind::Failed => Self::Failed,
            Kind::NotRestored => Self::NotRestored,
            Kind::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error for the user: the exit code, the chain of causes, and the remedies.
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

/// The crates' own errors know their exit code. An error without one means: failed, and everything is undone.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let found = error.chain().find_map(meaning);
        let (exit, hints) = found.map_or((Exit::Failed, Vec::new()), |it| (it.kind.into(), it.hints));
        Self { exit, error, hints }
    }
}

pub type Outcome = Result<(), Failure>;
