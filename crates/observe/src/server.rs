// SPDX-License-Identifier: Apache-2.0
//! A server's own counters.
//!
//! The table of capabilities says which statements a server has, and in which words. Every statement returns rows of name and value.

use crate::{Collector, Error, Kind, Reader};
use capability::{Capability, Flavour, Gauges, Version, gauges, words};
use evidence::{Witness, setting_masked};
use std::collections::BTreeMap;
use std::time::Duration;

/// The condition for threads of clients in MySQL's `performance_schema.threads`. Threads of replication and of events are in this table like clients, with the
/// user who started them, or with none, and some with the command `Query`: they are told by their names. Sessions of the X protocol and of thread pools stay.
macro_rules! serves_a_client {
    () => {
        "type = 'FOREGROUND' AND name NOT LIKE 'thread/sql/slave|_%' ESCAPE '|' \
         AND name NOT LIKE 'thread/sql/replica|_%' ESCAPE '|' \
         AND name NOT LIKE 'thread/sql/event|_%' ESCAPE '|' \
         AND name NOT LIKE 'thread/group|_rpl/%' ESCAPE '|'"
    };
}
pub(crate) use serves_a_client;

/// The connections of clients there, for a statement that may add conditions.
pub(crate) const CLIENT_THREADS: &str =
    concat!("performance_schema.threads WHERE processlist_id IS NOT NULL AND ", serves_a_client!());

/// The host of a client in a row of `information_schema.PROCESSLIST`, without its port: there the host of every client over TCP is `host:port`, also with
/// IPv6 addresses. In performance_schema it is only the host, and the last part of an IPv6 address would be taken for a port.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((before, port)) if !before.ends_with(':') && port.parse::<u16>().is_ok() => before,
        _ => host,
    }
}

/// Asks a server. In tests, any closure over SQL can be used.
pub trait Query: Send {
    /// The rows of `sql`, as text; `None` is NULL.
    ///
    /// # Errors
    /// An error of the client or of the server.
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>>;

    /// Before questions that need nothing of what was asked before: where the server has closed an idle connection meanwhile, they go over a new one.
    fn renew(&mut self) {}
}

/// What would help with a statement that the server refused with these words: `right`; or, where it has no such table or column, no right.
pub(crate) fn remedy_of<'a>(why: &str, right: Option<&'a str>) -> Option<&'a str> {
    if lacks_it(why) { Some("a newer version of the server, which has it") } else { right }
}

fn lacks_it(why: &str) -> bool {
    ["1054", "1146", "42703", "42P01"].iter().any(|code| why.contains(&format!("answered {code}: ")))
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

/// A server by its own words at login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKind {
    pub flavour: Flavour,
    pub version: Version,
}

impl ServerKind {
    /// The server by its version text at login: `10.11.19-MariaDB-0+deb12u1`, `8.4.3`, `15.18 (Debian 15.18-0+deb12u1)`. MariaDB may prefix `5.5.5-`
    /// for old replicas.
    pub fn of(protocol: load::Protocol, version: &str) -> Self {
        let mariadb = version.contains("MariaDB");
        let plain = if mariadb { version.strip_prefix("5.5.5-").unwrap_or(version) } else { version };
        let version =
            Version::find_in(plain).or_else(|| Version::of_package(plain)).unwrap_or_else(|| Version::of(&[0]));
        let flavour = match protocol {
            load::Protocol::Postgresql => Flavour::Postgresql,
            load::Protocol::Mysql => Flavour::of_mysql_family(plain, ""),
        };
        Self { flavour, version }
    }

    /// The same with the server's variable `version_comment`: at login Percona Server only gives a version, like MySQL.
    #[must_use]
    pub fn with_comment(self, comment: &str) -> Self {
        match self.flavour {
            Flavour::Mysql => Self { flavour: Flavour::of_mysql_family("", comment), ..self },
            Flavour::Mariadb | Flavour::Percona | Flavour::Postgresql => self,
        }
    }
}

/// One statement, for servers that have the needed capability: `{0}` and `{1}` are replaced by the words of the capability.
struct Source {
    source: &'static str,
    needs: Capability,
    sql: &'static str,
    /// The least time from one reading to the next, for a statement with hundreds of rows that the server must put together. Zero: the observer's
    /// interval.
    every: Duration,
}

const DEAR: Duration = Duration::from_secs(1);
const CHEAP: Duration = Duration::ZERO;

