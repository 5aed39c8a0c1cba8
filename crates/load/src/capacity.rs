// SPDX-License-Identifier: Apache-2.0
//! Checks before a load whether the server accepts this many connections. A full server would refuse in the middle of connecting, and would accept no
//! other client in the meantime. Also checks the server's limit of prepared statements.

use crate::Error;
use crate::admin::{Connection, Rows};
use crate::target::{Endpoint, Protocol, Target};
use capability::{Capability, Flavour, Version, words};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for a server that still ends the connections of an earlier load. The check waits only while the number of connections falls.
const LEAVING: Duration = Duration::from_secs(10);
/// When the number of connections has not fallen for this long, the remaining ones stay.
const STAYING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// The server's answers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    limit: u64,
    /// Connections of others.
    in_use: u64,
    /// The setting that defines the limit.
    setting: &'static str,
    /// The server's own address, to find out whether the connection was made to it directly.
    port: Option<u16>,
    socket: String,
}

/// The second value is this account's own limit; 0: none.
const MYSQL: &str = "SELECT @@max_connections, @@max_user_connections, @@port, @@socket, @@GLOBAL.max_user_connections";
const MYSQL_IN_USE: &str = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";
/// Reserved connections are for superusers and roles that they trust. A role without a limit of its own has -1; that of a superuser does not hold
/// (src/backend/utils/init/miscinit.c: `InitializeSessionUserId`).
const POSTGRESQL: &str = "SELECT current_setting('max_connections')::bigint - CASE WHEN rolsuper THEN 0 ELSE \
    current_setting('superuser_reserved_connections')::bigint + \
    coalesce(current_setting('reserved_connections', true), '0')::bigint END, CASE WHEN rolsuper THEN -1 ELSE rolconnlimit END, current_setting('port'), \
    (SELECT sum(numbackends) FROM pg_stat_database) FROM pg_roles WHERE rolname = current_user";

/// The limit of prepared statements over all connections of a server. Only the MySQL family has one, 16382 by default.
const MYSQL_PREPARED: &str = "SHOW GLOBAL VARIABLES LIKE 'max_prepared_stmt_count'";
const MYSQL_PREPARED_IN_USE: &str = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";

/// `prepared`: the least number of statements that each connection keeps prepared.
///
/// # Errors
/// [`Error::Full`]: not enough free connections. [`Error::Statements`]: too many prepared statements. Any error of a first connection. A server that
/// does not tell its limits passes, and so does a server behind a pooler, because the pooler has a limit of its own.
pub fn check(target: &Target, connections: u32, prepared: u64) -> Result<(), Error> {
    let mut connection = Connection::open(target)?;
    let mut patience = Patience::new();
    loop {
        let room = match target.protocol {
            Protocol::Mysql => mysql(&mut connection),
            Protocol::Postgresql => postgresql(&mut connection),
        };
        let Some(room) = room.filter(|room| room.is_of(&target.endpoint)) else { return Ok(()) };
        if room.takes(connections) {
            break;
        }
        if u64::from(connections) > room.limit || patience.is_over(room.in_use) {
            let Room { limit, in_use, setting, .. } = room;
            return Err(Error::Full { wanted: connections, limit, in_use, setting });
        }
        sleep(LOOK);
    }
    let statements = prepared.saturating_mul(connections.into());
    match target.protocol {
        Protocol::Mysql if statements > 0 => check_statements(&mut connection, connections, statements),
        _ => Ok(()),
    }
}

fn check_statements(connection: &mut Connection, connections: u32, statements: u64) -> Result<(), Error> {
    let mut patience = Patience::new();
    loop {
        let mut number = |question: &str, column| connection.query(question).ok()?.parse::<u64>(0, column);
        let (Some(limit), Some(in_use)) = (number(MYSQL_PREPARED, 1), number(MYSQL_PREPARED_IN_USE, 1)) else {
            return Ok(());
        };
        if in_use + statements <= limit {
            return Ok(());
        }
        if statements > limit || patience.is_over(in_use) {
            return Err(Error::Statements { connections, statements, limit, in_use });
        }
        sleep(LOOK);
    }
}

/// Waits while the connections of an earlier load become fewer.
struct Patience {
    started: Instant,
    least: u64,
    since: Instant,
}

