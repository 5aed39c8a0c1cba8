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

    /// Logs hold what clients sent, in any character set, and may be cut anywhere.
    #[test]
    fn no_bytes_make_a_reader_panic() {
        use crate::distribution::Draw as _;
        use crate::workload::rand_core::SeedableRng as _;
        let logs: [&[u8]; 5] = [
            b"# Time: 2026-11-21T22:43:55.500000Z\n# User@Host: me[me] @ localhost []  Id:    10\n# Query_time: 0.250000\nuse shop;\nSET timestamp=1763765035;\nSELECT 'a\\'b', `c` FROM t;\n",
            b"261121 22:49:33\t     3 Connect\tme@localhost on shop using Socket\n\t\t     3 Query\tSELECT 1\n261121 22:49:35\t    12 Query\tSELECT 8\n",
            b"2026-11-21 22:51:56.629 UTC [1] LOG:  duration: 0.123 ms  execute s1: SELECT $1, $x$y$x$\n2026-11-21 22:51:56 UTC [1] DETAIL:  parameters: $1 = 'it''s'\n",
            b"2026-11-21 22:51:56.629 UTC,\"me\",\"shop\",7,\"[local]\",6a01.7,1,\"SELECT\",2026-11-21 22:51:00 UTC,3/4,0,LOG,00000,\"statement: SELECT 1\",,,,,,,,,\"psql\"\n",
            b"{\"timestamp\":\"2026-11-21 22:51:56.629 UTC\",\"pid\":7,\"dbname\":\"shop\",\"error_severity\":\"LOG\",\"message\":\"statement: SELECT 1\"}\n",
        ];
        let pieces: [&[u8]; 12] = [
            b"\xff",
            b"\xe9",
            "\u{20ac}".as_bytes(),
            b"\xf0\x9f",
            b"\t",
            b"\0",
            b"'",
            b"\\",
            b"$",
            b"99999999999999999999",
            b"9223372036854775807",
            b"-",
        ];
        let mut rng = crate::workload::Rng::seed_from_u64(11);
        let mut at_most = |most: usize| usize::try_from(rng.below(most as u64 + 1)).expect("small");
        let mut read_whole = 0;
        for round in 0..20_000 {
            let mut log = logs[round % logs.len()].to_vec();
            for _ in 0..=at_most(3) {
                let (from, length) = (at_most(log.len()), at_most(4));
                let to = (from + length).min(log.len());
                log.splice(from..to, pieces[at_most(pieces.len() - 1)].iter().copied());
            }
            let Some((format, recorded)) = read(log.as_slice()).expect("reads") else { continue };
            plan(&recorded, format.flavour(), true, None);
            read_whole += recorded.statements();
        }
        assert!(read_whole > 1000, "only {read_whole} statements were understood");
    }

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