/// `jsonb_each_text(to_jsonb(row))` turns a row into names and values without naming its columns, which differ between versions.
const SOURCES: &[Source] = &[
    Source { source: "server.status", needs: Capability::ServerStatus, sql: "{0}", every: CHEAP },
    Source {
        source: "server.innodb_metrics",
        needs: Capability::InnodbMetrics,
        sql: "SELECT NAME, COUNT, TYPE FROM information_schema.INNODB_METRICS WHERE {0} = {1}",
        every: DEAR,
    },
    Source {
        source: "server.pg_stat_database",
        needs: Capability::DatabaseStatistics,
        sql: "SELECT key, value FROM {0} d, jsonb_each_text(to_jsonb(d)) WHERE d.datname = current_database()",
        every: CHEAP,
    },
    Source { source: "server.pg_stat_bgwriter", needs: Capability::BgwriterStatistics, sql: ROW, every: CHEAP },
    Source { source: "server.pg_stat_checkpointer", needs: Capability::CheckpointerStatistics, sql: ROW, every: CHEAP },
    Source { source: "server.pg_stat_wal", needs: Capability::WalStatistics, sql: ROW, every: CHEAP },
    Source {
        source: "server.pg_stat_io",
        needs: Capability::IoStatistics,
        sql: "SELECT concat_ws('.', backend_type, object, context, key), value \
              FROM {0} d, jsonb_each_text(to_jsonb(d)) WHERE value ~ '^[0-9.]+$'",
        every: DEAR,
    },
];

/// The statement for a view with one row.
const ROW: &str = "SELECT key, value FROM {0} d, jsonb_each_text(to_jsonb(d))";

impl Source {
    /// The statement for this server; `None` when the server lacks the capability.
    fn sql(&self, server: &ServerKind) -> Option<String> {
        let words = words(self.needs, server.flavour, &server.version);
        let (first, second) = (words.first()?, words.get(1).copied().unwrap_or_default());
        Some(self.sql.replace("{0}", first).replace("{1}", second))
    }
}

/// Readers of all counters that this server has, one statement each, over one connection. They may block as long as the server does: use an
/// [`crate::Observer`] of their own.
pub fn readers(connection: impl Query + 'static, server: &ServerKind) -> Vec<Box<dyn Reader>> {
    let shared = std::sync::Arc::new(std::sync::Mutex::new(connection));
    let reader = |source: &Source| -> Option<Box<dyn Reader>> {
        let sql = source.sql(server)?;
        let gauges = gauges(source.needs, server.flavour, &server.version);
        let Source { source, every, .. } = *source;
        Some(Box::new(ServerReader { source, sql, every, gauges, connection: shared.clone() }))
    };
    SOURCES.iter().filter_map(reader).collect()
}

struct ServerReader<Q> {
    source: &'static str,
    sql: String,
    every: Duration,
    gauges: Gauges,
    connection: std::sync::Arc<std::sync::Mutex<Q>>,
}

impl<Q: Query> Reader for ServerReader<Q> {
    fn name(&self) -> String {
        self.source.to_owned()
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.every)
    }

    fn costs_elsewhere(&self) -> bool {
        true
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        let mut connection = self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let rows = ask(&mut *connection, &self.sql)?;
        drop(connection);
        for row in rows {
            let Some(Some(name)) = row.first() else { continue };
            let Some(value) = number(&row) else { continue };
            let declared = row.get(2).and_then(Option::as_deref);
            into.value_of(self.source, "", name, || kind(self.gauges, name, declared), value);
        }
        Ok(())
    }
}

/// `declared` is INNODB_METRICS' TYPE: `counter`, `status_counter`, `value`, `set_owner`, `set_member`; `None` elsewhere.
fn kind(gauges: Gauges, name: &str, declared: Option<&str>) -> Kind {
    let is_gauge = declared.map_or_else(|| gauges.has(name), |declared| gauges.has(&format!("{declared} {name}")));
    match (is_bytes(name), is_gauge) {
        (true, true) => Kind::BytesNow,
        (true, false) => Kind::BytesTotal,
        (false, true) => Kind::CountNow,
        (false, false) => Kind::CountTotal,
    }
}

/// Numbers of bytes whose names do not say so.
const BYTES: [&str; 9] = [
    "Global_connection_memory",
    "Innodb_data_read",
    "Innodb_mem_adaptive_hash",
    "Innodb_mem_dictionary",
    "Innodb_os_log_written",
    "Max_memory_used",
    "Memory_used",
    "Memory_used_initial",
    "Qcache_free_memory",
];

fn is_bytes(name: &str) -> bool {
    BYTES.contains(&name)
        || name.contains("_bytes")
        || name.contains("Bytes_")
        || name.ends_with("_written") && name.starts_with("Innodb_data")
}

fn ask(connection: &mut (impl Query + ?Sized), sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
    connection.renew();
    connection.rows(sql).map_err(|source| Error::Server { sql: sql.to_owned(), source })
}

