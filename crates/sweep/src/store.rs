// SPDX-License-Identifier: Apache-2.0
//! The folder of a sweep: who may write into it, and its `sweep.json`.

use crate::error::Error;
use crate::state::{SCHEMA, STATE_FILE, State};
use host::files;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Recordings lie below, each cell's in a folder of its own.
pub(crate) const CELLS: &str = "cells";
/// Files that are written as a whole, each beside its last version. The caller writes the reports.
const WRITTEN: [&str; 3] = [STATE_FILE, "report.html", "result.json"];

/// A folder that this process alone writes into.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) folder: PathBuf,
    _lock: Option<File>,
}

impl Store {
    /// Makes the folder where it is missing, and locks it.
    ///
    /// # Errors
    /// The folder holds files, and no sweep; or another process has locked it. Further files beside a sweep stay as they are.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let names = names_in(folder)?;
        files::own_dir(folder, 0o755)?;
        let failed = |source| Error::Read { path: folder.to_owned(), source };
        let file = File::open(folder).map_err(failed)?;
        let lock = match file.try_lock() {
            Ok(()) => Some(file),
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { folder: folder.to_owned() }),
            // a file system without locks: the host's lock on measuring still keeps others out
            Err(TryLockError::Error(_)) => None,
        };
        // left by a process that was killed while it wrote
        for name in names.iter().filter(|name| is_left_over(name)) {
            files::remove_file(&folder.join(name))?;
        }
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    /// Writes the state, whole or not at all; it is on the disk when this returns.
    pub(crate) fn write(&self, state: &State) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(state)?;
        failpoint("before the state is written");
        files::write_atomic(&self.folder.join(STATE_FILE), &text, 0o644)?;
        failpoint("after the state was written");
        Ok(())
    }
}

/// The files of a folder that is empty, or holds a sweep.
fn names_in(folder: &Path) -> Result<Vec<String>, Error> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let has_sweep = names.iter().any(|name| name == STATE_FILE || is_left_over(name));
    if has_sweep || names.is_empty() { Ok(names) } else { Err(Error::NotEmpty { folder: folder.to_owned() }) }
}

/// The name of a file that was written beside its last version, and not renamed (`host::files::write_atomic`).
fn is_left_over(name: &str) -> bool {
    let written = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
    let written = written.and_then(|name| name.rsplit_once('.'));
    written.is_some_and(|(name, pid)| WRITTEN.contains(&name) && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The state in a folder. `None`: there is no sweep.
///
/// # Errors
/// The file cannot be read, or is not a sweep's state.
pub fn read(folder: &Path) -> Result<Option<State>, Error> {
    let path = folder.join(STATE_FILE);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|source| Error::Read { path: path.clone(), source })?,
    };
    let damaged = |why: serde_json::Error| Error::Damaged { path: path.clone(), why: why.to_string() };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
    match value["schema"].as_u64() {
        Some(schema) if schema > u64::from(SCHEMA) => Err(Error::Newer { path, schema }),
        Some(_) => serde_json::from_value(value).map(Some).map_err(damaged),
        None => Err(Error::Damaged { path, why: "it has no \"schema\"".into() }),
    }
}

/// The state in a folder in which a sweep of this name would run, or go on; changes nothing. `None`: it would be the first call.
///
/// # Errors
/// Those with which the sweep would refuse the folder.
pub fn read_for(folder: &Path, name: &str) -> Result<Option<State>, Error> {
    names_in(folder)?;
    let before = read(folder)?;
    match before.as_ref().filter(|before| before.name != name) {
        Some(other) => {
            let (theirs, ours) = (other.name.clone(), name.to_owned());
            Err(Error::Another { folder: folder.to_owned(), theirs, ours })
        }
        None => Ok(before),
    }
}

/// Whether some process runs the sweep in this folder now.
pub fn is_running(folder: &Path) -> bool {
    let locked = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    File::open(folder).is_ok_and(locked)
}

/// Bytes that all files below a folder take on the disk.
pub(crate) fn size(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(one).sum()
}

/// `WRINGER_CRASH_AT_STATE=<n>`: this process ends itself with SIGKILL when it comes here for the n-th time, counted from 1.
#[cfg(feature = "failpoints")]
fn failpoint(place: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let reached = REACHED.fetch_add(1, Ordering::SeqCst) + 1;
    let wanted = std::env::var("WRINGER_CRASH_AT_STATE").ok().and_then(|text| text.parse::<u64>().ok());
    if wanted == Some(reached) {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("killed {place}\n").as_bytes());
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "failpoints"))]
fn failpoint(_place: &str) {}
