// SPDX-License-Identifier: Apache-2.0
//! Whether a sandbox's server runs: first by the processes that can be seen, then by signs that can be seen in every namespace: the locks of its
//! runs, the server's locks on its own files, and its socket. A server that cannot be seen counts as unknown, and is never stopped.

use crate::wrap::is_under_valgrind;
use crate::{Error, Flavour, Sandbox};
use host::places::Places;
use host::process::{Identity, is_fork_of_caller, oldest_below, open_below};
use run::{FoundRun, Resource};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// InnoDB and Aria lock these for writing while they run (fcntl(2)).
const LOCKED_WHILE_RUNNING: [&str; 2] = ["ibdata1", "aria_log_control"];

/// The pause between the two looks in both of which a process must be seen.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The state of a sandbox's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// The server runs, as this process.
    Runs(u32),
    Stopped,
    /// The server runs, or may run, where it cannot be seen; the words tell why.
    Unknown(String),
}

impl Server {
    pub fn pid(&self) -> Option<u32> {
        if let Self::Runs(pid) = self { Some(*pid) } else { None }
    }

    pub fn is_stopped(&self) -> bool {
        *self == Self::Stopped
    }
}

impl Sandbox {
    /// `found`: the result of [`run::find_runs`] for these places.
    pub fn server(&self, places: &Places, found: &[FoundRun]) -> Server {
        if let Some(pid) = self.server_process() {
            return Server::Runs(pid);
        }
        let runs: Vec<&FoundRun> = found.iter().filter(|run| self.is_held_by(run)).collect();
        if let Some((run, why)) = runs.iter().find_map(|run| Some((*run, run.unknown.as_ref()?))) {
            return Server::Unknown(format!("run {}: {why}", run.id));
        }
        let is_explained = runs.iter().any(|run| run.live || !run.processes.is_empty());
        match run::holder(places, &Resource::Sandbox(self.name().into())) {
            Ok(None) => {}
            Ok(Some(_)) if is_explained => {}
            Ok(Some(run)) => return Server::Unknown(format!("{run} holds it, and none of its processes can be seen")),
            Err(error) => {
                return Server::Unknown(format!("whether a run holds it cannot be told: {}", host::chain(&error)));
            }
        }
        if is_explained { Server::Stopped } else { self.unseen_server().map_or(Server::Stopped, Server::Unknown) }
    }

    /// As [`Sandbox::server`], but it finds the runs itself, and only where the server is not seen: for the runs, the open files of all processes on the
    /// host are listed.
    ///
    /// # Errors
    /// The runs cannot be listed.
    pub fn server_now(&self, places: &Places) -> Result<Server, Error> {
        match self.server_process() {
            Some(pid) => Ok(Server::Runs(pid)),
            None => Ok(self.server(places, &run::find_runs(places)?)),
        }
    }

    /// # Errors
    /// [`Error::Unknown`]: it is not known whether its server runs.
    pub fn require_known(&self, places: &Places) -> Result<(), Error> {
        match self.server_now(places)? {
            Server::Unknown(why) => Err(Error::Unknown { name: self.name().into(), why }),
            Server::Runs(_) | Server::Stopped => Ok(()),
        }
    }

    /// As [`Sandbox::open`], for a sandbox whose server is needed.
    ///
    /// # Errors
    /// The errors of [`Sandbox::open`], and [`Error::NotRunning`]. A server that cannot be seen may answer, and is no error.
    pub fn open_running(name: &str, places: &Places) -> Result<Self, Error> {
        let sandbox = Self::open(name, places)?;
        match sandbox.server_now(places)? {
            Server::Stopped => Err(Error::NotRunning { name: name.into() }),
            Server::Runs(_) | Server::Unknown(_) => Ok(sandbox),
        }
    }

    /// A process that has the sandbox's files open, first of all the server; never the caller.
    pub fn occupant(&self) -> Option<u32> {
        if let Some(server) = self.server_process() {
            return Some(server);
        }
        let seen = self.others();
        if seen.is_empty() {
            return None;
        }
        // a program that the caller has just started closes the descriptors that it has inherited a moment later
        std::thread::sleep(BETWEEN_LOOKS);
        let again = self.others();
        seen.into_iter().find(|process| again.contains(process)).map(|process| process.pid)
    }

    /// The processes that have its files open, except the caller and its forks.
    fn others(&self) -> Vec<Identity> {
        let own = std::process::id();
        let found = open_below(&self.folder).found.into_iter();
        found.filter(|process| process.pid != own && !is_fork_of_caller(process.pid)).collect()
    }

    /// The server process, when it runs and can be seen: an ordinary user sees their own processes, and nobody sees processes outside of their own
    /// namespace.
    pub fn server_process(&self) -> Option<u32> {
        // PostgreSQL's child processes have its program too, and are younger.
        oldest_below(&self.data(), &|pid| self.is_run_by(pid)).map(|it| it.pid)
    }

    /// Why it seems that a server that cannot be seen uses the data; this also finds a server that no run has started.
    pub(crate) fn unseen_server(&self) -> Option<String> {
        if run::takes_unseen_for_dead() {
            return None;
        }
        if self.flavour() == Flavour::Postgresql {
            let socket = self.socket();
            if answers(&socket) {
                return Some(format!("somebody that cannot be seen answers at {}", socket.display()));
            }
            return match self.attached() {
                Ok(0) => None,
                Ok(_) => Some("a process that cannot be seen has its shared memory attached".to_owned()),
                Err(error) => Some(host::chain(&error)),
            };
        }
        let (file, pid) = locked_file(&self.data())?;
        let who = if pid > 0 { format!("process {pid}") } else { "a process that cannot be seen".to_owned() };
        Some(format!("its {file} is locked by {who}"))
    }

    fn is_run_by(&self, pid: u32) -> bool {
        let installation = &self.manifest.installation;
        installation.is_run_by(pid) || is_under_valgrind(pid, &installation.program)
    }

    /// Whether this run holds the sandbox, or held it.
    pub fn is_held_by(&self, run: &FoundRun) -> bool {
        let resource = format!("sandbox-{}", self.name());
        run.resources.contains(&resource)
    }
}

/// Whether a process listens on this socket. The answer is the same in every namespace that sees the file.
fn answers(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// A file of a data directory that a server of the MySQL family has locked, and the process that holds the lock; 0 when that process cannot be seen
/// from here.
pub(crate) fn locked_file(data: &Path) -> Option<(&'static str, i32)> {
    let locked = |name: &&'static str| Some((*name, locked_by(&File::open(data.join(name)).ok()?)?));
    LOCKED_WHILE_RUNNING.iter().find_map(locked)
}

/// The process that holds a lock for writing; 0 when it cannot be seen from here.
fn locked_by(file: &File) -> Option<i32> {
    let asked = Flock::from(FlockType::ReadLock);
    let lock = fcntl_getlk(file, &asked).ok()??;
    Some(lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get()))
}
