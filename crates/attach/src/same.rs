// SPDX-License-Identifier: Apache-2.0
//! Whether a process that a user has named is the server at the other end of a connection: the rows of one server must not be put into the memory of
//! another.

use crate::{listener, process};
use capability::Flavour;
use load::Endpoint;
use observe::server::Query;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The answer, as far as this user may see.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Same {
    Yes,
    /// The server that does serve the endpoint, in words.
    No(String),
    /// Nothing can be compared; the reason.
    Unknown(String),
}

/// `peer`: the process at the other end of a Unix socket.
pub(crate) fn is_same(
    pid: u32,
    peer: Option<u32>,
    endpoint: &Endpoint,
    flavour: Flavour,
    connection: &mut dyn Query,
) -> Same {
    let named = |pid: u32| format!("process {pid} ({})", process::name(pid));
    // a proxy in front of the server proves nothing
    match peer.filter(|peer| process::is_server(*peer)).or_else(|| listening(endpoint)) {
        Some(server) if server == pid => return Same::Yes,
        Some(server) => return Same::No(named(server)),
        None => {}
    }
    let is_postgresql = flavour == Flavour::Postgresql;
    // a backend works in the same directory as its server
    let is_first = host::process::servers().iter().any(|server| server.pid == pid);
    if !is_first || !process::is_server(pid) || process::is_postgresql(pid) != is_postgresql {
        return Same::No(format!("the first process of a {flavour}"));
    }
    let (data, identity) = told(connection, flavour);
    let checks = [
        data.as_ref().and_then(|data| stands_in(pid, data)),
        identity.as_ref().and_then(|identity| Some(*identity == identity_of(pid, flavour)?)),
    ];
    let of_data = || data.clone().map(|data| format!(" with its data in {data}")).unwrap_or_default();
    match (checks.contains(&Some(false)), checks.contains(&Some(true)), peer) {
        (true, ..) => Same::No(format!("another {flavour}{}", of_data())),
        (false, true, _) => Same::Yes,
        (false, false, Some(peer)) => {
            Same::Unknown(format!("{} listens at the socket, and --pid names {pid}", named(peer)))
        }
        (false, false, None) => Same::Unknown(format!(
            "neither the socket nor the data directory of the server at {endpoint} can be compared with process {pid}"
        )),
    }
}

fn listening(endpoint: &Endpoint) -> Option<u32> {
    match endpoint {
        Endpoint::Tcp(host, port) => listener::server_at(host, *port),
        Endpoint::Socket(_) => None,
    }
}

/// The server's data directory and a number of its data, as far as the account may read them.
fn told(connection: &mut dyn Query, flavour: Flavour) -> (Option<String>, Option<String>) {
    let (data, identity) = match flavour {
        // the directory is for members of pg_read_all_settings, the number for everybody
        Flavour::Postgresql => {
            ("SELECT current_setting('data_directory')", "SELECT system_identifier FROM pg_control_system()")
        }
        // MariaDB has no such number
        Flavour::Mysql | Flavour::Mariadb | Flavour::Percona => ("SELECT @@datadir", "SELECT @@server_uuid"),
    };
    let mut first = |sql| connection.rows(sql).ok()?.into_iter().next()?.into_iter().next()?;
    (first(data).filter(|data| data.starts_with('/')), first(identity))
}

/// Whether the process works in this directory, as servers do in their data directory. The path is that of the process's own mounts. `None`: this user may not
/// see it.
fn stands_in(pid: u32, data: &str) -> Option<bool> {
    let numbers = |path: &str| fs::metadata(format!("/proc/{pid}/{path}")).map(|it| (it.dev(), it.ino()));
    let works_in = numbers("cwd").ok()?;
    match numbers(&format!("root{data}")) {
        Ok(named) => Some(named == works_in),
        // a process without such a directory is another
        Err(error) => (error.kind() == ErrorKind::NotFound).then_some(false),
    }
}

/// The number in the data of the process: `server-uuid` of auto.cnf; the first eight bytes of pg_control (pg_control.h).
fn identity_of(pid: u32, flavour: Flavour) -> Option<String> {
    let data = format!("/proc/{pid}/cwd");
    let data = Path::new(&data);
    if flavour == Flavour::Postgresql {
        let mut number = [0; 8];
        fs::File::open(data.join("global/pg_control")).ok()?.read_exact(&mut number).ok()?;
        return Some(u64::from_ne_bytes(number).to_string());
    }
    let text = fs::read_to_string(data.join("auto.cnf")).ok()?;
    text.lines().find_map(|line| line.trim().strip_prefix("server-uuid=")).map(|uuid| uuid.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_no_server_is_no_servers() {
        let mut silent = |_: &str| Err("not asked".to_owned());
        let endpoint = Endpoint::Tcp("192.0.2.1".into(), 3306);
        let same = is_same(std::process::id(), None, &endpoint, Flavour::Mariadb, &mut silent);
        assert_eq!(same, Same::No("the first process of a mariadb".into()));
    }

    #[test]
    fn a_process_works_in_one_directory() {
        let own = std::process::id();
        let here = std::env::current_dir().unwrap();
        assert_eq!(stands_in(own, here.to_str().unwrap()), Some(true));
        assert_eq!([stands_in(own, "/proc"), stands_in(own, "/nowhere")], [Some(false); 2]);
        assert_eq!(stands_in(4_000_000_000, "/proc"), None);
        assert_eq!([identity_of(own, Flavour::Postgresql), identity_of(own, Flavour::Mysql)], [None, None]);
    }

    #[test]
    fn what_a_server_does_not_tell_is_not_compared() {
        let mut of_mariadb = |sql: &str| match sql {
            "SELECT @@datadir" => Ok(vec![vec![Some("/var/lib/mysql/".to_owned())]]),
            _ => Err("Unknown system variable".to_owned()),
        };
        assert_eq!(told(&mut of_mariadb, Flavour::Mariadb), (Some("/var/lib/mysql/".into()), None));
        let mut of_role = |sql: &str| match sql {
            sql if sql.contains("pg_control_system") => Ok(vec![vec![Some("7".to_owned())]]),
            _ => Err("permission denied".to_owned()),
        };
        assert_eq!(told(&mut of_role, Flavour::Postgresql), (None, Some("7".into())));
    }
}
