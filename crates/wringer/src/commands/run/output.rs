// SPDX-License-Identifier: Apache-2.0
//! The folder of a run's results: `recording.sqlite`, `result.json`, `report.html`.

use crate::exit::{Exit, Failure};
use host::files::{self, NewFile};
use host::places::Places;
use rustix::fs::Access;
use std::cell::{Cell, OnceCell};
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
    /// It may hold an earlier run's results.
    force: bool,
    /// The folder, locked as long as a run writes into it.
    ours: OnceCell<File>,
    is_prepared: Cell<bool>,
    is_private: bool,
}

impl Output {
    /// Checks the folder before anything is made: `asked` must be new or empty; with `force` it may also hold an earlier run's results.
    ///
    /// # Errors
    /// Exit code 3: it holds other files, it cannot be written, or another run writes into it now.
    pub fn check(asked: Option<&Path>, force: bool, places: &Places, run_id_like: &str) -> Result<Self, Failure> {
        let folder = asked.map_or_else(|| places.recordings.join(run_id_like), Path::to_owned);
        refuse_filled(&folder, force)?;
        refuse_unwritable(&folder)?;
        let output = Self { folder, force, ours: OnceCell::new(), is_prepared: Cell::new(false), is_private: false };
        if output.folder.exists() {
            output.lock()?;
        }
        Ok(output)
    }

    /// Only this user may read the results: a server that is watched may be somebody else's, and what it was asked is nobody else's matter.
    #[must_use]
    pub fn private(self) -> Self {
        Self { is_private: true, ..self }
    }

    /// The mode of the files of results, of which the user's umask may take away.
    pub fn mode(&self) -> u32 {
        if self.is_private { 0o600 } else { 0o644 }
    }

    /// Whether the folder has the results of this run, or is about to: before that, it may have those of an earlier one.
    pub fn is_prepared(&self) -> bool {
        self.is_prepared.get()
    }

    /// Without the lock, a second run would remove the open files of the first run.
    fn lock(&self) -> Result<(), Failure> {
        if self.ours.get().is_none() {
            let _ = self.ours.set(lock_folder(&self.folder)?);
        }
        Ok(())
    }

