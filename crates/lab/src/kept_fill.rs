// SPDX-License-Identifier: Apache-2.0
//! Takes the cell's data from the cache, where they were filled before, and puts them into it after a fill.

use crate::cell::{Cell, KeptFills, Program};
use crate::error::Error;
use crate::kept_fill_files::files_that_fill;
use crate::lab::Lab;
use evidence::{Data, DataHow};
use experiment::FillSize;
use fills::{Entry, Kept, Key, Looked, Store, ToKeep};
use host::clock::{rfc3339, unix_seconds};
use host::places::Places;
use load::fill::FillReport;
use sandbox::{Imported, Installation, LEFT_OUT, Sandbox, filled_key};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// The result of a fill. It is kept beside the data, so that a run with a clone reports the same.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) report: Option<FillReport>,
    pub(crate) pgbench: Option<String>,
    /// Facts about the table that a program, or a dump, of the user has made.
    #[serde(default)]
    pub(crate) rows_per_table: u64,
    /// The dump that was loaded, or the folder that was copied.
    #[serde(default)]
    pub(crate) imported: Option<Imported>,
}

/// The cell's data in the cache, as far as they were found.
#[derive(Debug, Default)]
pub(crate) struct FromCache {
    /// `None`: kept data are not used, and new data are not kept.
    store: Option<(Store, Key)>,
    pub(crate) entry: Option<Arc<Entry>>,
}

/// Whether the data of a cell's fill can be kept.
pub(crate) enum Keyed {
    By(Key),
    /// No data, the caller wants no kept data, or a folder of the user's own data that the file does not ask to keep.
    Never,
    TooManyFiles,
}

/// Why nothing is kept where a program fills.
pub(crate) const TOO_MANY_FILES: &str = "below the folder of the program that fills are more than 1000 files and folders, which would all be looked at before each use";

/// The key of the data that a cell's fill makes in a new sandbox.
///
/// # Errors
/// The server's program, or the program that fills, cannot be looked at.
pub(crate) fn key_of(cell: &Cell, installation: &Installation, places: &Places) -> Result<Keyed, Error> {
    let first = &cell.phases[0];
    let fill = &cell.fill;
    let origin = cell.origin.as_ref().filter(|origin| fill.keep || !origin.is_folder());
    let is_to_stay = (cell.origin.is_some() || fill.from.is_some()) && origin.is_none();
    let is_none = fill.size.is_none() && fill.pgbench.is_none() && fill.command.is_empty() && origin.is_none();
    if is_to_stay || is_none || cell.kept_fills == KeptFills::Off {
        return Ok(Keyed::Never);
    }
    // where the size is a multiple of the pool, the pool's size is part of the key
    let pool = Some(first.pool).filter(|_| matches!(fill.size, Some(FillSize::TimesPool(_))));
    let key = filled_key(installation, &first.server_options)?
        .with("fill", json!(fill))
        .with("seed", first.load.seed)
        .with("pool_bytes", json!(pool.map(|pool| pool.0)));
    let key = match origin {
        Some(folder) if folder.is_folder() => {
            key.with("folder", json!([folder.path.to_string_lossy(), folder.as_it_is()?]))
        }
        Some(dump) => key.with("dump", as_it_is(&dump.path)?),
        None => key,
    };
    let Some(program) = &cell.filler else { return Ok(Keyed::By(key)) };
    Ok(match files_of(program, &fill.command, places)? {
        Some(files) => Keyed::By(key.with("program_that_fills", files)),
        None => Keyed::TooManyFiles,
    })
}

/// The files that shape what a program fills: their names, sizes and times of writing. `None`: there are too many.
///
/// # Errors
/// A file cannot be looked at.
fn files_of(program: &Program, words: &[String], places: &Places) -> Result<Option<Value>, Error> {
    let Some(files) = files_that_fill(program, words, places)? else { return Ok(None) };
    Ok(Some(files.iter().map(|path| as_it_is(path)).collect::<Result<_, _>>()?))
}

/// The file's path, size and time of writing.
fn as_it_is(path: &Path) -> Result<Value, Error> {
    let file = path.metadata().map_err(|source| host::Error::path("look at", path, source))?;
    Ok(json!([path.to_string_lossy(), file.size(), format!("{}.{:09}", file.mtime(), file.mtime_nsec())]))
}

/// The user's own data from which kept data were made.
pub(crate) fn imported(entry: &Entry) -> Result<Option<Imported>, Error> {
    Ok(serde_json::from_value::<Note>(entry.note().clone())?.imported)
}

fn search(store: &Store, key: &Key, kept_fills: KeptFills) -> Result<Looked, fills::Error> {
    if kept_fills == KeptFills::Fresh {
        store.forget(key)?;
        return Ok(Looked::Nothing);
    }
    store.find(key, kept_fills == KeptFills::Verify, &host::interrupt::requested)
}

