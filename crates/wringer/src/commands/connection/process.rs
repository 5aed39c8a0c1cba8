// SPDX-License-Identifier: Apache-2.0
//! The server's process: also where the server does not answer, refuses, or dies while it is connected to.

use super::{Connection, server_failure, surroundings};
use crate::exit::{Exit, Failure};
use attach::{Attached, Surroundings, Wanted};
use host::places::Places;
use host::process::{Identity, Process};
use ledger::Missing;
use load::Busy;
use std::io::ErrorKind;
use std::time::Duration;

/// A server that is killed closes its connections some milliseconds before its process has ended.
pub const DYING: Duration = Duration::from_secs(2);

/// The server's process, as far as it was known before the login.
#[derive(Default)]
struct Known {
    process: Option<(Process, String)>,
    /// By its number, or as that of a sandbox. Otherwise it is the one that listens at the socket.
    is_named: bool,
}

impl Known {
    fn named(pid: Option<u32>) -> Self {
        let process = pid.and_then(opened);
        Self { is_named: process.is_some(), process }
    }

    fn listens(&mut self, pid: u32) {
        if self.process.is_none() && attach::process::is_server(pid) {
            self.process = opened(pid);
        }
    }

    fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|(process, _)| process.identity().pid)
    }

    /// The failure, if the process ended before the server had answered.
    fn ended(&self, error: &attach::Error) -> Option<Failure> {
        let (process, name) = self.process.as_ref()?;
        let patience = if is_broken(error) { DYING } else { Duration::ZERO };
        let message = format!("process {} ({name}) ended while it was asked", process.identity().pid);
        process.wait(patience).then(|| Failure::message(Exit::Failed, message))
    }
}

fn opened(pid: u32) -> Option<(Process, String)> {
    Some((Identity::of(pid).and_then(Process::open)?, attach::process::name(pid)))
}

/// Whether the connection broke or nobody listens, as when a server dies.
fn is_broken(error: &attach::Error) -> bool {
    match error {
        attach::Error::Connect(load::Error::Lost { source, .. }) => !is_over(source.kind()),
        attach::Error::Connect(load::Error::Connect { .. }) => true,
        _ => false,
    }
}

fn is_over(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Whether the server cannot answer: it stands still, is full, or has not finished its start. A wrong account is for the user to correct.
fn is_unable(error: &attach::Error) -> bool {
    match error {
        attach::Error::Connect(load::Error::Lost { .. }) => true,
        attach::Error::Connect(error) => matches!(error.busy(), Some(Busy::Starting | Busy::ServerFull)),
        _ => false,
    }
}

fn failure(error: attach::Error) -> Failure {
    match error {
        attach::Error::Connect(error) if error.code() == Some("3D000") => Failure::new(Exit::Missing, error)
            .hint("--pgsql-db names the database whose counters are read; postgres is always there"),
        attach::Error::Connect(error) => server_failure(error),
        error => error.into(),
    }
}

impl Connection {
    /// The server of these flags, with its process on this host. `pid` may name the process; else the process is searched.
    ///
    /// # Errors
    /// The same as for [`Self::target`]; 3: the server cannot be reached, there is no such process, its process cannot be found, or `pid` is that of another
    /// server.
    pub fn attach(&self, pid: Option<u32>, places: &Places) -> Result<Attached, Failure> {
        let found = self.find(pid, places, &mut Known::default())?;
        found.and_then(Attached::require_process).map_err(failure)
    }

    /// The server of these flags, on any host; also its process, if it is on this host and can be found.
    ///
    /// # Errors
    /// The same as for [`Self::attach`], except those about the process. 4: it ended before the server had answered.
    pub fn attach_anywhere(&self, places: &Places) -> Result<Attached, Failure> {
        let mut known = Known::named(self.process_of_sandbox(places));
        self.find(None, places, &mut known)?.map_err(|error| known.ended(&error).unwrap_or_else(|| failure(error)))
    }

    /// The process of a server, without a connection: nothing is asked of the server, even if the environment names one.
    ///
    /// # Errors
    /// 3: there is no such process.
    pub fn attach_process(pid: u32, places: &Places) -> Result<Attached, Failure> {
        let wanted = Wanted { pid: Some(pid), ..Wanted::default() };
        let around = Surroundings { places, variable: &|_| None, say: &|_| {} };
        Ok(Attached::find(&wanted, around)?)
    }

    /// The same as [`Self::attach`]. If the server cannot answer, or refuses and its process was named: the process alone. What is not known then is told; also
    /// that another process than the named one listens at the server's socket.
    ///
    /// # Errors
    /// The same as for [`Self::attach`]. 4: the process ended before the server had answered.
    pub fn attach_or_process(&self, pid: Option<u32>, places: &Places) -> Result<(Attached, Option<Missing>), Failure> {
        let mut known = Known::named(pid.or_else(|| self.process_of_sandbox(places)));
        let error = match self.find(pid, places, &mut known)?.and_then(Attached::require_process) {
            Ok(attached) => {
                let missing = unsaid(&attached);
                return Ok((attached, missing));
            }
            Err(error) => error,
        };
        if let Some(ended) = known.ended(&error) {
            return Err(ended);
        }
        let is_enough = known.is_named || is_unable(&error);
        let is_contradiction = matches!(error, attach::Error::OtherServer { .. });
        let failure = failure(error);
        let Some(pid) = known.pid().filter(|_| failure.exit == Exit::Missing && !is_contradiction) else {
            return Err(failure);
        };
        if !is_enough {
            return Err(failure.hint(format!("--pid {pid} shows what the kernel knows of it, without an account")));
        }
        let unasked = Missing {
            what: Missing::ITS_WORD.into(),
            why: format!("{:#}", failure.error),
            remedy: Some("an account that may log in, on a server that answers".into()),
        };
        Ok((Self::attach_process(pid, places)?, Some(unasked)))
    }

    fn find(
        &self,
        pid: Option<u32>,
        places: &Places,
        known: &mut Known,
    ) -> Result<Result<Attached, attach::Error>, Failure> {
        let wanted = Wanted { pid, ..self.wanted()? };
        Ok(Attached::find_telling(&wanted, surroundings(places), &mut |pid| known.listens(pid)))
    }
}

/// What is not known of a process without a server, or of a server beside a process that may be another's.
fn unsaid(attached: &Attached) -> Option<Missing> {
    if attached.server.is_none() {
        return attached.pid().map(|_| Missing {
            what: Missing::ITS_WORD.into(),
            why: "only its process is named".into(),
            remedy: Some(
                "--sandbox NAME, or a connection (--dsn, --mysql-socket, --pgsql-host, ...), with an account that may log in"
                    .into(),
            ),
        });
    }
    attached.doubt().map(|why| Missing {
        what: "whether the server and the process are the same".into(),
        why,
        remedy: Some("leave out --pid, or name the server of that process".into()),
    })
}
