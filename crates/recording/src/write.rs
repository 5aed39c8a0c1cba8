// SPDX-License-Identifier: Apache-2.0
use crate::cell::Counter;
use crate::schema::{APPLICATION_ID, SCHEMA, TABLES};
use crate::{Error, read, snapshots};
use evidence::{
    Arm, Conditions, Driven, Event, Evidence, Measured, Point, Quantity, SampleSink, Series, SinkError, Snapshot, Span,
    Verdict, Witness,
};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, params};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The facts that are known when the run starts.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub run_id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The experiment file, as it was written.
    pub experiment: String,
    /// Files that the experiment names, such as a workload's: name and text.
    pub files: Vec<(String, String)>,
    /// Only this user may read the file, whatever the umask allows.
    pub is_private: bool,
}

/// A recording that is being written. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Recording {
    path: Arc<PathBuf>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    /// `None` after [`Recording::finish`].
    connection: Option<Connection>,
    /// (source, entity, name) -> id
    series: HashMap<(String, String, String), u32>,
}

impl Recording {
    /// Creates the file; its folder must exist.
    ///
    /// # Errors
    /// [`Error::Exists`]: a recording is never written over.
    pub fn create(path: &Path, start: &Start) -> Result<Self, Error> {
        let made = make_empty(path, start.is_private).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
            _ => Error::Create { path: path.to_owned(), source: error },
        })?;
        let connection = open_new(&made, start).map_err(Error::sqlite("create", path))?;
        let inner = Inner { connection: Some(connection), series: HashMap::new() };
        Ok(Self { path: Arc::new(path.to_owned()), inner: Arc::new(Mutex::new(inner)) })
    }

    /// The whole recording, also when its writer was cut off. When a source has more than 500 large snapshots, only some of them are read, spread
    /// evenly, with the first and the last; [`crate::Snapshots`] has all.
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::Newer`], or an error of SQLite.
    pub fn read(path: &Path) -> Result<Evidence, Error> {
        Self::read_for(path, |_| true)
    }

    /// Like [`Self::read`], without the series that are not needed: they stay on disk. `is_needed` gets each series without its points.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn read_for(path: &Path, is_needed: impl Fn(&Series) -> bool) -> Result<Evidence, Error> {
        Self::read_reduced(path, is_needed, |snapshot| snapshot)
    }

    /// Like [`Self::read_for`], for large snapshots that do not fit into memory together. `kept` gets one after the other; what it returns, in place
    /// of the snapshot, is in the evidence.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn read_reduced(
        path: &Path,
        is_needed: impl Fn(&Series) -> bool,
        kept: impl Fn(Snapshot) -> Snapshot,
    ) -> Result<Evidence, Error> {
        read::evidence(path, is_needed, kept)
    }

    /// True when [`Recording::finish`] has written its mark into the file.
    pub fn is_finished(path: &Path) -> Result<bool, Error> {
        read::is_finished(path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the conditions that were written before.
    pub fn conditions(&self, conditions: &Conditions) -> Result<(), Error> {
        let document = self.json(conditions)?;
        self.write(|transaction| {
            transaction.execute("DELETE FROM conditions", [])?;
            transaction.execute("INSERT INTO conditions VALUES (?1)", [document]).map(drop)
        })
    }

    /// Writes the arm at `position` (0, 1, ...), in place of an earlier state of it. It is called once when the arm starts, and once when it has
    /// ended.
    pub fn arm(&self, position: u32, arm: &Arm) -> Result<(), Error> {
        let settings = self.json(&arm.settings)?;
        let delay = arm.delay.as_ref().map(|delay| self.json(delay)).transpose()?;
        let load = arm.load.as_ref().map(|load| self.json(load)).transpose()?;
        let layer_reads = arm.layer_reads.as_ref().map(|times| self.json(times)).transpose()?;
        let asked = arm.verdicts.iter().map(|verdict| self.json(&verdict.asked)).collect::<Result<Vec<_>, _>>()?;
        let driver = arm.driven.as_ref().map(|driven| self.json(&without_outputs(driven))).transpose()?;
        self.write(|transaction| {
            insert_arm(transaction, position, arm, [Some(settings), delay, load, layer_reads])?;
            if let (Some(driven), Some(document)) = (&arm.driven, driver) {
                insert_driver(transaction, position, driven, &document)?;
            }
            transaction.execute("DELETE FROM broken WHERE arm = ?1", [position])?;
            if let Some(reason) = &arm.broke_off {
                let outcome = arm.outcome.name();
                transaction.execute("INSERT INTO broken VALUES (?1, ?2, ?3)", params![position, reason, outcome])?;
            }
            insert_verdicts(transaction, position, &arm.verdicts, &asked)?;
            insert_witnesses(transaction, position, &arm.witnesses)
        })
    }

    pub fn measured(&self, measured: &Measured) -> Result<(), Error> {
        let quantity = |quantity: &Option<Quantity>| quantity.as_ref().map(|quantity| self.json(quantity)).transpose();
        let (asked, predicted) = (quantity(&measured.asked)?, quantity(&measured.predicted)?);
        let got = quantity(&measured.got)?;
        let looks = measured.looks.as_ref().map(|looks| self.json(looks)).transpose()?;
        let Measured { at_us, arm, what, mechanism, witness, within_tolerance, tolerance, came_on, .. } = measured;
        self.write(|transaction| {
            transaction
                .prepare_cached("INSERT INTO measured VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?
                .execute(params![
                    Counter(*at_us),
                    arm,
                    what,
                    mechanism,
                    asked,
                    predicted,
                    got,
                    witness,
                    within_tolerance,
                    tolerance,
                    looks,
                    came_on
                ])
                .map(drop)
        })
    }

    pub fn event(&self, event: &Event) -> Result<(), Error> {
        self.write(|transaction| {
            transaction
                .prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3)")?
                .execute(params![Counter(event.at_us), event.station, event.text])
                .map(drop)
        })
    }

    pub fn snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        self.write(|transaction| snapshots::insert(transaction, snapshot))
    }

    pub fn span(&self, span: &Span) -> Result<(), Error> {
        let attributes = self.json(&span.attributes)?;
        self.write(|transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO span (from_us, to_us, kind, entity, attributes) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![Counter(span.from_us), Counter(span.to_us), span.kind, span.entity, attributes])
                .map(drop)
        })
    }

    /// Adds points to these series in one transaction. New series are declared first.
    pub fn samples(&self, series: &[Series]) -> Result<(), Error> {
        let mut points = Vec::new();
        for one in series {
            let id = self.series(one)?;
            points.extend(one.points.iter().map(|point| (id, *point)));
        }
        self.insert_points(&points)
    }

    /// Ends the recording: writes the elapsed time and merges the write-ahead log into the file. One file is left, unless somebody reads
    /// the recording at this moment.
    pub fn finish(&self, elapsed_us: u64) -> Result<(), Error> {
        self.write(|transaction| {
            set_meta(transaction, "elapsed_us", &elapsed_us.to_string())?;
            set_meta(transaction, "finished", "1")
        })?;
        let connection = self.lock().connection.take().ok_or_else(|| self.finished())?;
        fold(connection).map_err(Error::sqlite("finish", &self.path))
    }

    fn series(&self, series: &Series) -> Result<u32, Error> {
        let key = (series.source.clone(), series.entity.clone(), series.name.clone());
        let mut inner = self.lock();
        if let Some(id) = inner.series.get(&key) {
            return Ok(*id);
        }
        let id = u32::try_from(inner.series.len()).unwrap_or(u32::MAX);
        self.write_locked(&mut inner, |transaction| {
            transaction
                .prepare_cached("INSERT INTO series VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![id, series.source, series.entity, series.name, series.unit, series.cumulative])
                .map(drop)
        })?;
        inner.series.insert(key, id);
        Ok(id)
    }

    fn insert_points(&self, points: &[(u32, Point)]) -> Result<(), Error> {
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached("INSERT INTO sample VALUES (?1, ?2, ?3)")?;
            for (series, point) in points {
                insert.execute(params![series, Counter(point.at_us), point.value])?;
            }
            Ok(())
        })
    }

    fn write(&self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>) -> Result<(), Error> {
        self.write_locked(&mut self.lock(), change)
    }

    /// Writes one transaction. It is committed to the write-ahead log: a kill of this process loses nothing.
    fn write_locked(
        &self,
        inner: &mut Inner,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        let connection = inner.connection.as_mut().ok_or_else(|| self.finished())?;
        let run = || {
            let transaction = connection.transaction()?;
            change(&transaction)?;
            transaction.commit()
        };
        run().map_err(Error::sqlite("write", &self.path))
    }

    fn json(&self, value: &impl Serialize) -> Result<String, Error> {
        serde_json::to_string(value).map_err(Error::json("write", &self.path))
    }

    fn finished(&self) -> Error {
        Error::Finished { path: self.path.to_path_buf() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SampleSink for Recording {
    fn declare(&mut self, series: &Series) -> Result<u32, SinkError> {
        Ok(self.series(series)?)
    }

    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), SinkError> {
        Ok(self.insert_points(points)?)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        Ok(Self::snapshot(self, snapshot)?)
    }

    fn span(&mut self, span: &Span) -> Result<(), SinkError> {
        Ok(Self::span(self, span)?)
    }
}

/// Makes the file, and nothing where a link is, also one that leads nowhere: the recording would be made there. Returns its path without links, which
/// SQLite can be told to refuse.
#[allow(clippy::disallowed_methods)]
fn make_empty(path: &Path, is_private: bool) -> io::Result<PathBuf> {
    let mode = if is_private { 0o600 } else { 0o644 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize()?.join(path.file_name().unwrap_or_default()))
}

/// `wal_autocheckpoint`: 64 MiB of 4 KiB pages; a run's samples stay below that, so that no checkpoint (which waits for the disk)
/// happens while something is measured.
fn open_new(path: &Path, start: &Start) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.set_prepared_statement_cache_capacity(16);
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    set_meta(&transaction, "schema", &SCHEMA.to_string())?;
    set_meta(&transaction, "run_id", &start.run_id)?;
    set_meta(&transaction, "started", &start.started)?;
    set_meta(&transaction, "experiment", &start.experiment)?;
    start.files.iter().try_for_each(|(name, text)| set_meta(&transaction, &format!("file:{name}"), text))?;
    transaction.commit()?;
    Ok(connection)
}

fn set_meta(transaction: &Transaction<'_>, key: &str, value: &str) -> rusqlite::Result<()> {
    transaction.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", [key, value]).map(drop)
}

/// The outputs have a table of their own, in which any SQLite client can read them unchanged.
fn without_outputs(driven: &Driven) -> Driven {
    Driven { outputs: Vec::new(), ..driven.clone() }
}

/// `documents`: settings, delay, load, and the times of the layer's reads, as JSON.
fn insert_arm(
    transaction: &Transaction<'_>,
    position: u32,
    arm: &Arm,
    [settings, delay, load, layer_reads]: [Option<String>; 4],
) -> rusqlite::Result<()> {
    let (started_us, ended_us) = (Counter(arm.started_us), Counter(arm.ended_us));
    let Arm { name, cell, repeat, .. } = arm;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO arm \
             (position, name, cell, repeat, settings, delay, load, layer_reads, started_us, ended_us) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![position, name, cell, repeat, settings, delay, load, layer_reads, started_us, ended_us])
        .map(drop)
}

fn insert_driver(transaction: &Transaction<'_>, arm: u32, driven: &Driven, document: &str) -> rusqlite::Result<()> {
    transaction.execute("INSERT OR REPLACE INTO driver VALUES (?1, ?2)", params![arm, document])?;
    transaction.execute("DELETE FROM output WHERE arm = ?1", [arm])?;
    let mut insert = transaction.prepare_cached("INSERT INTO output VALUES (?1, ?2, ?3, ?4)")?;
    for output in &driven.outputs {
        insert.execute(params![arm, output.name, output.text, Counter(output.left_out_bytes)])?;
    }
    Ok(())
}

fn insert_witnesses(transaction: &Transaction<'_>, arm: u32, witnesses: &[Witness]) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM witness WHERE arm = ?1", [arm])?;
    let mut insert = transaction.prepare_cached("INSERT INTO witness VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for Witness { of, counter, before, after } in witnesses {
        insert.execute(params![arm, of, counter, Counter(*before), Counter(*after)])?;
    }
    Ok(())
}

/// `asked` has one JSON text for each verdict.
fn insert_verdicts(
    transaction: &Transaction<'_>,
    arm: u32,
    verdicts: &[Verdict],
    asked: &[String],
) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM assertion WHERE arm = ?1", [arm])?;
    let mut insert = transaction.prepare_cached("INSERT INTO assertion VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (Verdict { assertion, passed, measured, at_least, .. }, asked) in verdicts.iter().zip(asked) {
        insert.execute(params![arm, assertion, passed, asked, measured, at_least])?;
    }
    Ok(())
}

/// How long to wait for others who read the file.
const READERS: Duration = Duration::from_millis(500);

/// While somebody reads the file, the write-ahead log stays beside it: nothing is lost, and the recording is whole.
fn fold(connection: Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(READERS)?;
    let folded = connection.pragma_update(None, "journal_mode", "DELETE");
    let is_read = |error: &rusqlite::Error| {
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    };
    folded.or_else(|error| if is_read(&error) { Ok(()) } else { Err(error) })?;
    connection.close().map_err(|(_, error)| error)
}
