// SPDX-License-Identifier: Apache-2.0
//! How a walk ended: a value. Whoever asked for the walk decides what it means.

use crate::error::Error;
use crate::meaning::Kind;
use std::fmt;
use std::path::PathBuf;

/// What a walk came to, and what it leaves behind. The recording is closed, also where the outcome is a bad one.
#[derive(Debug)]
pub struct Ended {
    pub outcome: Outcome,
    /// The sandbox that was to be kept, by its name.
    pub kept: Option<String>,
    /// Files in the sandbox's folder that are somebody else's, and were left alone.
    pub left_alone: Vec<PathBuf>,
}

/// See [`Ended`]. All but [`Outcome::NotRestored`] leave the host as it was.
#[derive(Debug)]
pub enum Outcome {
    /// Every phase was measured.
    Done,
    /// The squeezes of these phases did not come on; the others were measured.
    Missed(Vec<Missed>),
    /// Somebody asked for the end.
    Interrupted(Error),
    /// The first phase did not begin: no server could be had or started, or its tables could not be filled.
    CannotStart(Error),
    /// The server or the holder of hidden RAM was killed while the kernel killed for want of RAM.
    OutOfMemory(Error),
    /// A phase broke off: the server ended, a squeeze died or could not be made, a load failed, the watchdog intervened.
    BrokeOff(Error),
    /// What was changed could not be put back, or somebody else has changed it meanwhile.
    NotRestored(Error),
}

/// A phase that was not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    pub phase: String,
    pub why: String,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, why } = self;
        write!(f, "arm '{phase}' was not measured, for its squeeze did not come on: {why}")
    }
}

impl Outcome {
    /// `began`: a first phase had begun. `out_of_memory`: the kernel has killed for want of RAM meanwhile.
    pub(crate) fn of(walked: Result<(), Error>, missed: Vec<Missed>, began: bool, out_of_memory: bool) -> Self {
        let error = match walked {
            Ok(()) if missed.is_empty() => return Self::Done,
            Ok(()) => return Self::Missed(missed),
            Err(error) => error,
        };
        match error.kind() {
            Kind::NotRestored => Self::NotRestored(error),
            Kind::Interrupted => Self::Interrupted(error),
            _ if out_of_memory && error.is_a_death() => Self::OutOfMemory(error),
            _ if began => Self::BrokeOff(error),
            _ => Self::CannotStart(error),
        }
    }

    /// Why it did not come to its end. Phases that were missed are no error.
    ///
    /// # Errors
    /// The walk's own.
    pub fn into_result(self) -> Result<Vec<Missed>, Error> {
        match self {
            Self::Done => Ok(Vec::new()),
            Self::Missed(missed) => Ok(missed),
            Self::Interrupted(error)
            | Self::CannotStart(error)
            | Self::OutOfMemory(error)
            | Self::BrokeOff(error)
            | Self::NotRestored(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_outcome() {
        let of = |error, began, out_of_memory| Outcome::of(Err(error), Vec::new(), began, out_of_memory);
        let holder = || Error::from(squeeze::Error::HolderDied);
        let conflicts = Error::Conflicts { changes: Vec::new(), repairs: Vec::new() };
        assert!(matches!(of(conflicts, true, true), Outcome::NotRestored(_)));
        assert!(matches!(of(Error::Interrupted, true, true), Outcome::Interrupted(_)));
        assert!(matches!(of(holder(), true, true), Outcome::OutOfMemory(_)));
        assert!(matches!(of(holder(), true, false), Outcome::BrokeOff(_)));
        assert!(matches!(of(Error::NoServer, true, true), Outcome::BrokeOff(_)));
        assert!(matches!(of(Error::NoServer, false, false), Outcome::CannotStart(_)));
        let missed = vec![Missed { phase: "a".into(), why: "b".into() }];
        assert!(matches!(Outcome::of(Ok(()), missed, true, false), Outcome::Missed(it) if it.len() == 1));
        assert!(matches!(Outcome::of(Ok(()), Vec::new(), true, false), Outcome::Done));
    }
}
