// SPDX-License-Identifier: Apache-2.0
//! Whether a sandbox's server runs: by the processes that can be seen, then by signs that every namespace sees: the locks of its runs, the server's
//! locks on its own files, and its socket. A server that cannot be seen counts as unknown, and is never stopped.

use crate::wrap::is_under_valgrind;
use crate::{Error, Flavour, Sandbox};
use host::places::Places;
use host::process::{Identity, is_fork_of_caller, open_below};
use run::{FoundRun, Resource};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// InnoDB and Aria lock these for writing while they run (fcntl(2)).
const LOCKED_WHILE_RUNNING: [&str; 2] = ["ibdata1", "aria_log_control"];

/// Between the two looks that a process must be seen in.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What a sandbox's server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// As this process.
    Runs(u32),
    Stopped,
    /// It runs, or may run, where it cannot be seen; the words say why.
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
    /// `found`: what [`run::find_runs`] has found in these places.
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

    /// As [`Sandbox::server`], with a look of its own at the runs.
    ///
    /// # Errors
    /// The runs cannot be listed.
    pub fn server_now(&self, places: &Places) -> Result<Server, Error> {
        Ok(self.server(places, &run::find_runs(places)?))
    }

    /// # Errors
    /// [`Error::Unknown`]: whether its server runs cannot be told from here.
    pub fn require_known(&self, places: &Places) -> Result<(), Error> {
        match self.server_now(places)? {
            Server::Unknown(why) => Err(Error::Unknown { name: self.name().into(), why }),
            Server::Runs(_) | Server::Stopped => Ok(()),
        }
    }

    /// As [`Sandbox::open`], to talk to its server.
    ///
    /// # Errors
    /// Those, and [`Error::NotRunning`]. One that cannot be seen may answer, and is none.
    pub fn open_running(name: &str, places: &Places) -> Result<Self, Error> {
        let sandbox = Self::open(name, places)?;
        match sandbox.server_now(places)? {
            Server::Stopped => Err(Error::NotRunning { name: name.into() }),
            Server::Runs(_) | Server::Unknown(_) => Ok(sandbox),
        }
    }

    /// A process that has its files open, the server above all; not the caller.
    pub fn occupant(&self) -> Option<u32> {
        if let Some(server) = self.server_process() {
            return Some(server);
        }
        let seen = self.others();
        if seen.is_empty() {
            return None;
        }
        // a program that the caller has just started closes what it has inherited a moment later
        std::thread::sleep(BETWEEN_LOOKS);
        let again = self.others();
        seen.into_iter().find(|process| again.contains(process)).map(|process| process.pid)
    }

    /// Processes that have its files open, but the caller and its forks.
    fn others(&self) -> Vec<Identity> {
        let own = std::process::id();
        let found = open_below(&self.folder).found.into_iter();
        found.filter(|process| process.pid != own && !is_fork_of_caller(process.pid)).collect()
    }

    /// The server process, when it runs and can be seen: an ordinary user sees his own processes, and nobody sees those outside of the
    /// namespace that he is in.
    pub fn server_process(&self) -> Option<u32> {
        // PostgreSQL's children have its program too, and are younger.
        let data = self.data();
        open_below(&data)
            .found
            .into_iter()
            .filter(|process| self.is_run_by(process.pid))
            .min_by_key(|it| it.start_time)
            .map(|it| it.pid)
    }

    /// Why a server that cannot be seen seems to use the data, also a server that no run has started.
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

    /// Whether this run holds it, or held it.
    pub(crate) fn is_held_by(&self, run: &FoundRun) -> bool {
        let resource = format!("sandbox-{}", self.name());
        run.resources.contains(&resource)
    }
}

/// Whether somebody listens on this socket. That is seen from every namespace that sees the file.
fn answers(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// A file of a data directory that a server of the MySQL family has locked, and the process; 0 when that cannot be seen from here.
pub(crate) fn locked_file(data: &Path) -> Option<(&'static str, i32)> {
    let locked = |name: &&'static str| Some((*name, locked_by(&File::open(data.join(name)).ok()?)?));
    LOCKED_WHILE_RUNNING.iter().find_map(locked)
}

/// The process that holds a lock for writing; 0 when it is not to be seen from here.
fn locked_by(file: &File) -> Option<i32> {
    let asked = Flock::from(FlockType::ReadLock);
    let lock = fcntl_getlk(file, &asked).ok()??;
    Some(lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get()))
}
