// SPDX-License-Identifier: Apache-2.0
//! A server's own counters.
//!
//! What differs between servers is in one table: which statement, for which flavour, since which version. Every statement yields
//! rows of name and value.

use crate::{Collector, Error, Kind, Reader};
use evidence::Witness;
use std::collections::BTreeMap;

/// Asks a server. For tests, any closure over SQL will do.
pub trait Query: Send {
    /// The rows of `sql`, as text; `None` is NULL.
    ///
    /// # Errors
    /// The client's or the server's own.
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>>;
}

impl Query for load::admin::Connection {
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>> {
        let answer = self.query(sql)?;
        let text = |value: Option<Vec<u8>>| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(answer.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect())
    }
}

impl<F> Query for F
where
    F: FnMut(&str) -> Result<Vec<Vec<Option<String>>>, String> + Send,
{
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self(sql)?)
    }
}

/// Whose counters these are: three, because two speak the same protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    Mysql,
    Mariadb,
    Postgresql,
}

/// A server as it named itself at login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerKind {
    pub flavour: Flavour,
    /// Major and minor.
    pub version: (u32, u32),
}

impl ServerKind {
    /// From the text of the login: `10.11.19-MariaDB-0+deb12u1`, `8.4.3`, `15.18 (Debian 15.18-0+deb12u1)`. MariaDB may prefix
    /// `5.5.5-` for old replicas.
    pub fn of(flavour: load::Flavour, version: &str) -> Self {
        let mariadb = version.contains("MariaDB");
        let plain = if mariadb { version.strip_prefix("5.5.5-").unwrap_or(version) } else { version };
        let mut numbers = plain.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let flavour = match flavour {
            load::Flavour::Postgresql => Flavour::Postgresql,
            load::Flavour::Mysql if mariadb => Flavour::Mariadb,
            load::Flavour::Mysql => Flavour::Mysql,
        };
        Self { flavour, version }
    }
}

/// One statement. `until` is the first version that lacks it.
struct Source {
    source: &'static str,
    flavour: Flavour,
    since: (u32, u32),
    until: Option<(u32, u32)>,
    sql: &'static str,
}

/// `jsonb_each_text(to_jsonb(row))` turns a row into names and values without naming its columns, which differ between versions.
const SOURCES: &[Source] = &[
    Source { source: "server.status", flavour: Flavour::Mysql, since: (0, 0), until: None, sql: "SHOW GLOBAL STATUS" },
    Source {
        source: "server.status",
        flavour: Flavour::Mariadb,
        since: (0, 0),
        until: None,
        sql: "SHOW GLOBAL STATUS",
    },
    Source {
        source: "server.innodb_metrics",
        flavour: Flavour::Mysql,
        since: (5, 6),
        until: None,
        sql: "SELECT NAME, COUNT, TYPE FROM information_schema.INNODB_METRICS WHERE STATUS = 'enabled'",
    },
    Source {
        source: "server.innodb_metrics",
        flavour: Flavour::Mariadb,
        since: (10, 5),
        until: None,
        sql: "SELECT NAME, COUNT, TYPE FROM information_schema.INNODB_METRICS WHERE ENABLED = 1",
    },
    Source {
        source: "server.pg_stat_database",
        flavour: Flavour::Postgresql,
        since: (9, 5),
        until: None,
        sql: "SELECT key, value FROM pg_stat_database d, jsonb_each_text(to_jsonb(d)) WHERE d.datname = current_database()",
    },
    Source {
        source: "server.pg_stat_bgwriter",
        flavour: Flavour::Postgresql,
        since: (9, 5),
        until: None,
        sql: "SELECT key, value FROM pg_stat_bgwriter d, jsonb_each_text(to_jsonb(d))",
    },
    Source {
        source: "server.pg_stat_checkpointer",
        flavour: Flavour::Postgresql,
        since: (17, 0),
        until: None,
        sql: "SELECT key, value FROM pg_stat_checkpointer d, jsonb_each_text(to_jsonb(d))",
    },
    Source {
        source: "server.pg_stat_wal",
        flavour: Flavour::Postgresql,
        since: (14, 0),
        until: None,
        sql: "SELECT key, value FROM pg_stat_wal d, jsonb_each_text(to_jsonb(d))",
    },
    Source {
        source: "server.pg_stat_io",
        flavour: Flavour::Postgresql,
        since: (16, 0),
        until: None,
        sql: "SELECT concat_ws('.', backend_type, object, context, key), value \
              FROM pg_stat_io d, jsonb_each_text(to_jsonb(d)) WHERE value ~ '^[0-9.]+$'",
    },
];

impl Source {
    fn is_for(&self, server: ServerKind) -> bool {
        let within = server.version >= self.since && self.until.is_none_or(|until| server.version < until);
        self.flavour == server.flavour && within
    }
}

/// Readers of all counters that this server has, one statement each, over one connection. They may block as long as the server does:
/// give them an [`crate::Observer`] of their own.
pub fn readers(connection: impl Query + 'static, server: ServerKind) -> Vec<Box<dyn Reader>> {
    let shared = std::sync::Arc::new(std::sync::Mutex::new(connection));
    let reader = |source: &'static Source| -> Box<dyn Reader> {
        Box::new(ServerReader { source, server, connection: shared.clone() })
    };
    SOURCES.iter().filter(|source| source.is_for(server)).map(reader).collect()
}

