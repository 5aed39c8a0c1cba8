// SPDX-License-Identifier: Apache-2.0
use crate::meaning::{Kind, of_station};
use sandbox::ServerOption;
use std::io;
use std::iter::successors;
use units::CpuList;

/// Why a walk, or the checks before it, could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Sandbox(Box<sandbox::Error>),
    #[error(transparent)]
    Squeeze(#[from] squeeze::Error),
    #[error(transparent)]
    Layer(#[from] slowfs::Error),
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Fill(#[from] load::fill::Error),
    #[error(transparent)]
    Workload(#[from] workload::Error),
    #[error(transparent)]
    Distribution(#[from] workload::distribution::Error),
    #[error(transparent)]
    Observe(#[from] observe::Error),
    #[error(transparent)]
    Recording(#[from] recording::Error),
    #[error(transparent)]
    Probe(#[from] probe::Error),
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("put a library into the server that says what it asks its malloc for")]
    Asked {
        #[source]
        source: asked::Error,
    },
    /// The recording, or the caller's second sink of samples.
    #[error("keep what was seen")]
    Sink {
        #[source]
        source: evidence::SinkError,
    },
    #[error("interrupted; everything is undone")]
    Interrupted,
    #[error("the watchdog ended the run: {reason}")]
    Watchdog { reason: String },
    #[error("somebody else changed what we had set: {}", changes.join("; "))]
    Conflicts { changes: Vec<String>, repairs: Vec<String> },
    /// `why`: the first sign of it that was seen.
    #[error("{why}: {end}")]
    ServerEnded { why: String, end: Box<sandbox::Error> },
    #[error("the {phase} of arm '{arm}' broke off after {transactions} transactions")]
    BrokeOff {
        phase: &'static str,
        arm: Box<str>,
        transactions: u64,
        #[source]
        source: load::Error,
    },
    #[error("the load beside the load, {name}, broke off")]
    LoadBeside {
        name: String,
        #[source]
        source: load::Error,
    },
    /// The server's own program made no data directory with these options, which are decided then.
    #[error("no data directory can be made with {}", options.join(", "))]
    NotMade {
        options: Vec<String>,
        #[source]
        source: Box<sandbox::Error>,
    },
    /// The server of a clone refuses the password that is kept with the data.
    #[error("the server does not take the account of the kept fill {key}")]
    KeptAccount {
        key: String,
        #[source]
        source: Box<sandbox::Error>,
    },
    #[error("no server runs")]
    NoServer,
    #[error("no server runs, or its load was not prepared")]
    NotPrepared,
    #[error("the preloaded library is not in the server: its reads and writes would not be slowed")]
    NotLoaded,
    #[error("the server was to be in huge pages, and there is room for {room}")]
    HugePages { room: String },
    #[error("{connections} connections need {needed} {what}, and {free} of {most} are free")]
    Room { connections: u32, needed: u64, what: String, free: u64, most: u64, remedy: String },
    #[error("run the load on CPU {asked}")]
    LoadCpus {
        asked: CpuList,
        #[source]
        source: io::Error,
    },
    /// `what`: the arm's load, or the warm-up before it.
    #[error("{program} ended {what} of arm '{arm}' with exit code {exit_code}; the end of its log:\n{log}")]
    Driver { program: String, what: &'static str, arm: String, exit_code: i32, log: String },
    #[error("{program}, which was to fill the server, ended with exit code {exit_code}; the end of its log:\n{log}")]
    FillCommand { program: String, exit_code: i32, log: String },
    #[error("the launcher of the load's program was killed")]
    LauncherKilled,
    #[error("the data have several databases, and nothing says which is loaded: {}", names.join(", "))]
    Databases { names: Vec<String> },
    /// The description of a disk.
    #[error("{message}")]
    Words { message: String, hint: String },
    /// A file that somebody wrote by hand; `message` has each problem with its place.
    #[error("{message}")]
    File { message: String, hint: String },
}

impl From<sandbox::Error> for Error {
    fn from(error: sandbox::Error) -> Self {
        Self::Sandbox(Box::new(error))
    }
}

/// What an error that is classified by itself means for the host, whatever caused it: an error of this crate or of another one. `None`: it is not
/// classified; it counts as failed, unless one of its causes is classified.
pub fn meaning(error: &(dyn std::error::Error + 'static)) -> Option<Kind> {
    error.downcast_ref::<Error>().map_or_else(|| of_station(error), Error::own_kind)
}

/// 128 + SIGKILL.
const KILLED: i32 = 137;

impl Error {
    /// The meaning of the error for the host. An error that is not classified means: failed, and everything is undone.
    pub fn kind(&self) -> Kind {
        self.chain().find_map(meaning).unwrap_or(Kind::Failed)
    }

    /// This error and its causes. An error of another crate is classified by itself.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        successors(Some(self.station().unwrap_or(self)), |error| error.source())
    }

    /// The error of another crate that this one passes on.
    pub fn station(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Run(error) => error,
            Self::Sandbox(error) => error.as_ref(),
            Self::Squeeze(error) => error,
            Self::Layer(error) => error,
            Self::Load(error) => error,
            Self::Fill(error) => error,
            Self::Observe(error) => error,
            Self::Recording(error) => error,
            Self::Probe(error) => error,
            Self::Host(error) => error,
            Self::Json(error) => error,
            _ => return None,
        })
    }

    /// Whether the server ended by itself: it crashed or gave up, and nobody killed it or asked it to stop (exit code 0, SIGHUP, SIGINT, SIGTERM), and the disk
    /// was not full.
    pub fn is_servers_own_end(&self) -> bool {
        let by_itself =
            |status: &Option<i32>| status.is_some_and(|status| ![0, 129, 130, KILLED, 143].contains(&status));
        let Self::ServerEnded { end, .. } = self else { return false };
        matches!(&**end, sandbox::Error::Ended { status, .. } if by_itself(status)) && !end.is_full_disk()
    }

    /// Whether the server, or the process that held RAM, was killed.
    pub(crate) fn is_a_death(&self) -> bool {
        match self {
            Self::ServerEnded { end, .. } => matches!(**end, sandbox::Error::Ended { status: Some(KILLED), .. }),
            Self::Squeeze(error) => matches!(error, squeeze::Error::HolderDied),
            _ => false,
        }
    }

    pub(crate) fn is_of_a_server(&self) -> bool {
        matches!(self, Self::ServerEnded { .. })
    }

    /// Whether the conversation with the server is broken, and not a question refused.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        use load::Error::{Connect, Lost, ServerLost};
        self.chain().any(|cause| matches!(cause.downcast_ref(), Some(Connect { .. } | Lost { .. } | ServerLost { .. })))
    }

    /// Whether a load, or a question beside it, ended before its time, and the server may live.
    pub(crate) fn is_of_the_load(&self) -> bool {
        matches!(self, Self::BrokeOff { .. } | Self::LoadBeside { .. } | Self::Driver { .. } | Self::Load(_))
            || self.is_of_the_connection()
            || self.chain().filter_map(|cause| cause.downcast_ref()).any(|cause| load::Error::busy(cause).is_some())
    }

    /// The error of a deployment with these options: of its own kind where the program that makes the data directory ended by itself, and was not killed.
    pub(crate) fn not_deployed(error: sandbox::Error, options: &[ServerOption]) -> Self {
        match &error {
            sandbox::Error::Program { status, .. } if !options.is_empty() && !status.contains("signal: 9") => {
                Self::NotMade { options: options.iter().map(ToString::to_string).collect(), source: error.into() }
            }
            _ => error.into(),
        }
    }

    /// Whether the server did not become ready with its settings; none of its processes runs. A full disk is no setting.
    pub fn is_no_start(&self) -> bool {
        use sandbox::Error::{Died, NotAsAsked, NotReady};
        match self {
            Self::NotMade { source, .. } => !source.is_full_disk(),
            Self::Sandbox(error) => {
                matches!(**error, Died { .. } | NotReady { .. } | NotAsAsked { .. }) && !error.is_full_disk()
            }
            _ => false,
        }
    }

    /// The kind of this error, whatever caused it. `None`: it is not classified.
    pub(crate) fn own_kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Interrupted => Kind::Interrupted,
            Self::Conflicts { .. } => Kind::NotRestored,
            Self::Watchdog { .. }
            | Self::ServerEnded { .. }
            | Self::NotLoaded
            | Self::Driver { .. }
            | Self::FillCommand { .. }
            | Self::KeptAccount { .. }
            | Self::HugePages { .. }
            | Self::NoServer
            | Self::NotPrepared
            | Self::LauncherKilled => Kind::Failed,
            Self::Room { .. } | Self::Asked { source: asked::Error::Split { .. } } => Kind::Missing,
            Self::Databases { .. }
            | Self::Words { .. }
            | Self::File { .. }
            | Self::Workload(_)
            | Self::Distribution(_) => Kind::Usage,
            other => return of_station(other.station()?),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::error::Error as _;

    fn lost() -> load::Error {
        let source = io::Error::from(io::ErrorKind::BrokenPipe);
        load::Error::Lost { during: "reading", source }
    }

    #[test]
    fn a_stations_error_is_told_and_found_as_itself() {
        let full = || load::Error::Full { wanted: 9, limit: 8, in_use: 0, setting: "max_connections" };
        let broke = Error::BrokeOff { phase: "warm-up", arm: "a".into(), transactions: 3, source: full() };
        assert_eq!(broke.to_string(), "the warm-up of arm 'a' broke off after 3 transactions");
        for error in [Error::from(full()), broke] {
            assert!(error.chain().any(|it| matches!(it.downcast_ref(), Some(load::Error::Full { .. }))), "{error:?}");
            assert_eq!(error.chain().find_map(meaning), Some(Kind::Failed));
        }
        let passed_on = Error::from(lost());
        assert_eq!(passed_on.to_string(), lost().to_string());
        assert_eq!(passed_on.source().unwrap().to_string(), lost().source().unwrap().to_string());
    }

    #[test]
    fn a_full_disk_is_no_result_of_a_setting() {
        let died = |line: &str| {
            Error::from(sandbox::Error::Died { name: "s".into(), status: None, log: vec![line.to_owned()] })
        };
        assert!(died("unknown variable 'x=1'").is_no_start());
        assert!(died("FATAL: could not create shared memory segment: No space left on device").is_no_start());
        for full in [
            "FATAL: could not write lock file \"postmaster.pid\": No space left on device",
            "[ERROR] InnoDB: preallocating 12582912 bytes for file ./ibtmp1 failed with error 28",
            "mariadbd: Error writing file './ddl_recovery.log' (Errcode: 28 \"No space left on device\")",
        ] {
            assert!(!died(full).is_no_start(), "{full}");
        }
    }

    #[test]
    fn options_with_which_no_data_directory_is_made_are_a_result() {
        let ended = |status: &str, line: &str| sandbox::Error::Program {
            program: "mariadbd".into(),
            doing: "making the system tables",
            status: status.into(),
            log: vec![line.into()],
        };
        let asked: Vec<ServerOption> = vec!["innodb_page_size=7k".parse().unwrap()];
        let of = |error, options: &[ServerOption]| Error::not_deployed(error, options).is_no_start();
        let refused = || ended("exit status: 1", "InnoDB: Invalid page size=7168");
        assert_eq!((of(refused(), &asked), of(refused(), &[])), (true, false), "without an option, it is no setting");
        assert!(!of(ended("exit status: 1", "Errcode: 28 \"No space left on device\""), &asked), "a full disk");
        assert!(!of(ended("signal: 9 (SIGKILL)", ""), &asked), "somebody killed it");
        assert!(!of(sandbox::Error::Interrupted, &asked));
    }

    #[test]
    fn what_it_means_for_the_host() {
        let conflicts = Error::Conflicts { changes: vec!["a".into(), "b".into()], repairs: vec!["c".into()] };
        assert_eq!(conflicts.kind(), Kind::NotRestored);
        assert_eq!(conflicts.to_string(), "somebody else changed what we had set: a; b");
        assert_eq!(Error::Interrupted.kind(), Kind::Interrupted);
        assert_eq!(Error::from(sandbox::Error::Interrupted).kind(), Kind::Interrupted);
        assert_eq!(Error::from(sandbox::Error::NoUser { why: "x" }).kind(), Kind::Missing);
        assert_eq!(Error::from(lost()).kind(), Kind::Failed);
        let end = |status| Error::ServerEnded {
            why: "x".into(),
            end: Box::new(sandbox::Error::Ended { status, log: Vec::new() }),
        };
        assert_eq!((end(Some(137)).is_a_death(), end(Some(1)).is_a_death()), (true, false));
        let by_itself = [Some(139), Some(1), Some(137), Some(0), None].map(|status| end(status).is_servers_own_end());
        assert_eq!(by_itself, [true, true, false, false, false]);
        let log = vec!["PANIC: could not write to file: No space left on device".to_owned()];
        let end = Box::new(sandbox::Error::Ended { status: Some(134), log });
        assert!(!Error::ServerEnded { why: "x".into(), end }.is_servers_own_end());
    }
}
