// SPDX-License-Identifier: Apache-2.0
//! What was attached to: a server over a connection, its process, both, or neither.

use crate::same::{Same, is_same};
use crate::{Error, Group, Surroundings, Wanted, process};
use capability::{Capability, Flavour};
use host::places::Places;
use host::process::Process;
use load::admin::Connection;
use load::{Endpoint, Target};
use observe::server::{self, Query as _, ServerKind, witness_counters};
use observe::{OwnConnections, PATIENCE, Reopening};
use sandbox::Sandbox;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A server and its process, as far as they were found; the host is always there.
pub struct Attached {
    /// `None`: the user named no server to connect to.
    pub server: Option<Server>,
    process: Option<Process>,
    /// The name of the process, read when it was attached to: a process that has ended no longer has one.
    name: String,
    /// Why there is a server and its process is not known.
    pub(crate) unseen: Option<Error>,
    /// Why the process that was named may be another's than the server's.
    doubt: Option<String>,
}

/// A server that answers.
pub struct Server {
    pub target: Target,
    pub kind: ServerKind,
    /// The version that the server told at login.
    pub version: String,
    /// The process at the other end of a Unix socket.
    peer: Option<u32>,
    pub(crate) connection: Reopening,
    /// The connections that were opened after the first one was handed over.
    pub(crate) own: OwnConnections,
}

impl Attached {
    /// Connects once, where there is a server to connect to, and finds its process on this host.
    ///
    /// # Errors
    /// [`Wanted::target`]'s; [`Error::Connect`]; [`Error::NoProcess`]; [`Error::OtherServer`].
    pub fn find(wanted: &Wanted, around: Surroundings<'_>) -> Result<Self, Error> {
        Self::find_telling(wanted, around, &mut |_| {})
    }

    /// The same; `listens` is told the process that listens at the server's Unix socket, before the login: the server may die during it, or never answer.
    ///
    /// # Errors
    /// As for [`Self::find`].
    pub fn find_telling(
        wanted: &Wanted,
        around: Surroundings<'_>,
        listens: &mut dyn FnMut(u32),
    ) -> Result<Self, Error> {
        let mut reach = || Server::reach(wanted.target(around)?, listens);
        let mut server = wanted.names_a_server(around).then(&mut reach).transpose()?;
        let doubt = match (wanted.pid, &mut server) {
            (Some(pid), Some(server)) => server.doubt(pid)?,
            _ => None,
        };
        let (pid, unseen) = match (wanted.pid, &server) {
            (Some(pid), _) => (Some(pid), None),
            (None, Some(server)) => match server.find_process(around.places) {
                Ok(pid) => (Some(pid), None),
                Err(why) => (None, Some(why)),
            },
            (None, None) => (None, None),
        };
        let name = pid.map(process::name).unwrap_or_default();
        Ok(Self { server, process: pid.map(process::open).transpose()?, name, unseen, doubt })
    }

    /// Fails where there is a server and its process is not known.
    ///
    /// # Errors
    /// [`Error::Unseen`]: the process is on another host, or cannot be found over TCP; [`Error::NoServer`].
    pub fn require_process(mut self) -> Result<Self, Error> {
        self.unseen.take().map_or(Ok(self), Err)
    }