struct ServerReader<Q> {
    source: &'static Source,
    server: ServerKind,
    connection: std::sync::Arc<std::sync::Mutex<Q>>,
}

impl<Q: Query> Reader for ServerReader<Q> {
    fn name(&self) -> String {
        self.source.source.to_owned()
    }

    fn costs_elsewhere(&self) -> bool {
        true
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        let mut connection = self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let rows = ask(&mut *connection, self.source.sql)?;
        drop(connection);
        for row in rows {
            let Some(Some(name)) = row.first() else { continue };
            let Some(value) = number(&row) else { continue };
            let kind = kind(self.server.flavour, name, row.get(2).and_then(Option::as_deref));
            into.value(self.source.source, "", name, kind, value);
        }
        Ok(())
    }
}

fn ask(connection: &mut (impl Query + ?Sized), sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
    connection.rows(sql).map_err(|source| Error::Server { sql: sql.to_owned(), source })
}

fn number(row: &[Option<String>]) -> Option<f64> {
    row.get(1)?.as_ref()?.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// `declared` is INNODB_METRICS' TYPE: `counter`, `status_counter`, `value`, `set_owner`, `set_member`.
fn kind(flavour: Flavour, name: &str, declared: Option<&str>) -> Kind {
    let now = match declared {
        Some(declared) => !declared.ends_with("counter"),
        None if flavour == Flavour::Postgresql => matches!(name, "numbackends" | "datid" | "checksum_last_failure"),
        None => is_gauge(name),
    };
    match (name_is_bytes(name), now) {
        (true, true) => Kind::BytesNow,
        (true, false) => Kind::BytesTotal,
        (false, true) => Kind::CountNow,
        (false, false) => Kind::CountTotal,
    }
}

/// The rows of SHOW GLOBAL STATUS that are no counters, by MySQL's and MariaDB's manuals ("Server Status Variables").
fn is_gauge(name: &str) -> bool {
    const PREFIXES: [&str; 12] = [
        "Threads_c",
        "Threads_r",
        "Open_",
        "Max_",
        "Innodb_buffer_pool_pages_",
        "Innodb_buffer_pool_bytes_",
        "Innodb_num_",
        "Innodb_page_size",
        "Innodb_history_list_length",
        "Innodb_mem_",
        "Memory_used",
        "Key_blocks_",
    ];
    let pending = name.contains("pending") || name.ends_with("_current_waits") || name.ends_with("_avg");
    let counting =
        matches!(name, "Threads_created" | "Innodb_buffer_pool_pages_flushed" | "Innodb_buffer_pool_pages_made_young");
    !counting && (pending || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

fn name_is_bytes(name: &str) -> bool {
    name.contains("_bytes") || name.contains("Bytes_") || name.ends_with("_written") && name.starts_with("Innodb_data")
}

/// The counters that count physical reads and executed statements, at one moment.
///
/// PostgreSQL's come late: a backend hands its counts over at most once a second while it works and within ten seconds when it is
/// idle, at once when its connection ends (pgstat.c: PGSTAT_MIN_INTERVAL, PGSTAT_IDLE_INTERVAL). Read them after the
/// load's connections are closed. `blks_read` counts reads that the page cache may have served.
///
/// # Errors
/// [`Error::Server`].
pub fn witness_counters(connection: &mut dyn Query, flavour: Flavour) -> Result<BTreeMap<String, u64>, Error> {
    let sql = match flavour {
        Flavour::Mysql | Flavour::Mariadb => {
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', \
             'Innodb_buffer_pool_read_ahead', 'Innodb_data_reads', 'Innodb_data_fsyncs', 'Com_select', 'Com_stmt_execute', 'Questions')"
        }
        Flavour::Postgresql => {
            "SELECT 'pg_stat_database.' || key, value FROM pg_stat_database d, jsonb_each_text(to_jsonb(d)) \
             WHERE d.datname = current_database() AND key IN ('blks_read', 'blks_hit', 'xact_commit', 'tup_fetched', 'tup_returned')"
        }
    };
    let rows = ask(connection, sql)?;
    let pair = |row: &Vec<Option<String>>| Some((row.first()?.clone()?, row.get(1)?.as_ref()?.trim().parse().ok()?));
    Ok(rows.iter().filter_map(pair).collect())
}

/// Both ends of a phase side by side; `of` is `server` or `layer`. A counter that one end lacks is left out.
pub fn witnesses(of: &str, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<Witness> {
    let pair = |(counter, before): (&String, &u64)| {
        let after = *after.get(counter)?;
        Some(Witness { of: of.to_owned(), counter: counter.clone(), before: *before, after })
    };
    before.iter().filter_map(pair).collect()
}

/// The server's settings by name: `SHOW GLOBAL VARIABLES`, or `pg_settings`. Paths are kept, secrets are not among them.
///
/// # Errors
/// [`Error::Server`].
pub fn variables(connection: &mut dyn Query, flavour: Flavour) -> Result<BTreeMap<String, String>, Error> {
    let sql = match flavour {
        Flavour::Mysql | Flavour::Mariadb => "SHOW GLOBAL VARIABLES",
        Flavour::Postgresql => "SELECT name, current_setting(name, true) FROM pg_settings",
    };
    let rows = ask(connection, sql)?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let mut row = row.into_iter();
            Some((row.next()??, row.next()?.unwrap_or_default()))
        })
        .collect())
}
