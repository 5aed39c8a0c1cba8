// SPDX-License-Identifier: Apache-2.0
//! The exit codes of a command. Scripts rely on them; `wringer --help` lists them.

use crate::hints;
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

    /// "Nothing was changed" is not true of a failure after a change.
    #[must_use]
    pub fn after_a_change(mut self, changed: bool) -> Self {
        if changed && matches!(self.exit, Exit::Usage | Exit::Missing) {
            self.exit = Exit::Failed;
        }
        self
    }
}

/// The crates' own errors know their exit code. An error without one means: failed, and everything is undone.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let found = error.chain().find_map(|cause| Some((meaning(cause)?.into(), hints::of(cause))));
        let (exit, hints) = found.unwrap_or((Exit::Failed, Vec::new()));
        Self { exit, error, hints }
    }
}

pub type Outcome = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_is_told_with_an_error_of_a_run_and_with_what_it_passes_on() {
        let hints = |error: lab::Error| Failure::from(error).hints.join("; ");
        let full = || load::Error::Full { wanted: 9, limit: 8, in_use: 0, setting: "max_connections" };
        let broke = lab::Error::BrokeOff { phase: "warm-up", arm: "a".into(), transactions: 3, source: full() };
        for error in [lab::Error::from(full()), broke] {
            assert_eq!(hints(error), "in the experiment file, below [server.options]: max_connections = N");
        }
        let account =
            lab::Error::KeptAccount { key: "k1".into(), source: Box::new(sandbox::Error::NoUser { why: "x" }) };
        assert!(hints(account).contains("--fresh-fill"));
        let conflicts = Failure::from(lab::Error::Conflicts { changes: vec!["a".into()], repairs: vec!["c".into()] });
        assert_eq!((conflicts.exit, conflicts.hints), (Exit::NotRestored, vec!["c".to_owned()]));
        assert!(hints(lab::Error::Interrupted).is_empty());
    }
}