fn number(row: &[Option<String>]) -> Option<f64> {
    row.get(1)?.as_ref()?.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// The counters of physical reads, of waits for a free page and of executed statements, at one moment.
///
/// PostgreSQL's counters come late: a backend reports its counts at most once a second while it works, within ten seconds when it is idle, and at
/// once when its connection ends (pgstat.c: PGSTAT_MIN_INTERVAL, PGSTAT_IDLE_INTERVAL). Read them after the load's connections are closed.
/// `blks_read` includes reads that the page cache may have served.
///
/// # Errors
/// [`Error::Server`].
pub fn witness_counters(connection: &mut dyn Query, flavour: Flavour) -> Result<BTreeMap<String, u64>, Error> {
    let sql = match flavour {
        Flavour::Mysql | Flavour::Mariadb | Flavour::Percona => {
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', \
             'Innodb_buffer_pool_read_ahead', 'Innodb_buffer_pool_wait_free', 'Innodb_data_reads', 'Innodb_data_fsyncs', 'Com_select', 'Com_stmt_execute', 'Questions')"
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

/// The counters at both ends of a phase, as pairs; `of` is `server` or `layer`. A counter that is missing at one end is left out.
pub fn witnesses(of: &str, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<Witness> {
    let pair = |(counter, before): (&String, &u64)| {
        let after = *after.get(counter)?;
        Some(Witness { of: of.to_owned(), counter: counter.clone(), before: *before, after })
    };
    before.iter().filter_map(pair).collect()
}

/// InnoDB's own report, in words: semaphores, transactions, I/O, buffer pool. `None` when the server has none.
///
/// # Errors
/// [`Error::Server`], also for an account without the privilege PROCESS.
pub fn innodb_status(connection: &mut dyn Query, server: &ServerKind) -> Result<Option<String>, Error> {
    let Some(sql) = words(Capability::InnodbStatus, server.flavour, &server.version).first() else { return Ok(None) };
    let row = ask(connection, sql)?.into_iter().next();
    Ok(row.and_then(|row| row.into_iter().nth(2)).flatten())
}

/// The server's settings by name: `SHOW GLOBAL VARIABLES`, or `pg_settings`. They include paths. Secrets, commands and
/// statements in them (`primary_conninfo`, `archive_command`, `init_connect`) are masked.
///
/// # Errors
/// [`Error::Server`].
pub fn variables(connection: &mut dyn Query, flavour: Flavour) -> Result<BTreeMap<String, String>, Error> {
    let sql = match flavour {
        Flavour::Mysql | Flavour::Mariadb | Flavour::Percona => "SHOW GLOBAL VARIABLES",
        Flavour::Postgresql => "SELECT name, current_setting(name, true) FROM pg_settings",
    };
    let rows = ask(connection, sql)?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let mut row = row.into_iter();
            let (name, value) = (row.next()??, row.next()?.unwrap_or_default());
            let value = setting_masked(&name, &value);
            Some((name, value))
        })
        .collect())
}

/// The numbers of this server for a capability (`ServerStatus`, `InnodbMetrics`), at one moment; values that are no numbers are left out. `None`: the
/// server lacks the capability.
///
/// # Errors
/// [`Error::Server`], also for an account without the privilege PROCESS.
pub fn numbers(
    connection: &mut dyn Query,
    server: &ServerKind,
    needs: Capability,
) -> Result<Option<BTreeMap<String, f64>>, Error> {
    let source = SOURCES.iter().find(|source| source.needs == needs);
    let Some(sql) = source.and_then(|source| source.sql(server)) else { return Ok(None) };
    let rows = ask(connection, &sql)?;
    Ok(Some(rows.iter().filter_map(|row| Some((row.first()?.clone()?, number(row)?))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_settings_are_masked() {
        let row = |name: &str, value: &str| vec![Some(name.to_owned()), Some(value.to_owned())];
        let rows = vec![
            row("init_connect", "SET PASSWORD = PASSWORD('hush')"),
            row("primary_conninfo", "host=h password=hush"),
            row("port", "3306"),
        ];
        let mut asked = |_: &str| -> Result<_, String> { Ok(rows.clone()) };
        let found = variables(&mut asked, Flavour::Postgresql).expect("it answers");
        let values: Vec<&str> = found.values().map(String::as_str).collect();
        assert_eq!(values, ["***", "3306", "***"]);
    }

    #[test]
    fn a_client_loses_its_port_and_no_part_of_its_address() {
        let hosts = ["10.0.0.7:3306", "::1:54321", "2001:db8::7:40000", "localhost", "::1", "db.example.org:65000"];
        let without = ["10.0.0.7", "::1", "2001:db8::7", "localhost", "::1", "db.example.org"];
        assert_eq!(hosts.map(without_port), without);
    }

    /// All names are those of instruments of MySQL 5.7 to 9.7, Percona Server and MySQL's plugins.
    #[test]
    fn threads_of_replication_and_events_are_no_clients() {
        let patterns: Vec<&str> = CLIENT_THREADS.split('\'').filter(|it| it.starts_with("thread/")).collect();
        let is_left_out = |name: &str| {
            let beginnings = patterns.iter().map(|pattern| pattern.trim_end_matches('%').replace("|_", "_"));
            beginnings.into_iter().any(|beginning| name.starts_with(&beginning))
        };
        assert!(patterns.iter().all(|pattern| pattern.ends_with('%') && !pattern.replace("|_", "").contains('_')));
        let of_replication =
            ["io", "sql", "worker", "monitor"].map(|what| ["slave", "replica"].map(|of| format!("{of}_{what}")));
        assert!(of_replication.as_flattened().iter().all(|name| is_left_out(&format!("thread/sql/{name}"))));
        assert!(is_left_out("thread/group_rpl/THD_applier_module_receiver") && is_left_out("thread/sql/event_worker"));
        let clients = ["thread/sql/one_connection", "thread/mysqlx/worker", "thread/thread_pool/tp_one_connection"];
        assert!(!clients.into_iter().any(is_left_out));
    }

    #[test]
    fn percona_server_is_told_by_its_comment() {
        let kind = |version, comment: &str| {
            let kind = ServerKind::of(load::Protocol::Mysql, version).with_comment(comment);
            format!("{} {}", kind.flavour, kind.version)
        };
        assert_eq!(kind("8.0.29-21", "Percona Server (GPL), Release 21, Revision c59f87d2854"), "percona 8.0.29");
        assert_eq!(kind("8.0.29", "MySQL Community Server - GPL"), "mysql 8.0.29");
        assert_eq!(kind("5.5.5-10.1.23-MariaDB", "Percona"), "mariadb 10.1.23");
        let postgresql = ServerKind::of(load::Protocol::Postgresql, "15.18 (Debian 15.18-0+deb12u1)");
        assert_eq!(postgresql.clone().with_comment("Percona Server"), postgresql);
    }

    #[test]
    fn the_numbers_of_a_server_that_has_them() {
        let mut asked = |sql: &str| match sql {
            "SHOW GLOBAL STATUS" => Ok(vec![
                vec![Some("Innodb_buffer_pool_wait_free".into()), Some("479".into())],
                vec![Some("Ssl_cipher".into()), Some("none".into())],
            ]),
            other => Err(format!("asked: {other}")),
        };
        let server = ServerKind::of(load::Protocol::Mysql, "8.0.29");
        let found = numbers(&mut asked, &server, Capability::ServerStatus).unwrap();
        assert_eq!(found, Some(BTreeMap::from([("Innodb_buffer_pool_wait_free".to_owned(), 479.0)])));
        let told = numbers(&mut asked, &server, Capability::InnodbMetrics).unwrap_err().to_string();
        assert!(told.contains("INNODB_METRICS"), "{told}");
        let postgresql = ServerKind::of(load::Protocol::Postgresql, "15.18");
        assert_eq!(numbers(&mut asked, &postgresql, Capability::InnodbMetrics).unwrap(), None);
    }

    #[test]
    fn what_a_number_is_stands_in_the_table() {
        let kind_of = |flavour, capability, name, declared| {
            let version = if flavour == Flavour::Postgresql { Version::of(&[16]) } else { Version::of(&[10, 11, 19]) };
            kind(gauges(capability, flavour, &version), name, declared)
        };
        let status = |name| kind_of(Flavour::Mariadb, Capability::ServerStatus, name, None);
        assert_eq!(status("Innodb_data_written"), Kind::BytesTotal);
        assert_eq!(status("Bytes_received"), Kind::BytesTotal);
        assert_eq!(status("Innodb_buffer_pool_bytes_dirty"), Kind::BytesNow);
        assert_eq!((status("Questions"), status("Threads_running")), (Kind::CountTotal, Kind::CountNow));
        let metric = |name, declared| kind_of(Flavour::Mariadb, Capability::InnodbMetrics, name, Some(declared));
        assert_eq!(metric("os_log_bytes_written", "status_counter"), Kind::BytesTotal);
        assert_eq!(metric("trx_rseg_history_len", "value"), Kind::CountNow);
        let io = |name| kind_of(Flavour::Postgresql, Capability::IoStatistics, name, None);
        assert_eq!(io("client backend.relation.normal.op_bytes"), Kind::BytesNow);
    }

    #[test]
    fn what_a_server_does_not_have_is_no_matter_of_rights() {
        let why = |code: &str| load::Error::Server { code: code.into(), message: "words".into() }.to_string();
        assert!(["1054", "1146", "42703", "42P01"].iter().all(|code| lacks_it(&why(code))));
        assert!(!["1142", "1044", "42501"].iter().any(|code| lacks_it(&why(code))));
    }
}