    /// Makes the folder, without an earlier run's results.
    ///
    /// # Errors
    /// The folder cannot be made or written, or another run has locked it first.
    pub fn prepare(&self) -> Result<(), Failure> {
        make_folder(&self.folder, if self.is_private { 0o700 } else { 0o755 })?;
        if self.ours.get().is_none() {
            self.lock()?;
            // the folder was made after the check, perhaps by another run, which has ended
            refuse_filled(&self.folder, self.force)?;
        }
        for name in all_names_in(&self.folder).iter().filter(|name| is_ours(name)) {
            files::remove_file(&self.folder.join(name))?;
        }
        self.is_prepared.set(true);
        Ok(())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Locks a folder of results as long as the returned file is open.
///
/// # Errors
/// Exit code 3: another run has locked it.
pub fn lock_folder(path: &Path) -> Result<File, Failure> {
    let folder = File::open(path).map_err(|error| {
        Failure::new(Exit::Missing, anyhow::Error::new(error).context(format!("open {}", path.display())))
    })?;
    match folder.try_lock() {
        // on a file system without locks, a second run is not noticed
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(folder),
        Err(fs::TryLockError::WouldBlock) => {
            let message = format!("another run writes its results into {} now", path.display());
            Err(Failure::message(Exit::Missing, message).hint("wait for it, or name another folder with --to"))
        }
    }
}

/// # Errors
/// Exit code 3: it holds other files, or, without `force`, an earlier run's results.
fn refuse_filled(folder: &Path, force: bool) -> Result<(), Failure> {
    let names = names_in(folder);
    let foreign = names.iter().any(|name| !is_ours(name));
    if !foreign && (names.is_empty() || force) {
        return Ok(());
    }
    let failure = Failure::message(Exit::Missing, format!("{} is not empty", folder.display()));
    Err(match foreign {
        true => failure.hint("name another folder with --to"),
        false => failure.hint("--force writes over the results of the earlier run"),
    })
}

/// Also the half of a file of results that a killed run left.
fn is_ours(name: &str) -> bool {
    OURS.contains(&name) || OURS.iter().any(|ours| NewFile::is_beside(ours, name))
}

/// The names in the folder, without our files that hold nothing: a run on a full disk leaves such a file, and must not be in the way of the next.
fn names_in(folder: &Path) -> Vec<String> {
    let is_void = |name: &str| folder.join(name).symlink_metadata().is_ok_and(|it| it.is_file() && it.len() == 0);
    all_names_in(folder).into_iter().filter(|name| !is_ours(name) || !is_void(name)).collect()
}

fn all_names_in(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    fs::read_dir(folder).map(|entries| entries.flatten().map(name).collect()).unwrap_or_default()
}

/// Checks that the folder, or the nearest existing folder above it, can be written. Call this before a server is fetched and a table filled.
///
/// # Errors
/// Exit code 3: the folder cannot be written.
pub fn refuse_unwritable(folder: &Path) -> Result<(), Failure> {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(there) = absolute.ancestors().find(|path| path.exists()) else { return Ok(()) };
    let why = match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !there.is_dir() => "it is not a folder".to_owned(),
        Ok(()) if there != absolute || files::is_own_folder(there).unwrap_or(false) => return Ok(()),
        Ok(()) => "it is not a folder of this user".to_owned(),
        Err(errno) => std::io::Error::from(errno).to_string(),
    };
    Err(no_results_in(folder, &format!("{}: {why}", there.display())))
}

/// Makes a folder for results with this mode, where it is missing.
///
/// # Errors
/// Exit code 3: it cannot be made or written.
pub fn make_folder(folder: &Path, mode: u32) -> Result<(), Failure> {
    refuse_unwritable(folder)?;
    // where root may write, a file system may still take no folder, as /proc does
    files::own_dir(folder, mode).map_err(|error| no_results_in(folder, &host::chain(&error)))
}

fn no_results_in(folder: &Path, why: &str) -> Failure {
    let message = format!("no results can be written into {}: {why}", folder.display());
    Failure::message(Exit::Missing, message).hint("name a folder that you may write with --to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_on_a_full_disk_left_is_not_in_the_way() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("out");
        let write =
            |name: &str, text: &str| files::write_atomic(&folder.join(name), text.as_bytes(), 0o644).expect("writes");
        let check = || Output::check(Some(&folder), false, &Places::below(home.path()), "a run");
        files::private_dir(&folder, 0o755).expect("makes");
        write(RECORDING, "");
        check().expect("a recording of 0 bytes is none").prepare().expect("prepares");
        assert!(names_in(&folder).is_empty() && !folder.join(RECORDING).exists(), "the next run makes its own");
        write(RECORDING, "SQLite format 3");
        assert_eq!(check().expect_err("results are kept").exit, Exit::Missing);
        files::remove_file(&folder.join(RECORDING)).expect("removes");
        write(RECORDING, "");
        write(".result.json.4711.new", "{");
        write(".report.html.4711.new", "");
        assert!(check().is_err(), "what a killed run left may have its results");
        write(".result.json.of mine.new", "{");
        let forced = || Output::check(Some(&folder), true, &Places::below(home.path()), "a run");
        assert!(forced().is_err(), "a file of the user's");
        files::remove_file(&folder.join(".result.json.of mine.new")).expect("removes");
        forced().expect("may be replaced").prepare().expect("prepares");
        assert_eq!(fs::read_dir(&folder).expect("lists").count(), 0, "no half file is left");
        write("of the user", "");
        assert_eq!(check().expect_err("an empty file of the user's is kept, too").exit, Exit::Missing);
    }
}
