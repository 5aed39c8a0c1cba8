// SPDX-License-Identifier: Apache-2.0
//! The folder of a run's results: `recording.sqlite`, `result.json`, `report.html`.

use crate::exit::{Exit, Failure};
use host::files;
use host::places::Places;
use rustix::fs::Access;
use rustix::io::Errno;
use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub const RECORDING: &str = "recording.sqlite";
pub const RESULT: &str = "result.json";
pub const REPORT: &str = "report.html";

/// The files that a folder of results may hold; other files belong to the user.
const OURS: [&str; 5] = [RECORDING, "recording.sqlite-wal", "recording.sqlite-shm", RESULT, REPORT];

#[derive(Debug)]
pub struct Output {
    pub folder: PathBuf,
    /// The folder, locked as long as a run writes into it.
    ours: OnceCell<File>,
}

impl Output {
    /// Checks the folder before anything is made: `asked` must be new or empty; with `force` it may also hold an earlier run's results.
    ///
    /// # Errors
    /// Exit code 3: it holds other files, it cannot be written, or another run writes into it now.
    pub fn check(asked: Option<&Path>, force: bool, places: &Places, run_id_like: &str) -> Result<Self, Failure> {
        let folder = asked.map_or_else(|| places.recordings.join(run_id_like), Path::to_owned);
        let names: Vec<_> = fs::read_dir(&folder)
            .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        let foreign = names.iter().any(|name| !OURS.contains(&name.as_str()));
        if foreign || (!names.is_empty() && !force) {
            let failure = Failure::message(Exit::Missing, format!("{} is not empty", folder.display()));
            return Err(match foreign {
                true => failure.hint("name another folder with --to"),
                false => failure.hint("--force writes over the results of the earlier run"),
            });
        }
        refuse_unwritable(&folder)?;
        let output = Self { folder, ours: OnceCell::new() };
        if output.folder.exists() {
            output.lock()?;
        }
        Ok(output)
    }

    /// Locks the folder: without the lock, a second run would remove the open files of the first run.
    fn lock(&self) -> Result<(), Failure> {
        if self.ours.get().is_some() {
            return Ok(());
        }
        let folder = File::open(&self.folder).map_err(|error| {
            Failure::new(Exit::Missing, anyhow::Error::new(error).context(format!("open {}", self.folder.display())))
        })?;
        match folder.try_lock() {
            // on a file system without locks, a second run is not noticed
            Ok(()) | Err(fs::TryLockError::Error(_)) => {
                let _ = self.ours.set(folder);
                Ok(())
            }
            Err(fs::TryLockError::WouldBlock) => {
                let message = format!("another run writes its results into {} now", self.folder.display());
                Err(Failure::message(Exit::Missing, message).hint("wait for it, or name another folder with --to"))
            }
        }
    }

    /// Makes the folder, without an earlier run's results.
    ///
    /// # Errors
    /// The folder cannot be made or written, or another run has locked it first.
    pub fn prepare(&self) -> Result<(), Failure> {
        files::private_dir(&self.folder, 0o755)?;
        self.lock()?;
        for name in OURS {
            let path = self.folder.join(name);
            if path.exists() {
                files::remove_file(&path)?;
            }
        }
        Ok(())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Checks that the folder, or the nearest existing folder above it, can be written. Call this before a server is fetched and a table filled.
///
/// # Errors
/// Exit code 3: the folder cannot be written.
pub fn refuse_unwritable(folder: &Path) -> Result<(), Failure> {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(there) = absolute.ancestors().find(|path| path.exists()) else { return Ok(()) };
    let why = match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => return Ok(()),
        Ok(()) | Err(Errno::NOTDIR) => "it is not a folder".to_owned(),
        Err(errno) => std::io::Error::from(errno).to_string(),
    };
    let message = format!("no results can be written into {}: {}: {why}", folder.display(), there.display());
    Err(Failure::message(Exit::Missing, message).hint("name a folder that you may write with --to"))
}
