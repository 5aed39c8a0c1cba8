// SPDX-License-Identifier: Apache-2.0
//! Removes a sandbox by its manifest: only the names in the manifest, without following a link.

use crate::deploy::INIT_END_TIMEOUT;
use crate::manifest::{Manifest, State};
use crate::{Error, Member, Sandbox, Server};
use host::files;
use host::places::Places;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// The names of all removed sandboxes, replicas first.
    pub names: Vec<String>,
    /// Files in its folder that are not in the manifest: they were not removed.
    pub kept: Vec<PathBuf>,
    /// Shared memory of its server that was not removed, and why.
    pub memory: Vec<String>,
    /// The runs that were ended for the deletion.
    pub ended: Vec<run::RunId>,
}

impl Sandbox {
    /// Removes a sandbox in any state; a primary is removed with its replicas. With `force`, their servers are stopped first.
    ///
    /// # Errors
    /// [`Error::Running`] without `force`; [`Error::Run`] while a run holds it whose server does not run now; [`Error::Unknown`] when it is not known whether it runs; [`Error::Deploying`] while another process
    /// deploys or deletes it; [`Error::IsReplica`].
    pub fn delete(name: &str, places: &Places, force: bool) -> Result<Deleted, Error> {
        let sandbox = Self::open_any(name, places)?;
        if let (Some(Member::Replica { of, .. }), Some(_)) = (&sandbox.manifest.member, sandbox.primary()) {
            return Err(Error::IsReplica { name: name.into(), of: of.clone() });
        }
        let mut members = sandbox.members();
        let _locks = members.iter().map(Self::lock).collect::<Result<Vec<_>, _>>()?;
        members.reverse();
        for member in &members {
            member.require_known(places)?;
        }
        let mut deleted = Deleted::default();
        if force {
            for member in &members {
                deleted.ended.extend(member.end_runs(places)?);
            }
        }
        // the programs of a killed deployment, and the processes that were ended just now, take a moment to disappear
        Self::await_unused(&members, if force { INIT_END_TIMEOUT } else { Duration::ZERO })?;
        if !force {
            for member in &members {
                deleted.ended.extend(member.end_runs_that(places, is_over)?);
            }
        }
        // a run that has not started the server yet, or has stopped it and starts it again, holds them without a process
        let resources: Vec<_> = members.iter().map(|member| run::Resource::Sandbox(member.name().into())).collect();
        let _held = run::hold(places, &resources)?;
        deleted.names = members.iter().map(|member| member.name().to_owned()).collect();
        (deleted.kept, deleted.memory) = sandbox.clear_members()?;
        Ok(deleted)
    }

