// SPDX-License-Identifier: Apache-2.0
//! A recorded workload once more: the log of a real server, read, judged, and sent to another one.
//!
//! - [`read`]: the slow or general log of MySQL and MariaDB, PostgreSQL's log; which one is found by looking.
//! - [`plan`]: which statements are to be sent; the others counted by reason.
//! - [`run`]: one connection for each of the log's, statements at their recorded moments or faster.

mod classify;
mod clock;
mod count;
mod event;
mod mysql;
mod plan;
mod postgresql;
mod run;
mod token;

pub use event::{Recorded, Session, Statement};
pub use plan::{Plan, plan};
pub use run::{Options, Pace, Replayed, run};

use crate::Flavour;
use event::Gathered;
use serde::Serialize;
use std::io::{self, BufRead, Read as _};

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    MysqlSlow,
    MysqlGeneral,
    PostgresqlStderr,
    PostgresqlCsv,
    PostgresqlJson,
}

impl Format {
    pub fn flavour(self) -> Flavour {
        match self {
            Self::MysqlSlow | Self::MysqlGeneral => Flavour::Mysql,
            Self::PostgresqlStderr | Self::PostgresqlCsv | Self::PostgresqlJson => Flavour::Postgresql,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::MysqlSlow => "slow log of MySQL or MariaDB",
            Self::MysqlGeneral => "general log of MySQL or MariaDB",
            Self::PostgresqlStderr => "log of PostgreSQL",
            Self::PostgresqlCsv => "csvlog of PostgreSQL",
            Self::PostgresqlJson => "jsonlog of PostgreSQL",
        }
    }
}

/// So much of a log's beginning is looked at.
const HEAD_BYTES: u64 = 256 << 10;

/// A log, read to its end. `None`: it is none that is known.
///
/// # Errors
/// It cannot be read.
pub fn read(mut input: impl BufRead) -> io::Result<Option<(Format, Recorded)>> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let Some(format) = detect(&String::from_utf8_lossy(&head)) else { return Ok(None) };
    let whole = io::Cursor::new(head).chain(input);
    let gathered = Gathered::default();
    let gathered = match format {
        Format::MysqlSlow => mysql::read_slow(whole, gathered),
        Format::MysqlGeneral => mysql::read_general(whole, gathered),
        Format::PostgresqlStderr => postgresql::read_stderr(whole, gathered),
        Format::PostgresqlCsv => postgresql::read_csv(whole, gathered),
        Format::PostgresqlJson => postgresql::read_json(whole, gathered),
    }?;
    Ok(Some((format, gathered.finish())))
}

/// By the first line that one of the formats has and no other.
fn detect(head: &str) -> Option<Format> {
    head.lines().filter(|line| !mysql::is_header(line)).find_map(|line| {
        if line.starts_with("# User@Host: ") || line.starts_with("# Time: ") {
            Some(Format::MysqlSlow)
        } else if mysql::is_general(line) {
            Some(Format::MysqlGeneral)
        } else if line.starts_with('{') && line.contains("\"error_severity\"") {
            Some(Format::PostgresqlJson)
        } else if postgresql::is_csv(line) {
            Some(Format::PostgresqlCsv)
        } else if postgresql::is_stderr(line) {
            Some(Format::PostgresqlStderr)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_known_by_its_lines() {
        let of = |text: &str| read(text.as_bytes()).expect("reads").map(|(format, _)| format);
        assert_eq!(of("# Time: 261121 22:49:33\n"), Some(Format::MysqlSlow));
        assert_eq!(of("junk\n261121 22:49:33\t     3 Query\tSELECT 1\n"), Some(Format::MysqlGeneral));
        assert_eq!(of("2026-11-21 22:51:56 UTC [1] LOG:  x\n"), Some(Format::PostgresqlStderr));
        assert_eq!(of("SELECT 1;\n"), None);
        assert_eq!(of(""), None);
    }
}