impl Patience {
    fn new() -> Self {
        let now = Instant::now();
        Self { started: now, least: u64::MAX, since: now }
    }

    fn is_over(&mut self, in_use: u64) -> bool {
        if in_use < self.least {
            (self.least, self.since) = (in_use, Instant::now());
        }
        self.since.elapsed() > STAYING || self.started.elapsed() > LEAVING
    }
}

fn mysql(connection: &mut Connection) -> Option<Room> {
    let said = connection.query(MYSQL).ok()?;
    let in_use = connection.query(MYSQL_IN_USE).ok()?.parse::<u64>(0, 1)?;
    let of_all = said.parse::<u64>(0, 0)?;
    let default = said.parse::<u64>(0, 4);
    let own = said.parse::<u64>(0, 1).filter(|own| (1..of_all).contains(own));
    let own = own.filter(|own| Some(*own) != default || !is_above_default(connection));
    let (port, socket) = (said.parse(0, 2), said.text(0, 3).unwrap_or_default());
    Some(match own {
        // The server does not tell every account how many connections the account has in use.
        Some(limit) => Room { limit, in_use: 0, setting: "max_user_connections", port, socket },
        None => Room { limit: of_all, in_use: in_use.saturating_sub(1), setting: "max_connections", port, socket },
    })
}

/// MariaDB's `max_user_connections` is not for its administrators, but for those with a limit of their own (sql/sql_connect.cc of 10.11:
/// `check_for_max_user_connections`).
fn is_above_default(connection: &mut Connection) -> bool {
    let version = connection.server_version();
    let is_mariadb = Flavour::of_mysql_family(version, "") == Flavour::Mariadb;
    Version::find_in(version).filter(|_| is_mariadb).is_some_and(|version| {
        let rights = words(Capability::ConnectionReserve, Flavour::Mariadb, &version);
        connection.query("SHOW GRANTS").is_ok_and(|said| has_right(&said, rights))
    })
}

fn has_right(grants: &Rows, rights: &[&str]) -> bool {
    let mut of_all = (0..grants.len()).filter_map(|row| grants.text(row, 0)).filter(|grant| grant.contains(" ON *.*"));
    of_all.any(|grant| grant.contains("ALL PRIVILEGES") || rights.iter().any(|right| grant.contains(right)))
}

fn postgresql(connection: &mut Connection) -> Option<Room> {
    let said = connection.query(POSTGRESQL).ok()?;
    let of_all = said.parse::<u64>(0, 0)?;
    let own = said.parse::<u64>(0, 1).filter(|own| *own < of_all);
    let port: Option<u16> = said.parse(0, 2);
    let socket = port.map(|port| format!(".s.PGSQL.{port}")).unwrap_or_default();
    Some(match own {
        Some(limit) => Room { limit, in_use: 0, setting: "the role's connection limit", port, socket },
        None => {
            let in_use = said.parse::<u64>(0, 3)?.saturating_sub(1);
            let setting = "max_connections (without the reserved ones)";
            Room { limit: of_all, in_use, setting, port, socket }
        }
    })
}

impl Room {
    fn takes(&self, connections: u32) -> bool {
        self.in_use + u64::from(connections) <= self.limit
    }

    /// A pooler, or a container's forwarded port, has another address than the server behind it.
    fn is_of(&self, endpoint: &Endpoint) -> bool {
        match endpoint {
            Endpoint::Tcp(_, port) => self.port == Some(*port),
            // By the file's name: /run and /var/run are one folder.
            Endpoint::Socket(path) => path.file_name() == std::path::Path::new(&self.socket).file_name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_for_the_server_that_was_connected_to() {
        let room = Room {
            limit: 100,
            in_use: 1,
            setting: "max_connections",
            port: Some(3306),
            socket: "/var/run/mysqld/mysqld.sock".into(),
        };
        assert!(room.is_of(&Endpoint::Tcp("db".into(), 3306)));
        assert!(!room.is_of(&Endpoint::Tcp("db".into(), 6033)), "a proxy in front");
        assert!(room.is_of(&Endpoint::Socket("/run/mysqld/mysqld.sock".into())));
        assert!(!room.is_of(&Endpoint::Socket("/tmp/proxysql.sock".into())));
    }
}
