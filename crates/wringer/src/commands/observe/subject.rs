// SPDX-License-Identifier: Apache-2.0
//! Whom to look at: a server over a connection, its process, or neither.

use super::process;
use crate::commands::command_line;
use crate::commands::connection::{Connection as Flags, server_failure};
use crate::commands::load::without_passwords;
use crate::exit::{Exit, Failure};
use ::observe::server::{self, ServerKind, witness_counters};
use ::observe::{Reopening, conditions};
use capability::Flavour;
use evidence::{Conditions, Server as ServerFacts, Tool};
use host::places::Places;
use host::process::Process;
use load::admin::Connection;
use load::{Endpoint, Target};
use sandbox::Sandbox;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is looked at besides the host.
pub(super) struct Subject {
    pub(super) server: Option<Server>,
    pub(super) process: Option<Process>,
}

/// A server that answers.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) kind: ServerKind,
    version: String,
    /// The process at the other end of a Unix socket.
    peer: Option<u32>,
    connection: Reopening,
}

impl Subject {
    /// # Errors
    /// Exit code 2: the flags contradict each other. 3: the server cannot be reached, there is no such process, or it cannot be told which
    /// one is the server's.
    pub(super) fn find(flags: &Flags, pid: Option<u32>, places: &Places) -> Result<Self, Failure> {
        let server = flags.names_a_server().then(|| Server::reach(flags)).transpose()?;
        let pid = match (pid, &server) {
            (None, Some(server)) => Some(server.find_process(places)?),
            (pid, _) => pid,
        };
        Ok(Self { server, process: pid.map(process::open).transpose()? })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.identity().pid)
    }

    /// Whether the server has a process for each connection.
    pub(super) fn has_many_processes(&self) -> bool {
        match (&self.server, self.pid()) {
            (Some(server), _) => server.kind.flavour == Flavour::Postgresql,
            (None, Some(pid)) => process::is_postgresql(pid),
            (None, None) => false,
        }
    }

    /// `mariadb 10.11.19 at /run/mysqld/mysqld.sock, process 4711 (mariadbd)`.
    pub(super) fn describe(&self) -> String {
        let server = self.server.as_ref();
        let server = server.map(|it| format!("{} {} at {}", it.kind.flavour, it.version, it.target.endpoint));
        let process = self.pid().map(|pid| format!("process {pid} ({})", process::name(pid)));
        let parts: Vec<String> = server.into_iter().chain(process).collect();
        if parts.is_empty() { "the host alone".to_owned() } else { parts.join(", ") }
    }

    /// What is odd about it, in words.
    pub(super) fn oddities(&self) -> Vec<String> {
        let mut odd = Vec::new();
        if let (Some(pid), Some(peer)) = (self.pid(), self.server.as_ref().and_then(|server| server.peer))
            && pid != peer
        {
            odd.push(format!("process {peer} ({}) listens at the socket, and --pid names {pid}", process::name(peer)));
        }
        odd
    }

    /// What the result is only true under; what could not be read is added to `refused`.
    pub(super) fn conditions(&mut self, refused: &mut Vec<String>) -> Conditions {
        let variables = match &mut self.server {
            Some(it) => server::variables(&mut it.connection, it.kind.flavour).unwrap_or_else(|error| {
                refused.push(host::chain(&error));
                BTreeMap::new()
            }),
            None => BTreeMap::new(),
        };
        // elsewhere, or not told: nothing is said of a disk
        let host = conditions::host(&self.data(&variables).unwrap_or_default());
        let caveats = conditions::caveats(&host);
        let pid = self.pid();
        let program = pid.and_then(process::program).map(|program| program.display().to_string());
        let server = self.server.as_ref();
        Conditions {
            tool: Tool {
                version: env!("CARGO_PKG_VERSION").into(),
                command: without_passwords(command_line().into_iter()),
                as_root: rustix::process::geteuid().is_root(),
            },
            host,
            server: ServerFacts {
                flavour: server.map(|it| it.kind.flavour.to_string()).unwrap_or_default(),
                version: server.map(|it| it.version.clone()).unwrap_or_default(),
                binary: program.unwrap_or_default(),
                source: pid.map(|pid| format!("process {pid}, which ran before")).unwrap_or_default(),
                variables,
            },
            mechanisms: BTreeMap::new(),
            traits: BTreeMap::new(),
            caveats,
        }
    }

    fn data(&self, variables: &BTreeMap<String, String>) -> Option<PathBuf> {
        let told = variables.get("datadir").or_else(|| variables.get("data_directory")).map(PathBuf::from);
        let pid = self.pid()?;
        // servers work in their data directory
        let data = told.or_else(|| std::fs::read_link(format!("/proc/{pid}/cwd")).ok())?;
        process::seen_from_here(pid, &data)
    }

    /// The counters that tell physical reads and statements; what could not be read is added to `refused`.
    pub(super) fn counters(&mut self, refused: &mut Vec<String>) -> BTreeMap<String, u64> {
        let Some(it) = &mut self.server else { return BTreeMap::new() };
        witness_counters(&mut it.connection, it.kind.flavour).unwrap_or_else(|error| {
            refused.push(host::chain(&error));
            BTreeMap::new()
        })
    }
}

impl Server {
    fn reach(flags: &Flags) -> Result<Self, Failure> {
        let mut target = flags.target()?;
        if target.protocol == load::Protocol::Mysql {
            // its counters are those of the whole server: no database need be there
            target.database = None;
        }
        let connection = Connection::open(&target).map_err(|error| match error.code() {
            Some("3D000") => Failure::new(Exit::Missing, error)
                .hint("--pgsql-db names the database whose counters are read; postgres is always there"),
            _ => server_failure(error),
        })?;
        let version = connection.server_version().to_owned();
        let kind = ServerKind::of(target.protocol, &version);
        let peer = connection.peer_process();
        Ok(Self { kind, version, peer, connection: Reopening::new(target.clone()), target })
    }

    /// By its socket; of a sandbox also by its port.
    fn find_process(&self, places: &Places) -> Result<u32, Failure> {
        let endpoint = &self.target.endpoint;
        let unknown = |message: String| Failure::message(Exit::Missing, message).hint(process::HOW_TO_NAME);
        match self.peer.or_else(|| process_of_sandbox(places, endpoint)) {
            Some(pid) if process::is_server(pid) => Ok(pid),
            Some(pid) => {
                let name = process::name(pid);
                Err(unknown(format!("process {pid} ({name}) listens at {endpoint}, and is not known to be a server")))
            }
            None => Err(unknown(format!("which process serves {endpoint} is not to be seen over this connection"))),
        }
    }
}

/// A sandbox of ours is known by its port.
fn process_of_sandbox(places: &Places, endpoint: &Endpoint) -> Option<u32> {
    let Endpoint::Tcp(host, port) = endpoint else { return None };
    if !["localhost", "127.0.0.1", "::1"].contains(&host.as_str()) {
        return None;
    }
    let sandboxes = Sandbox::list(places).into_iter().filter_map(|(_, sandbox)| sandbox.ok());
    sandboxes.filter(|sandbox| sandbox.manifest.port == *port).find_map(|sandbox| sandbox.server_process())
}
