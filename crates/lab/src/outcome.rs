// SPDX-License-Identifier: Apache-2.0
//! How a walk ended, as a value. The caller decides what it means.

use crate::error::Error;
use crate::meaning::Kind;
use crate::oom::Killed;
use evidence::ArmOutcome;
use std::fmt;
use std::path::PathBuf;

/// The outcome of a walk, and what it leaves behind. The recording is closed, also after a bad outcome.
#[derive(Debug)]
pub struct Ended {
    pub outcome: Outcome,
    /// The name of the sandbox, where it is kept.
    pub kept: Option<String>,
    /// Files in the sandbox's folder that belong to others, and were left alone.
    pub left_alone: Vec<PathBuf>,
}

/// See [`Ended`]. All but [`Outcome::NotRestored`] leave the host as it was.
#[derive(Debug)]
pub enum Outcome {
    /// Every phase was measured.
    Done,
    /// These phases were not measured completely, for reasons of their own; the other phases were measured.
    Missed(Vec<Missed>),
    /// The end was asked for.
    Interrupted(Error),
    /// The first phase did not begin: no server was found or could be started, or its tables could not be filled.
    CannotStart(Error),
    /// The kernel killed for want of RAM, and the process that hides RAM was killed. When a server is killed, only one phase ends: [`Outcome::Missed`].
    OutOfMemory(Error),
    /// A phase broke off: the server ended, a squeeze died or could not be made, a load failed, the watchdog intervened.
    BrokeOff(Error),
    /// A change could not be undone, or somebody else has changed the same thing meanwhile.
    NotRestored(Error),
}

/// A phase that was not measured, or not to its end, while the phases after it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    pub phase: String,
    /// Never [`ArmOutcome::Measured`] nor [`ArmOutcome::BrokeOff`].
    pub outcome: ArmOutcome,
    pub why: String,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, why, outcome } = self;
        match outcome {
            ArmOutcome::OutOfMemory => {
                write!(f, "in arm '{phase}' the kernel killed the server for want of RAM: {why}")
            }
            ArmOutcome::CannotStart => write!(f, "the server does not start with what arm '{phase}' asks for: {why}"),
            _ => write!(f, "arm '{phase}' was not measured, for its squeeze did not come on: {why}"),
        }
    }
}

/// The end of the server as the result of a phase. `None`: it ends the walk. `killed`: whom the kernel has killed for want of RAM since the phase
/// began.
pub(crate) fn of_phase(error: &Error, killed: Killed) -> Option<ArmOutcome> {
    let out_of_memory = killed != Killed::Nobody;
    match error {
        Error::ServerEnded { .. } => (out_of_memory && error.is_a_death()).then_some(ArmOutcome::OutOfMemory),
        error if error.is_no_start() && out_of_memory => Some(ArmOutcome::OutOfMemory),
        error if error.is_no_start() => Some(ArmOutcome::CannotStart),
        // PostgreSQL lives, and has lost the backends of the load
        error if error.is_of_the_load() && killed == Killed::InOwnCgroup => Some(ArmOutcome::OutOfMemory),
        _ => None,
    }
}

impl Outcome {
    /// `began`: a first phase had begun. `server`: whom the kernel has killed for want of RAM meanwhile, as the server's cgroup tells, where it has one.
    /// `on_host`: it has killed somebody on the host.
    pub(crate) fn of(
        walked: Result<(), Error>,
        missed: Vec<Missed>,
        began: bool,
        server: Killed,
        on_host: bool,
    ) -> Self {
        let error = match walked {
            Ok(()) if missed.is_empty() => return Self::Done,
            Ok(()) => return Self::Missed(missed),
            Err(error) => error,
        };
        match error.kind() {
            Kind::NotRestored => Self::NotRestored(error),
            Kind::Interrupted => Self::Interrupted(error),
            _ if error.is_a_death() && (if error.is_of_a_server() { server != Killed::Nobody } else { on_host }) => {
                Self::OutOfMemory(error)
            }
            _ if began => Self::BrokeOff(error),
            _ => Self::CannotStart(error),
        }
    }

    /// The error that ended the walk early. Phases that were missed are no error.
    ///
    /// # Errors
    /// The walk's own error.
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
        let of = |error, began, server, on_host| Outcome::of(Err(error), Vec::new(), began, server, on_host);
        let holder = || Error::from(squeeze::Error::HolderDied);
        let conflicts = Error::Conflicts { changes: Vec::new(), repairs: Vec::new() };
        let (nobody, own, on_host) = (Killed::Nobody, Killed::InOwnCgroup, Killed::OnHost);
        assert!(matches!(of(conflicts, true, own, true), Outcome::NotRestored(_)));
        assert!(matches!(of(Error::Interrupted, true, own, true), Outcome::Interrupted(_)));
        assert!(matches!(of(holder(), true, nobody, true), Outcome::OutOfMemory(_)));
        assert!(matches!(of(holder(), true, nobody, false), Outcome::BrokeOff(_)));
        assert!(matches!(of(Error::NoServer, true, own, true), Outcome::BrokeOff(_)));
        assert!(matches!(of(Error::NoServer, false, nobody, false), Outcome::CannotStart(_)));
        assert!(matches!(of(ended(137), false, on_host, true), Outcome::OutOfMemory(_)));
        assert!(
            matches!(of(ended(137), true, nobody, true), Outcome::BrokeOff(_)),
            "the kernel killed another program"
        );
        let missed = vec![Missed { phase: "a".into(), outcome: ArmOutcome::Missed, why: "b".into() }];
        assert!(matches!(Outcome::of(Ok(()), missed, true, nobody, false), Outcome::Missed(it) if it.len() == 1));
        assert!(matches!(Outcome::of(Ok(()), Vec::new(), true, nobody, false), Outcome::Done));
    }

    fn ended(status: i32) -> Error {
        let end = Box::new(sandbox::Error::Ended { status: Some(status), log: Vec::new() });
        Error::ServerEnded { why: "x".into(), end }
    }

    #[test]
    fn only_the_end_of_the_server_is_a_result_of_its_phase() {
        let (nobody, own, on_host) = (Killed::Nobody, Killed::InOwnCgroup, Killed::OnHost);
        assert_eq!(of_phase(&ended(137), own), Some(ArmOutcome::OutOfMemory));
        assert_eq!(of_phase(&ended(137), nobody), None, "somebody else killed it");
        assert_eq!(of_phase(&ended(134), own), None, "it crashed, and something else was killed for RAM");
        let died = || Error::from(sandbox::Error::Died { name: "s".into(), status: None, log: Vec::new() });
        assert_eq!(of_phase(&died(), nobody), Some(ArmOutcome::CannotStart));
        assert_eq!(of_phase(&died(), on_host), Some(ArmOutcome::OutOfMemory));
        assert_eq!(of_phase(&Error::from(squeeze::Error::HolderDied), own), None);
        assert_eq!(of_phase(&Error::Interrupted, own), None);
        let lost = || load::Error::Lost { during: "a query", source: std::io::Error::other("gone") };
        let broke = || Error::BrokeOff { phase: "load", arm: "a".into(), transactions: 1, source: lost() };
        assert_eq!(of_phase(&broke(), own), Some(ArmOutcome::OutOfMemory), "a backend was killed");
        assert_eq!(of_phase(&Error::Load(lost()), own), Some(ArmOutcome::OutOfMemory), "a question beside the load");
        assert_eq!(of_phase(&broke(), on_host), None, "a kill on the host may be anybody's");
    }
}