    /// The server's first process, which has started all its others. `None`: it is not on this host, or it is not known which one it is.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub fn pid(&self) -> Option<u32> {
        self.process().map(|process| process.identity().pid)
    }

    /// `None`: neither the server nor its process says so.
    pub fn flavour(&self) -> Option<Flavour> {
        let of_process = || self.pid().filter(|pid| process::is_postgresql(*pid)).map(|_| Flavour::Postgresql);
        self.server.as_ref().map(|server| server.kind.flavour).or_else(of_process)
    }

    /// `mariadb 10.11.19 at /run/mysqld/mysqld.sock, process 4711 (mariadbd)`.
    pub fn describe(&self) -> String {
        let server = self.server.as_ref();
        let server = server.map(|it| format!("{} {} at {}", it.kind.flavour, it.version, it.target.endpoint));
        let process = self.pid().map(|pid| format!("process {pid} ({})", self.name));
        let parts: Vec<String> = server.into_iter().chain(process).collect();
        if parts.is_empty() { "the host alone".to_owned() } else { parts.join(", ") }
    }

    /// Why the process that was named may be another's than the server's, in words. `None`: it is the server's, or none was named.
    pub fn doubt(&self) -> Option<String> {
        self.doubt.clone()
    }

    /// The server's settings by name; none without a server.
    ///
    /// # Errors
    /// [`observe::Error::Server`].
    pub fn variables(&mut self) -> Result<BTreeMap<String, String>, observe::Error> {
        let Some(it) = &mut self.server else { return Ok(BTreeMap::new()) };
        server::variables(&mut it.connection, it.kind.flavour)
    }

    /// The server's counters by name: [`server::numbers`]. `None`: it has no such counters, or there is no server.
    ///
    /// # Errors
    /// [`observe::Error::Server`].
    pub fn numbers(&mut self, needs: Capability) -> Result<Option<BTreeMap<String, f64>>, observe::Error> {
        let Some(it) = &mut self.server else { return Ok(None) };
        server::numbers(&mut it.connection, &it.kind, needs)
    }

    /// The counters that tell physical reads and statements; none without a server.
    ///
    /// # Errors
    /// [`observe::Error::Server`].
    pub fn counters(&mut self) -> Result<BTreeMap<String, u64>, observe::Error> {
        let Some(it) = &mut self.server else { return Ok(BTreeMap::new()) };
        witness_counters(&mut it.connection, it.kind.flavour)
    }

    /// The data directory, by the server's `variables` or by its working directory. `None`: it is on another host, or not known.
    pub fn data(&self, variables: &BTreeMap<String, String>) -> Option<PathBuf> {
        let told = variables.get("datadir").or_else(|| variables.get("data_directory")).map(PathBuf::from);
        let pid = self.pid()?;
        // servers work in their data directory
        let data = told.or_else(|| std::fs::read_link(format!("/proc/{pid}/cwd")).ok())?;
        process::seen_from_here(pid, &data)
    }

    /// Its error log, by the server's `variables` or by the file that its process writes errors to. `None`: it is on another host, not known, or no
    /// file.
    pub fn error_log(&self, variables: &BTreeMap<String, String>) -> Option<PathBuf> {
        let pid = self.pid()?;
        // MySQL's is relative to the data directory; `stderr` there is no file
        let told = variables.get("log_error").filter(|log| !log.is_empty());
        let told = told.and_then(|log| Some(self.data(variables)?.join(log)));
        let stderr = std::fs::read_link(format!("/proc/{pid}/fd/2")).ok();
        let is_seen = |log: &PathBuf| {
            log.is_file() && log.parent().is_some_and(|folder| process::seen_from_here(pid, folder).is_some())
        };
        told.into_iter().chain(stderr).find(is_seen)
    }

    /// The groups of readers: for the host, and for the server and its process.
    pub fn groups(&mut self) -> Vec<Group> {
        let process = self.pid().map(|pid| Group::process(pid, self.flavour()));
        let server = self.server.as_mut().map(|it| Group::server(it.hand_over(), &it.kind));
        [Group::host()].into_iter().chain(process).chain(server).collect()
    }
}

impl Server {
    fn reach(mut target: Target, listens: &mut dyn FnMut(u32)) -> Result<Self, Error> {
        if target.protocol == load::Protocol::Mysql {
            // its counters are those of the whole server: no database is needed
            target.database = None;
        }
        let mut connected = |peer: Option<u32>| peer.into_iter().for_each(&mut *listens);
        let connection = Connection::open_telling(&target, PATIENCE, &mut connected).map_err(Error::Connect)?;
        let version = connection.server_version().to_owned();
        let mut kind = ServerKind::of(target.protocol, &version);
        let peer = connection.peer_process();
        let mut connection = Reopening::over(connection, target.clone());
        if kind.flavour == Flavour::Mysql {
            // a server that does not answer this is no Percona Server: it may be a proxy
            let told = connection.rows("SELECT @@version_comment").ok();
            let comment = told.and_then(|rows| rows.into_iter().flatten().flatten().next());
            kind = kind.with_comment(&comment.unwrap_or_default());
        }
        Ok(Self { kind, version, peer, connection, target, own: OwnConnections::default() })
    }

    /// The connection, for a reader that keeps it. The next question of this server's own opens another.
    pub(crate) fn hand_over(&mut self) -> Reopening {
        std::mem::replace(&mut self.connection, Reopening::new(self.target.clone()).named_in(&self.own))
    }

    /// Refuses a process that is not this server's. For one of which that is not known, the reason.
    fn doubt(&mut self, pid: u32) -> Result<Option<String>, Error> {
        process::open(pid)?;
        let endpoint = self.target.endpoint.clone();
        match is_same(pid, self.peer, &endpoint, self.kind.flavour, &mut self.connection) {
            Same::Yes => Ok(None),
            Same::Unknown(why) => Ok(Some(why)),
            Same::No(serves) => Err(Error::OtherServer { pid, name: process::name(pid), serves, endpoint }),
        }
    }