    /// Waits until no process has files of any of these sandboxes open.
    ///
    /// # Errors
    /// [`Error::Running`] when a process still has such a file open after `patience`; [`Error::Unknown`] when a process that cannot be seen has one.
    pub(crate) fn await_unused(members: &[Self], patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        while let Some(user) = members.iter().find_map(Self::user) {
            if Instant::now() >= deadline {
                return Err(user);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The process that has files of the sandbox open, as an error.
    fn user(&self) -> Option<Error> {
        let name = || self.name().into();
        let seen = self.occupant().map(|pid| Error::Running { name: name(), pid });
        seen.or_else(|| self.unseen_server().map(|why| Error::Unknown { name: name(), why }))
    }

    /// Removes a sandbox, and before it its replicas. The primary's manifest counts as half deployed from now on, so that the next deletion continues
    /// one that was interrupted. To be called under the locks of all members.
    pub(crate) fn clear_members(&self) -> Result<(Vec<PathBuf>, Vec<String>), Error> {
        let replicas = self.replicas();
        if !replicas.is_empty() && self.manifest.state == State::Ready {
            Manifest { state: State::Deploying, ..self.manifest.clone() }.write(&self.folder)?;
        }
        let (mut kept, mut memory) = (Vec::new(), Vec::new());
        for member in replicas.iter().chain([self]) {
            // this comes before the data directory is removed, which names the segments
            memory.extend(member.clear_shared_memory()?);
            kept.extend(member.clear()?);
        }
        Ok((kept, memory))
    }

    /// Stops a server that was left running: ends the run that holds the sandbox, even when the server has ended by itself.
    ///
    /// # Errors
    /// [`Error::NotRunning`] when no run holds the sandbox; [`Error::Unknown`] when a run may hold it whose processes cannot be seen from here.
    pub fn stop_standing(&self, places: &Places) -> Result<Vec<run::RunId>, Error> {
        self.require_known(places)?;
        let ended = self.end_runs(places)?;
        if ended.is_empty() { Err(Error::NotRunning { name: self.name().into() }) } else { Ok(ended) }
    }

    /// Ends runs whose server has ended by itself: removes their journals, and the cgroups in which the server was started.
    ///
    /// # Errors
    /// [`Error::Starting`] while another process starts the server: its run is left alone. Or a run cannot be undone completely.
    pub fn clear_runs(&self, places: &Places) -> Result<(), Error> {
        match self.server_now(places)? {
            Server::Runs(_) => return Ok(()),
            Server::Unknown(why) => return Err(Error::Unknown { name: self.name().into(), why }),
            Server::Stopped => {}
        }
        if let Some(run) = self.runs(places)?.into_iter().find(is_at_work) {
            return Err(Error::Starting { name: self.name().into(), run: run.id });
        }
        self.end_runs(places).map(drop)
    }

    /// Whether its server was left running, has ended by itself, and its run must still be ended.
    ///
    /// # Errors
    /// The runs cannot be listed.
    pub fn has_died(&self, places: &Places) -> Result<bool, Error> {
        Ok(self.has_died_in(places, &run::find_runs(places)?))
    }

    /// The same, among runs that were found before.
    pub fn has_died_in(&self, places: &Places, found: &[run::FoundRun]) -> bool {
        self.server(places, found).is_stopped() && found.iter().any(|run| self.is_held_by(run) && run.left)
    }

    fn end_runs(&self, places: &Places) -> Result<Vec<run::RunId>, Error> {
        self.end_runs_that(places, holds_something)
    }

    fn end_runs_that(&self, places: &Places, is_meant: fn(&run::FoundRun) -> bool) -> Result<Vec<run::RunId>, Error> {
        let mut ended = Vec::new();
        for found in self.runs(places)?.into_iter().filter(is_meant) {
            if let Some(why) = found.unknown {
                return Err(run::Error::Unknown { id: found.id, why }.into());
            }
            let report = run::undo(places, run::Scope::One(found.id.clone()), &mut |_| {})?;
            if !report.is_whole() {
                return Err(run::Error::NotRestored { id: found.id, failures: report.failures }.into());
            }
            ended.extend(report.ended);
        }
        Ok(ended)
    }

    /// The runs that hold the sandbox, or held it.
    pub(crate) fn runs(&self, places: &Places) -> Result<Vec<run::FoundRun>, Error> {
        Ok(run::find_runs(places)?.into_iter().filter(|run| self.is_held_by(run)).collect())
    }

    /// Files that a process has left beside the sandbox's files, because it was killed while it wrote one of them: `.secret.4711.new`.
    fn unfinished(&self) -> Vec<PathBuf> {
        let names = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let is_ours = |name: &OsString| {
            let name = name.to_string_lossy();
            let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
            let file = inner.and_then(|inner| inner.rsplit_once('.')).filter(|(_, pid)| pid.parse::<u32>().is_ok());
            file.is_some_and(|(file, _)| self.manifest.contents.iter().any(|known| known.as_os_str() == file))
        };
        names.filter(is_ours).map(PathBuf::from).collect()
    }

    /// Removes the files of the sandbox. To be called under its lock.
    pub(crate) fn clear(&self) -> Result<Vec<PathBuf>, Error> {
        if let Some(socket_folder) = self.outer_socket_folder() {
            files::remove_manifested(socket_folder, &sockets_in(socket_folder))?;
        }
        let contents: Vec<PathBuf> = self.unfinished().into_iter().chain(self.manifest.contents.clone()).collect();
        Ok(files::remove_manifested(&self.folder, &contents)?.kept)
    }
}

/// The names of sockets and their lock files that our server has made here; PostgreSQL's names have the port, which may have moved since.
fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_socket = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with(".s.PGSQL.") || name.starts_with("server.sock")
    };
    names.filter(is_socket).map(PathBuf::from).collect()
}

/// Whether the run has processes, or things that a server leaves behind when it ends by itself.
fn holds_something(run: &run::FoundRun) -> bool {
    let cgroup = |step: &run::StepState| step.is_open() && matches!(step.change, run::Step::Cgroup { .. });
    !run.processes.is_empty() || run.unknown.is_some() || is_over(run) || (!run.stale && run.steps.iter().any(cgroup))
}

/// Whether the run's server was left running, and none of the run's processes runs any more.
fn is_over(run: &run::FoundRun) -> bool {
    run.left && !run.live && run.processes.is_empty() && run.unknown.is_none()
}

/// Whether the run has not started its server yet, or its server lives. A run that is not a standing one may start the server again.
fn is_at_work(run: &run::FoundRun) -> bool {
    let is_server = |step: &&run::StepState| matches!(step.change, run::Step::Process { role: run::Role::Server, .. });
    let lives = |step: &run::StepState| step.processes.iter().any(|process| run.processes.contains(process));
    let has_ended = |step: &run::StepState| {
        if step.is_open() { !step.processes.is_empty() && !lives(step) } else { run.kind == Some(run::Kind::Standing) }
    };
    let mut servers = run.steps.iter().filter(is_server).peekable();
    run.live && (servers.peek().is_none() || !servers.all(has_ended))
}
