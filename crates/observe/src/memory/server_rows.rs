// SPDX-License-Identifier: Apache-2.0
//! The server's own rows about its memory, over SQL. Nothing is switched on, reset or written. Rows that a server lacks or refuses are noted as
//! missing, with what would allow to read them.

mod account_limits;
mod huge_pages;
mod marks;
mod mysql;
mod postgresql;

pub use huge_pages::huge_page_settings;

use super::reading::Reading;
use crate::server::Query;
use capability::Flavour;
use ledger::{Missing, Probe, ServerSeen};
use std::collections::BTreeMap;

pub(super) type Row = Vec<Option<String>>;

pub(super) fn read(connection: &mut dyn Query, flavour: Flavour, reading: &mut Reading) -> ServerSeen {
    connection.renew();
    let mut seen = ServerSeen { at_us: reading.now_us(), ..ServerSeen::default() };
    let mut asking = Asking { connection, reading, is_silent: false };
    match flavour {
        Flavour::Postgresql => postgresql::read(&mut asking, &mut seen),
        Flavour::Mysql | Flavour::Mariadb | Flavour::Percona => mysql::read(&mut asking, flavour, &mut seen),
    }
    if asking.wants_limits() {
        seen.account_limits = account_limits::read(&mut asking, flavour, &seen);
    }
    seen
}

/// The few rows that describe the memory for which a server asks for huge pages.
pub(super) fn for_huge_pages(connection: &mut dyn Query, flavour: Flavour, reading: &mut Reading) -> ServerSeen {
    connection.renew();
    let mut seen = ServerSeen { at_us: reading.now_us(), ..ServerSeen::default() };
    huge_pages::read(&mut Asking { connection, reading, is_silent: false }, flavour, &mut seen);
    seen
}

/// Asks a server until it no longer answers.
pub(super) struct Asking<'a> {
    connection: &'a mut dyn Query,
    reading: &'a mut Reading,
    /// After one wait for a server that does not answer, nothing more is asked.
    is_silent: bool,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    Refused(String),
    Silent,
}

impl Asking<'_> {
    /// Whether to ask for settings that limit buffers, and for high-water marks.
    pub(super) fn wants_limits(&self) -> bool {
        self.reading.options.limits
    }

    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Unanswered> {
        if self.is_silent {
            return Err(Unanswered::Silent);
        }
        let connection = &mut self.connection;
        self.reading.ask(tier, || connection.rows(sql)).map_err(|error| match is_refusal(&*error) {
            true => Unanswered::Refused(error.to_string()),
            false => self.fell_silent(&*error),
        })
    }

    fn fell_silent(&mut self, error: &(dyn std::error::Error + Send + Sync)) -> Unanswered {
        self.is_silent = true;
        let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        let why: Vec<String> = causes.map(ToString::to_string).collect();
        self.reading.missing(Missing::OWN_ROWS, format!("the server does not answer: {}", why.join(": ")), None);
        Unanswered::Silent
    }

    /// The rows of a statement. Without an answer there are none, and `what` is noted as missing if the server refused.
    pub(super) fn rows_of(&mut self, what: &str, sql: &str, remedy: Option<&str>) -> Vec<Row> {
        match self.rows(sql) {
            Ok(rows) => rows,
            Err(Unanswered::Silent) => Vec::new(),
            Err(Unanswered::Refused(why)) => {
                let remedy = crate::server::remedy_of(&why, remedy);
                self.reading.missing(what, why, remedy);
                Vec::new()
            }
        }
    }

    /// The rows of the first statement that this server understands.
    pub(super) fn rows_of_first(&mut self, what: &str, statements: &[&str], remedy: Option<&str>) -> Vec<Row> {
        let Some((last, before)) = statements.split_last() else { return Vec::new() };
        let found = before.iter().find_map(|sql| self.rows(sql).ok().filter(|rows| !rows.is_empty()));
        found.unwrap_or_else(|| self.rows_of(what, last, remedy))
    }

    pub(super) fn missing(&mut self, what: &str, why: &str, remedy: Option<&str>) {
        self.reading.missing(what, why, remedy);
    }
}