impl Lab<'_> {
    /// Looks for the cell's data in the cache, and says what was found.
    pub(crate) fn look_for_kept(&self, installation: &Installation, places: &Places) -> Result<FromCache, Error> {
        let key = match key_of(self.cell, installation, places)? {
            Keyed::By(key) => key,
            Keyed::Never => return Ok(FromCache::default()),
            Keyed::TooManyFiles => {
                self.notes.event("fill", format!("filling anew, and nothing is kept: {TOO_MANY_FILES}"))?;
                return Ok(FromCache::default());
            }
        };
        let store = Store::open(places).map_err(sandbox::Error::from)?;
        let found = match search(&store, &key, self.cell.kept_fills) {
            Err(error) if error.is_of_others() => {
                self.notes.event("fill", format!("kept data are not used: {}; filling anew", host::chain(&error)))?;
                return Ok(FromCache::default());
            }
            found => found.map_err(sandbox::Error::from)?,
        };
        let entry = match found {
            Looked::Off => return Ok(FromCache::default()),
            Looked::Nothing => None,
            Looked::Here(entry) => Some(Arc::from(entry)),
            Looked::ThrownAway(why) => {
                self.notes.event("fill", format!("kept data were thrown away: {why}; filling anew"))?;
                None
            }
        };
        Ok(FromCache { store: Some((store, key)), entry })
    }

    /// After the deployment of a clone: the result of its fill.
    pub(crate) fn take_clone(&mut self, entry: &Entry, began_us: u64) -> Result<(), Error> {
        let Some(taken) = self.sandbox.as_ref().and_then(|sandbox| sandbox.manifest.filled.clone()) else {
            return Err(Error::NoServer);
        };
        let note: Note = serde_json::from_value(entry.note().clone())?;
        let made = rfc3339(taken.made);
        let seconds = taken.elapsed_us as f64 / 1e6;
        self.notes.event(
            "fill",
            format!(
                "a clone of data that were filled {made} ({}), {} by {} in {seconds:.1} s; --fresh-fill fills anew",
                taken.key,
                Bytes(taken.bytes),
                taken.mechanism
            ),
        )?;
        self.span("fill.clone", "", began_us, &[("mechanism", taken.mechanism.clone()), ("key", taken.key.clone())])?;
        if let Some(report) = &note.report {
            self.rows_per_table = report.rows_per_table;
            self.notes.event("fill", format!("when they were filled: {report}"))?;
            for measured in report.measured(self.notes.clock.now_us()) {
                self.notes.measured(&measured)?;
            }
        }
        if self.cell.fill.size.is_none() {
            self.rows_per_table = note.rows_per_table;
        }
        if let Some(report) = note.pgbench {
            self.notes.event("fill", format!("when they were filled: {report}"))?;
        }
        self.data = Some(Data {
            how: DataHow::Cloned,
            key: taken.key,
            made,
            mechanism: Some(taken.mechanism),
            elapsed_us: self.notes.clock.now_us().saturating_sub(began_us),
            kept: None,
        });
        Ok(())
    }

    /// Keeps the data, after a fill whose server was stopped cleanly. The run goes on when they cannot be kept.
    pub(crate) fn keep_filled(&mut self, kept: &FromCache, note: &Note, elapsed_us: u64) -> Result<(), Error> {
        let Some(sandbox) = self.sandbox.clone() else { return Ok(()) };
        let mut data = Data { how: DataHow::Filled, made: rfc3339(unix_seconds()), elapsed_us, ..Data::default() };
        if let Some((store, key)) = &kept.store {
            let said = match keep(store, key.clone(), &sandbox, note) {
                Err(sandbox::Error::Interrupted) => return self.check_stop(),
                Err(error) => format!("not kept: {}", host::chain(&error)),
                Ok(said) => said,
            };
            self.notes.event("fill", format!("the filled data: {said}"))?;
            data.key = key.id();
            data.kept = Some(said);
        }
        self.data = Some(data);
        self.record_data()
    }
}

/// Keeps the data of a sandbox whose server is stopped. Returns in words whether they were kept.
pub(crate) fn keep(store: &Store, key: Key, sandbox: &Sandbox, note: &Note) -> Result<String, sandbox::Error> {
    let note = serde_json::to_value(note).unwrap_or_default();
    let (data, secret) = (sandbox.data(), sandbox.password()?);
    let stop = &host::interrupt::requested;
    let kept = store.keep(&ToKeep { key, data: &data, secret: &secret, note, leave_out: &LEFT_OUT, stop })?;
    Ok(match kept {
        Kept::Yes { id, bytes, gone } => {
            let gone = match gone.len() {
                0 => String::new(),
                count => format!("; {} went for it", units::counted(count as u64, "older kept fill")),
            };
            format!("kept for the next run as {id}, {}{gone}", Bytes(bytes))
        }
        Kept::Already => "kept by another process meanwhile".into(),
        Kept::No(why) => format!("not kept: {why}"),
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_of_a_subfolder_that_was_edited_is_another_key() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let program = Program { program: write("fill.sh", "1"), folder: folder.path().into(), scripts: Vec::new() };
        write("sub/data.sql", "1");
        let told = || files_of(&program, &[], &Places::below(&folder.path().join("home"))).unwrap().unwrap();
        let before = told();
        assert_eq!((told(), before.as_array().unwrap().len()), (before.clone(), 2));
        write("sub/data.sql", "1\n2");
        assert_ne!(told(), before);
    }
}