    /// Finds the process by its socket; for a sandbox, also by its port.
    fn find_process(&self, places: &Places) -> Result<u32, Error> {
        let endpoint = || self.target.endpoint.clone();
        match self.peer.or_else(|| process_of_sandbox(places, &self.target.endpoint)) {
            Some(pid) if process::is_server(pid) => Ok(pid),
            Some(pid) => Err(Error::NoServer { pid, name: process::name(pid), endpoint: endpoint() }),
            None => Err(Error::Unseen { endpoint: endpoint() }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use load::Protocol;

    fn find(wanted: &Wanted) -> Result<Attached, Error> {
        let places = Places::below(std::path::Path::new("/nowhere"));
        Attached::find(wanted, Surroundings { places: &places, variable: &|_| None, say: &|_| {} })
    }

    fn groups(attached: &mut Attached) -> Vec<&'static str> {
        attached.groups().iter().map(|group| group.name).collect()
    }

    #[test]
    fn nothing_asked_leads_to_the_host() {
        let mut host = find(&Wanted::default()).unwrap().require_process().unwrap();
        assert_eq!((host.describe().as_str(), host.pid(), host.flavour()), ("the host alone", None, None));
        assert_eq!(groups(&mut host), ["host"]);
        assert!(host.variables().unwrap().is_empty() && host.counters().unwrap().is_empty());
        assert_eq!(host.data(&BTreeMap::new()), None);
    }

    #[test]
    fn a_process_is_enough() {
        let own = std::process::id();
        let mut attached = find(&Wanted { pid: Some(own), ..Wanted::default() }).unwrap();
        assert_eq!((attached.pid(), groups(&mut attached)), (Some(own), vec!["host", "process"]));
        assert!(attached.process().is_some_and(|process| process.is_alive()));
        assert_eq!(attached.data(&BTreeMap::new()), std::env::current_dir().ok(), "where it works");
        let elsewhere = BTreeMap::from([("datadir".to_owned(), "/proc".to_owned())]);
        assert_eq!(attached.data(&elsewhere), Some(PathBuf::from("/proc")), "the server knows better");
        let log = BTreeMap::from([("datadir".into(), "/proc".into()), ("log_error".into(), "./version".into())]);
        assert_eq!(attached.error_log(&log), Some(PathBuf::from("/proc/./version")), "relative to the data directory");
        let gone = find(&Wanted { pid: Some(4_000_000_000), ..Wanted::default() });
        assert!(
            matches!(gone.map(drop), Err(error @ Error::NoProcess { .. }) if !error.is_usage() && error.hint().is_some())
        );
    }

    #[test]
    fn whose_process_it_is_must_be_told_where_one_is_required() {
        let places = Places::below(std::path::Path::new("/nowhere"));
        let found = |dsn: &str, peer| {
            let target: Target = dsn.parse().unwrap();
            let (kind, connection) = (ServerKind::of(target.protocol, "8.4.3"), Reopening::new(target.clone()));
            let server =
                Server { target, kind, version: "8.4.3".into(), peer, connection, own: OwnConnections::default() };
            let unseen = server.find_process(&places).err();
            Attached { server: Some(server), process: None, name: String::new(), unseen, doubt: None }
        };
        let remote = || found("mysql://me@db.example/x", None);
        assert_eq!((groups(&mut remote()), remote().data(&BTreeMap::new())), (vec!["host", "server"], None));
        let told = |attached: Attached| attached.require_process().map(drop).unwrap_err().to_string();
        assert!(told(remote()).contains("this connection does not show which process serves db.example:3306"));
        // who listens there is this test
        let here = told(found("mysql://me@/x?socket=/s.sock", Some(std::process::id())));
        assert!(here.contains("listens at /s.sock, and is not known to be a server"), "{here}");
    }

    /// The server is asked for its high-water marks, and here it does not answer; PostgreSQL has none to ask for.
    #[test]
    fn a_light_reading_with_limits_asks_the_server() {
        let seen = |dsn: &str, limits| {
            let mut attached = find(&Wanted { pid: Some(std::process::id()), ..Wanted::default() }).unwrap();
            let target: Target = dsn.parse().unwrap();
            let (kind, connection) = (ServerKind::of(target.protocol, "8.4.3"), Reopening::new(target.clone()));
            attached.server = Some(Server {
                target,
                kind,
                version: "8.4.3".into(),
                peer: None,
                connection,
                own: OwnConnections::default(),
            });
            let options = observe::memory::Options { lightly: true, limits, ..Default::default() };
            let seen = attached.inventory(options);
            assert!(seen.processes[0].mappings.is_none(), "no process is held");
            (seen.server.is_some(), seen.missing.iter().any(|it| it.what == "the server's own rows"))
        };
        let mysql = "mysql://me@/x?socket=/nowhere.sock";
        assert_eq!([seen(mysql, true), seen(mysql, false)], [(true, true), (false, false)]);
        assert_eq!(seen("postgresql://me@/x?socket=/nowhere/.s.PGSQL.5432", true), (false, false));
    }

    #[test]
    fn nobody_listens() {
        let mut wanted = Wanted { driver: Some(Protocol::Mysql), ..Wanted::default() };
        wanted.mysql.socket = Some("/nowhere.sock".into());
        assert!(matches!(find(&wanted), Err(Error::Connect(load::Error::Connect { .. }))));
    }
}
