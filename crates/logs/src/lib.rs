// SPDX-License-Identifier: Apache-2.0
//! The logs in which servers write the statements that they ran: the slow and the general log of MySQL and MariaDB, PostgreSQL's log.
//!
//! - [`open`]: finds the format of a log by its content. [`Log`] gives one entry after the other, in constant memory, and counts the content that it
//!   leaves out ([`Skipped`]).
//! - [`open_timed`]: the same for a caller that needs the durations of statements ([`Figures`]), with a limit on the kept bytes of a statement.
//! - [`read`]: a whole log, by connections ([`Recorded`]); its memory grows with the log.
//!
//! Not here: opening files; what a statement does.

mod clock;
mod csv;
mod databases;
mod entry;
mod figures;
mod lines;
mod lock_waits;
mod mysql;
mod pairs;
mod place;
mod postgresql;
mod prefix;
mod recorded;
mod slow_time;
mod statement_end;
mod untimed;

pub use clock::{Moment, Zone};
pub use entry::{Entry, Skip, Skipped, cut};
pub use figures::Figures;
pub use lines::MOST_BYTES;
pub use place::Place;
pub use recorded::{Recorded, Session, Statement};

use entry::{Gathered, Reader};
use lines::Lines;
use serde::Serialize;
use sql::Dialect;
use std::io::{self, BufRead, Chain, Cursor, Read as _};
use std::sync::Arc;

/// The server and the kind of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    MysqlSlow,
    MysqlGeneral,
    PostgresqlStderr,
    PostgresqlCsv,
    PostgresqlJson,
    /// Moments and query times, a line each, as awk prints them from a slow log.
    Pairs,
}

impl Format {
    pub fn dialect(self) -> Dialect {
        match self {
            Self::MysqlSlow | Self::MysqlGeneral | Self::Pairs => Dialect::Mysql,
            Self::PostgresqlStderr | Self::PostgresqlCsv | Self::PostgresqlJson => Dialect::Postgresql,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::MysqlSlow => "slow log of MySQL or MariaDB",
            Self::MysqlGeneral => "general log of MySQL or MariaDB",
            Self::PostgresqlStderr => "log of PostgreSQL",
            Self::PostgresqlCsv => "csvlog of PostgreSQL",
            Self::PostgresqlJson => "jsonlog of PostgreSQL",
            Self::Pairs => "list of times and query times",
        }
    }

    fn reader(self) -> Box<dyn Reader> {
        match self {
            Self::MysqlSlow => Box::<mysql::Slow>::default(),
            Self::MysqlGeneral => Box::<mysql::General>::default(),
            Self::PostgresqlStderr => Box::<postgresql::Stderr>::default(),
            Self::PostgresqlCsv => Box::<csv::Csv>::default(),
            Self::PostgresqlJson => Box::<postgresql::Json>::default(),
            Self::Pairs => Box::<pairs::Pairs>::default(),
        }
    }
}

/// The format is looked for in this many bytes at the beginning of a log.
const HEAD_BYTES: u64 = 256 << 10;

/// The inspected beginning, and the rest.
pub type FromBeginning<R> = Chain<Cursor<Vec<u8>>, R>;

/// A log that is read entry by entry.
pub struct Log<R> {
    format: Format,
    lines: Lines<R>,
    reader: Box<dyn Reader>,
    gathered: Gathered,
    is_at_end: bool,
}

/// Opens a log by its beginning. `None`: the format is not known.
///
/// # Errors
/// It cannot be read.
pub fn open<R: BufRead>(input: R) -> io::Result<Option<Log<FromBeginning<R>>>> {
    let (head, input) = beginning(input)?;
    Ok(detect(&head).map(|format| Log::of(format, input)))
}

