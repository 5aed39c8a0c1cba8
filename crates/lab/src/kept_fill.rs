// SPDX-License-Identifier: Apache-2.0
//! Takes the cell's data from the cache, where they were filled before, and puts them into it after a fill.

use crate::cell::{Cell, KeptFills, Phase, Program};
use crate::error::Error;
use crate::lab::Lab;
use evidence::{Data, DataHow};
use experiment::FillSize;
use fills::{Entry, Kept, Key, Looked, Store, ToKeep};
use host::clock::{rfc3339, unix_seconds};
use host::places::Places;
use load::fill::FillReport;
use sandbox::{Installation, LEFT_OUT, Sandbox, filled_key};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, iter};
use units::Bytes;

/// The result of a fill. It is kept beside the data, so that a run with a clone reports the same.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) report: Option<FillReport>,
    pub(crate) pgbench: Option<String>,
    /// Facts about the table that a program of the user has made.
    #[serde(default)]
    pub(crate) rows_per_table: u64,
}

/// The cell's data in the cache, as far as they were found.
#[derive(Debug, Default)]
pub(crate) struct FromCache {
    /// `None`: kept data are not used, and new data are not kept.
    store: Option<(Store, Key)>,
    pub(crate) entry: Option<Arc<Entry>>,
}

/// The key of the data that a cell's fill makes in a new sandbox. `None`: they are not kept. The user's own data are never kept.
///
/// # Errors
/// The server's program, or the program that fills, cannot be looked at.
pub(crate) fn key_of(cell: &Cell, first: &Phase, installation: &Installation) -> Result<Option<Key>, Error> {
    let fill = &cell.fill;
    let is_own = cell.origin.is_some() || fill.from.is_some();
    let is_none = fill.size.is_none() && fill.pgbench.is_none() && fill.command.is_empty();
    if is_own || is_none || cell.kept_fills == KeptFills::Off {
        return Ok(None);
    }
    // where the size is a multiple of the pool, the pool's size is part of the key
    let pool = Some(first.pool).filter(|_| matches!(fill.size, Some(FillSize::TimesPool(_))));
    let key = filled_key(installation, &first.server_options)?
        .with("fill", json!(fill))
        .with("seed", first.load.seed)
        .with("pool_bytes", json!(pool.map(|pool| pool.0)));
    Ok(match &cell.filler {
        Some(program) => files_of(program)?.map(|files| key.with("program_that_fills", files)),
        None => Some(key),
    })
}

/// With more files in the folder nothing is kept, because looking at all of them before each run would take long.
const MOST_FILES: usize = 1000;

/// Files beside a program that fills which do not shape the data: experiments, whose settings are in the key already, and what programs print (`nohup.out`,
/// `run.log`), which grows while cells run.
const NO_PART: [&str; 3] = ["toml", "log", "out"];

/// A program that fills, and each file of the folder that it is started in (a script may read others): their names, sizes and times of writing, without those
/// of [`NO_PART`] and those into which this process prints. `None`: there are too many files.
///
/// # Errors
/// A file cannot be looked at.
fn files_of(program: &Program) -> Result<Option<Value>, Error> {
    let unread = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| host::Error::path("look at", path, source)
    };
    let entries = fs::read_dir(&program.folder).map_err(unread(&program.folder))?;
    let mut beside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let is_part = |path: &Path| !path.extension().is_some_and(|it| NO_PART.iter().any(|no| it == *no));
    let printed = [fs::metadata("/proc/self/fd/1"), fs::metadata("/proc/self/fd/2")];
    let printed: Vec<(u64, u64)> = printed.into_iter().flatten().map(|it| (it.dev(), it.ino())).collect();
    let is_printed = |path: &Path| path.metadata().is_ok_and(|it| printed.contains(&(it.dev(), it.ino())));
    beside.retain(|path| is_part(path) && path.is_file() && !is_printed(path));
    beside.sort();
    if beside.len() > MOST_FILES {
        return Ok(None);
    }
    let mut told = Vec::new();
    for path in iter::once(&program.program).chain(&beside) {
        let file = path.metadata().map_err(unread(path))?;
        told.push(json!([path.to_string_lossy(), file.size(), format!("{}.{:09}", file.mtime(), file.mtime_nsec())]));
    }
    Ok(Some(json!(told)))
}

impl Lab<'_> {
    /// Looks for the cell's data in the cache, and says what was found.
    pub(crate) fn look_for_kept(&self, installation: &Installation, places: &Places) -> Result<FromCache, Error> {
        let Some(key) = key_of(self.cell, &self.cell.phases[0], installation)? else { return Ok(FromCache::default()) };
        let store = Store::open(places).map_err(sandbox::Error::from)?;
        let verify = self.cell.kept_fills == KeptFills::Verify;
        let found = match self.cell.kept_fills {
            KeptFills::Fresh => {
                store.forget(&key).map_err(sandbox::Error::from)?;
                Looked::Nothing
            }
            _ => store.find(&key, verify, &host::interrupt::requested).map_err(sandbox::Error::from)?,
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
        if self.cell.filler.is_some() && self.cell.fill.size.is_none() {
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn files_that_programs_print_are_no_part_of_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &OsStr, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let program =
            Program { program: write("fill.sh".as_ref(), "1"), folder: folder.path().into(), scripts: Vec::new() };
        write("rows.csv".as_ref(), "1");
        write(OsStr::from_bytes(b"caf\xe9.csv"), "no UTF-8");
        let told = || files_of(&program).unwrap().unwrap();
        let before = told();
        for name in ["nohup.out", "run.log", "other.toml"] {
            write(name.as_ref(), "more");
        }
        assert_eq!(
            (told(), before.as_array().unwrap().len()),
            (before.clone(), 4),
            "the program stands for itself, too"
        );
        write("rows.csv".as_ref(), "1\n2");
        assert_ne!(told(), before);
    }
}
