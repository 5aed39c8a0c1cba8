// SPDX-License-Identifier: Apache-2.0
//! Whether a server takes so many connections: asked before the load, because a server that is full refuses in the middle of
//! connecting, and lets nobody else in meanwhile. And whether it keeps so many prepared statements.

use crate::Error;
use crate::admin::Connection;
use crate::target::{Endpoint, Protocol, Target};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A server goes on ending the connections of a load that is over: as long as they become fewer, they are waited for.
const LEAVING: Duration = Duration::from_secs(10);
/// So long without one fewer: these stay.
const STAYING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    limit: u64,
    /// By others than this look.
    in_use: u64,
    /// Which of its settings the limit is.
    setting: &'static str,
    /// As it calls them itself, to tell whether it is the one that the connection was made to.
    port: Option<u16>,
    socket: String,
}

/// The second is this account's own limit; 0: none.
const MYSQL: &str = "SELECT @@max_connections, @@max_user_connections, @@port, @@socket";
const MYSQL_IN_USE: &str = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";
/// The reserved ones are for superusers and for whom they trust. A role without a limit of its own has -1.
const POSTGRESQL: &str = "SELECT current_setting('max_connections')::bigint - CASE WHEN rolsuper THEN 0 ELSE \
    current_setting('superuser_reserved_connections')::bigint + \
    coalesce(current_setting('reserved_connections', true), '0')::bigint END, rolconnlimit, current_setting('port'), \
    (SELECT sum(numbackends) FROM pg_stat_database) FROM pg_roles WHERE rolname = current_user";

/// So many statements are prepared by all of a server's connections. Only the MySQL family has a limit, 16382 unless set.
const MYSQL_PREPARED: &str = "SHOW GLOBAL VARIABLES LIKE 'max_prepared_stmt_count'";
const MYSQL_PREPARED_IN_USE: &str = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";

/// `prepared`: how many statements each connection keeps prepared, at least.
///
/// # Errors
/// [`Error::Full`] when so many more cannot be had; [`Error::Statements`] when so many cannot be prepared; whatever keeps a first
/// connection from being made. A server that does not say what it takes is believed to take them, and so is one behind a pooler, whose limit is not the pooler's.
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

/// What a former load had in use becomes less.
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
    let own = said.parse::<u64>(0, 1).filter(|own| (1..of_all).contains(own));
    let (port, socket) = (said.parse(0, 2), said.text(0, 3).unwrap_or_default());
    Some(match own {
        // How many this account has in use, the server does not tell everybody.
        Some(limit) => Room { limit, in_use: 0, setting: "max_user_connections", port, socket },
        None => Room { limit: of_all, in_use: in_use.saturating_sub(1), setting: "max_connections", port, socket },
    })
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
            // by its name: /run and /var/run are one folder
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