/// As [`open`], for a caller that needs the durations of statements. If a statement is longer than `most` bytes, its beginning is kept; a list of
/// moments and query times is a log, too.
///
/// # Errors
/// It cannot be read.
pub fn open_timed<R: BufRead>(input: R, most: usize) -> io::Result<Option<Log<FromBeginning<R>>>> {
    let (head, input) = beginning(input)?;
    let has_pairs = || head.lines().any(pairs::is_pair);
    // a slow log to which nothing has been written yet has what the server writes at its start
    let has_header_only = || !head.is_empty() && head.lines().all(mysql::is_header);
    let format = detect(&head)
        .or_else(|| has_pairs().then_some(Format::Pairs))
        .or_else(|| has_header_only().then_some(Format::MysqlSlow));
    Ok(format.map(|format| {
        let mut log = Log::of(format, input);
        (log.gathered.most, log.gathered.cuts) = (most, true);
        log
    }))
}

/// The beginning as text, and the whole input again.
fn beginning<R: BufRead>(mut input: R) -> io::Result<(String, FromBeginning<R>)> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok((String::from_utf8_lossy(&head).into_owned(), Cursor::new(head).chain(input)))
}

/// A whole log, by connections. `None`: the format is not known.
///
/// # Errors
/// It cannot be read.
pub fn read(input: impl BufRead) -> io::Result<Option<(Format, Recorded)>> {
    let Some(log) = open(input)? else { return Ok(None) };
    Ok(Some((log.format(), Recorded::of(log)?)))
}

impl<R: BufRead> Log<R> {
    fn of(format: Format, input: R) -> Self {
        let (reader, gathered) = (format.reader(), Gathered::default());
        Self { format, lines: Lines::new(input), reader, gathered, is_at_end: false }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The last line so far in which a MySQL or MariaDB server names its version at its start.
    pub fn head(&self) -> Option<&Arc<str>> {
        self.gathered.head.as_ref()
    }

    /// The time zone of the last time with a day.
    pub fn zone(&self) -> &Zone {
        &self.gathered.zone
    }

    /// Bytes read until now.
    pub fn bytes(&self) -> u64 {
        let place = self.lines.place();
        place.offset + place.bytes
    }

    /// The content that was left out until now.
    pub fn skipped(&self) -> &Skipped {
        &self.gathered.skipped
    }
}

impl<R: BufRead> Iterator for Log<R> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.gathered.entries.pop_front() {
                return Some(Ok(entry));
            }
            if self.is_at_end {
                return None;
            }
            match self.lines.next(self.gathered.most) {
                Ok(Some((number, line, place))) => {
                    self.gathered.here = place;
                    self.reader.line(number, &line, &mut self.gathered);
                }
                Ok(None) => {
                    self.is_at_end = true;
                    self.gathered.here = self.lines.place();
                    self.reader.end(&mut self.gathered);
                }
                Err(error) => {
                    self.is_at_end = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The format, by the first line that only one of the formats has.
fn detect(head: &str) -> Option<Format> {
    head.lines().filter(|line| !mysql::is_header(line)).find_map(|line| {
        if line.starts_with("# User@Host: ") || line.starts_with("# Time: ") {
            Some(Format::MysqlSlow)
        } else if mysql::is_general(line) {
            Some(Format::MysqlGeneral)
        } else if line.starts_with('{') && line.contains("\"error_severity\"") {
            Some(Format::PostgresqlJson)
        } else if csv::is_record(line) {
            Some(Format::PostgresqlCsv)
        } else if prefix::is_stderr(line) {
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

    #[test]
    fn a_slow_log_without_statements_is_a_slow_log() {
        let header = "/usr/sbin/mysqld, Version: 8.0.29 (MySQL). started with:\nTcp port: 3306  Unix socket: s.sock\nTime                 Id Command    Argument\n";
        let of = |text: &str| open_timed(text.as_bytes(), 100).expect("reads").map(|log| log.format());
        assert_eq!(of(header), Some(Format::MysqlSlow));
        assert_eq!((of(""), of("SELECT 1\n")), (None, None));
    }
}