fn tier(answer: &Result<Vec<Row>, Box<dyn std::error::Error + Send + Sync>>) -> &'static str {
    match answer {
        Err(error) if !is_refusal(&**error) => Probe::UNANSWERED,
        Ok(_) | Err(_) => Probe::SQL,
    }
}

/// Whether the server has answered, with an error. The closures of tests refuse with plain words.
fn is_refusal(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    match error.downcast_ref() {
        Some(load::Error::Server { .. }) => true,
        Some(_) => false,
        None => !error.is::<std::io::Error>(),
    }
}

/// A map from rows of name and value.
pub(super) fn pairs(rows: Vec<Row>) -> BTreeMap<String, String> {
    let pair = |row: Row| {
        let mut row = row.into_iter();
        Some((row.next()??, row.next()?.unwrap_or_default()))
    };
    rows.into_iter().filter_map(pair).collect()
}

/// The text of a column; empty for NULL.
pub(super) fn text(row: &Row, column: usize) -> String {
    row.get(column).cloned().flatten().unwrap_or_default()
}

pub(super) fn number<T: std::str::FromStr>(row: &Row, column: usize) -> Option<T> {
    row.get(column)?.as_ref()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use crate::server::CLIENT_THREADS;

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    fn ask<A>(flavour: Flavour, answers: A) -> (ServerSeen, Vec<ledger::Missing>)
    where
        A: Fn(&str) -> Result<Vec<Row>, String> + Send,
    {
        let mut reading = Reading::begin(Options::default());
        let seen = read(&mut { answers }, flavour, &mut reading);
        (seen, reading.end().2)
    }

    #[test]
    fn a_server_that_refuses_everything_is_read_without_error() {
        for flavour in [Flavour::Mysql, Flavour::Mariadb, Flavour::Percona, Flavour::Postgresql] {
            let (seen, missing) = ask(flavour, |_| Err("Access denied".into()));
            assert_eq!(seen, ServerSeen { at_us: seen.at_us, ..ServerSeen::default() });
            assert!(missing.len() >= 3 && missing.iter().all(|it| it.why.contains("Access denied")), "{missing:?}");
            assert!(missing.iter().any(|it| it.remedy.as_ref().is_some_and(|remedy| remedy.starts_with("GRANT"))));
        }
    }

    #[test]
    fn mariadb_with_its_instruments_off_says_so() {
        let (seen, missing) = ask(Flavour::Mariadb, |sql| {
            Ok(match sql {
                sql if sql.starts_with("SHOW GLOBAL VARIABLES") => {
                    vec![row(&["performance_schema", "OFF"]), row(&["key_buffer_size", "134217728"])]
                }
                sql if sql.starts_with("SHOW GLOBAL STATUS") => vec![row(&["Memory_used", "578"])],
                sql if sql.contains(", 1 FROM information_schema.PROCESSLIST") => {
                    vec![row(&["7", "me", "localhost:4711", "Sleep", "100", "200", "1"])]
                }
                "SHOW ENGINE INNODB STATUS" => {
                    vec![row(&["InnoDB", "", "x\n---\nBUFFER POOL AND MEMORY\n---\nTotal 1\n---\nROW\n"])]
                }
                sql if sql.contains("KEY_CACHES") => Vec::new(),
                other => return Err(format!("not expected: {other}")),
            })
        });
        assert_eq!((seen.variables.len(), seen.status["Memory_used"].as_str()), (2, "578"));
        assert_eq!(seen.innodb_memory.as_deref(), Some("Total 1\n"));
        let session = &seen.sessions[0];
        assert_eq!(
            (session.id, session.account.as_str(), session.bytes, session.bytes_max),
            (7, "me@localhost", Some(100), Some(200))
        );
        assert!(
            missing.len() == 1 && missing[0].remedy.as_ref().is_some_and(|it| it.contains("performance_schema=ON")),
            "{missing:?}"
        );
    }

    #[test]
    fn mysql_tells_what_its_instruments_count() {
        let (seen, missing) = ask(Flavour::Mysql, |sql| {
            Ok(match sql {
                sql if sql.starts_with("SHOW GLOBAL VARIABLES") => vec![row(&["performance_schema", "ON"])],
                "SHOW ENGINE PERFORMANCE_SCHEMA STATUS" => vec![
                    row(&["performance_schema", "x.performance_schema.memory", "1"]),
                    row(&["performance_schema", "performance_schema.memory", "220000000"]),
                ],
                sql if sql.contains("memory_summary_global") => {
                    vec![row(&["memory/sql/THD", "-5"]), row(&["memory/a/b", "9"])]
                }
                sql if sql.contains("setup_instruments") => vec![row(&["507", "70"])],
                sql if sql.contains("total_memory") => return Err("Unknown column 'total_memory'".into()),
                sql if sql.contains(&format!(", 0 FROM {CLIENT_THREADS}")) => {
                    vec![vec![Some("8".into()), Some("me".into()), None, Some("Query".into()), None, None]]
                }
                _ => Vec::new(),
            })
        });
        assert_eq!((seen.performance_schema_bytes, seen.instruments), (Some(220_000_000), Some((70, 507))));
        assert_eq!(seen.memory_events["memory/sql/THD"], -5);
        assert_eq!((seen.sessions[0].id, seen.sessions[0].bytes), (8, None));
        assert!(
            missing.iter().any(|it| it.remedy.as_ref().is_some_and(|it| it.contains("memory/%=COUNTED"))),
            "{missing:?}"
        );
    }

    /// Whether it is missing that instruments count from the start: all are enabled, the pool has 128 MiB.
    fn counts_late(flavour: Flavour, events: &[[&str; 2]]) -> bool {
        let (_, missing) = ask(flavour, |sql| {
            Ok(match sql {
                sql if sql.starts_with("SHOW GLOBAL VARIABLES") => {
                    vec![row(&["performance_schema", "ON"]), row(&["innodb_buffer_pool_size", "134217728"])]
                }
                sql if sql.contains("memory_summary_global") => events.iter().map(|event| row(event)).collect(),
                sql if sql.contains("setup_instruments") => vec![row(&["507", "507"])],
                _ => Vec::new(),
            })
        });
        missing.iter().any(|it| it.why.contains("enabled after the server had started"))
    }

    #[test]
    fn instruments_that_were_enabled_too_late_are_told() {
        let pool = ["memory/innodb/buf_buf_pool", "137170944"];
        assert!(!counts_late(Flavour::Mysql, &[pool, ["memory/sql/THD", "-5"]]));
        assert!(counts_late(Flavour::Mysql, &[["memory/sql/THD", "90000"]]));
        assert!(counts_late(Flavour::Mysql, &[pool, ["memory/sql/TABLE", "-90000"]]));
        // MariaDB 11.4 counts the pool with no instrument
        assert!(!counts_late(Flavour::Mariadb, &[["memory/sql/THD", "90000"]]));
        assert!(counts_late(Flavour::Mariadb, &[["memory/sql/TABLE", "-90000"]]));
    }

    #[test]
    fn postgresql_tells_its_shared_memory_and_no_secrets() {
        let (seen, missing) = ask(Flavour::Postgresql, |sql| {
            Ok(match sql {
                sql if sql.contains("pg_db_role_setting") => Vec::new(),
                sql if sql.contains("pg_settings") => {
                    vec![row(&["shared_buffers", "128MB"]), row(&["primary_conninfo", "password=x"])]
                }
                sql if sql.contains("pg_shmem_allocations") => {
                    vec![
                        row(&["Buffer Blocks", "128", "16384", "16384"]),
                        vec![None, Some("9".into()), Some("1".into()), Some("2".into())],
                    ]
                }
                sql if sql.contains("pg_stat_activity") => vec![row(&["4711", "me", "client backend"])],
                other => return Err(format!("not expected: {other}")),
            })
        });
        assert_eq!(seen.variables.keys().collect::<Vec<_>>(), ["shared_buffers"]);
        assert_eq!(
            (seen.shared_allocations[0].name.as_deref(), seen.shared_allocations[1].name.as_deref()),
            (Some("Buffer Blocks"), None)
        );
        assert_eq!((seen.shared_allocations[0].offset, seen.shared_allocations[1].allocated_size), (Some(128), 2));
        assert_eq!(
            (seen.sessions[0].pid, seen.sessions[0].command.as_str(), missing.len()),
            (Some(4711), "client backend", 0)
        );
    }
}
