// SPDX-License-Identifier: Apache-2.0
//! Texts that were read as a whole. Large texts are packed, in a table of their own.

use crate::Error;
use crate::cell::{Counter, Packed};
use crate::reader::{Reader, counter};
use evidence::{Format, Snapshot};
use rusqlite::{Row, Transaction, params};
use std::collections::BTreeSet;
use std::path::Path;

/// JSON of this many bytes or more is packed, which makes it ten times smaller. Text for people stays readable with any SQLite client.
const LARGE: usize = 4096;
const TABLES: [&str; 2] = ["snapshot", "packed_snapshot"];
const COLUMNS: &str = "at_us, arm, source, entity, format, content";

pub(crate) fn insert(transaction: &Transaction<'_>, snapshot: &Snapshot) -> rusqlite::Result<()> {
    let Snapshot { at_us, arm, source, entity, format, content } = snapshot;
    let is_large = *format == Format::Json && content.len() >= LARGE;
    let [plain, packed] =
        TABLES.map(|table| format!("INSERT INTO {table} ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
    let (at_us, format) = (Counter(*at_us), format.name());
    let inserted = if is_large {
        let content = Packed(content.clone());
        transaction.prepare_cached(&packed)?.execute(params![at_us, arm, source, entity, format, content])
    } else {
        transaction.prepare_cached(&plain)?.execute(params![at_us, arm, source, entity, format, content])
    };
    inserted.map(drop)
}

/// The number of large snapshots of a source that are read, spread over the whole time, with the last one. All snapshots of hours would fill the
/// memory. [`Snapshots`] has all.
const MOST: u64 = 500;

/// In the order in which they were taken. An older recording lacks one of the tables, or both.
pub(crate) fn all(reader: &Reader<'_>, kept: impl Fn(Snapshot) -> Snapshot) -> Result<Vec<Snapshot>, Error> {
    let of_source =
        "OVER (PARTITION BY source ORDER BY rowid ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)";
    let numbered = format!(
        "SELECT rowid AS number, row_number() {of_source} - 1 AS nth, count(*) {of_source} AS total FROM packed_snapshot"
    );
    let spread = format!("nth % ((total + {MOST} - 1) / {MOST}) = 0 OR nth = total - 1");
    let of_large = format!("WHERE rowid IN (SELECT number FROM ({numbered}) WHERE {spread})");
    some(reader, ["", &of_large], kept)
}

/// `filters`: the end of the statement for each table. It contains only text from this program. `kept`: what takes the place of each, before the next
/// one is read.
fn some(reader: &Reader<'_>, filters: [&str; 2], kept: impl Fn(Snapshot) -> Snapshot) -> Result<Vec<Snapshot>, Error> {
    let mut found = Vec::new();
    for (table, filter) in TABLES.into_iter().zip(filters) {
        if reader.has_table(table)? {
            let sql = format!("SELECT {COLUMNS} FROM {table} {filter} ORDER BY rowid");
            found.extend(reader.rows(&sql, |row| snapshot(row).map(&kept))?);
        }
    }
    found.sort_by_key(|snapshot| snapshot.at_us);
    Ok(found)
}

fn snapshot(row: &Row<'_>) -> rusqlite::Result<Snapshot> {
    let format: String = row.get("format")?;
    let is_packed = matches!(row.get_ref("content")?, rusqlite::types::ValueRef::Blob(_));
    Ok(Snapshot {
        at_us: row.get::<_, Counter>("at_us")?.0,
        arm: row.get("arm")?,
        source: row.get("source")?,
        entity: row.get("entity")?,
        // a format that only a newer build knows is read as text, too
        format: Format::ALL.into_iter().find(|known| known.name() == format).unwrap_or(Format::Text),
        content: if is_packed { row.get::<_, Packed>("content")?.0 } else { row.get("content")? },
    })
}

/// The snapshots of one source, read one by one: all together may not fit into memory.
pub struct Snapshots<'a> {
    reader: Reader<'a>,
    source: String,
    started: String,
    elapsed_us: Option<u64>,
    moments: BTreeSet<u64>,
}

impl<'a> Snapshots<'a> {
    /// The snapshots of this source, as in [`Snapshot::source`]. A recording that has no such snapshot has no moments.
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::Newer`], or an error of SQLite.
    pub fn of(path: &'a Path, source: &str) -> Result<Self, Error> {
        let reader = Reader::open(path)?;
        let mut moments = BTreeSet::new();
        for table in TABLES {
            if reader.has_table(table)? {
                let sql = format!("SELECT at_us, source FROM {table}");
                let found = reader.rows(&sql, |row| Ok((counter(row, 0)?, row.get::<_, String>(1)?)))?;
                moments.extend(found.into_iter().filter(|(_, of)| of == source).map(|(at_us, _)| at_us));
            }
        }
        let started = reader.meta("started")?.unwrap_or_default();
        let elapsed_us = reader.meta("elapsed_us")?.and_then(|text| text.parse().ok());
        Ok(Self { reader, source: source.to_owned(), started, elapsed_us, moments })
    }

    /// When the run began: RFC 3339, UTC.
    pub fn started(&self) -> &str {
        &self.started
    }

    /// When the run ended, on the run's clock. `None`: it was cut off, or goes on.
    pub fn elapsed_us(&self) -> Option<u64> {
        self.elapsed_us
    }

    /// Microseconds on the run's clock, as in [`Snapshot::at_us`].
    pub fn moments(&self) -> &BTreeSet<u64> {
        &self.moments
    }

    /// The first snapshot that was taken at this moment. `None`: the time is not in [`Self::moments`].
    ///
    /// # Errors
    /// An error of SQLite, such as a damaged file.
    pub fn at(&self, moment_us: u64) -> Result<Option<Snapshot>, Error> {
        let of_moment = format!("WHERE at_us = {moment_us}");
        let found = some(&self.reader, [&of_moment, &of_moment], |snapshot| snapshot)?;
        Ok(found.into_iter().find(|snapshot| snapshot.source == self.source))
    }
}
