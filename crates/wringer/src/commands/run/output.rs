// SPDX-License-Identifier: Apache-2.0
//! The folder that a run leaves behind: `recording.sqlite`, `result.json`, `report.html`.

use crate::exit::{Exit, Failure};
use host::files;
use host::places::Places;
use std::fs;
use std::path::{Path, PathBuf};

pub const RECORDING: &str = "recording.sqlite";
pub const RESULT: &str = "result.json";
pub const REPORT: &str = "report.html";

/// What may stand in a folder of results; anything else is somebody's own.
const OURS: [&str; 5] = [RECORDING, "recording.sqlite-wal", "recording.sqlite-shm", RESULT, REPORT];

#[derive(Debug)]
pub struct Output {
    pub folder: PathBuf,
}

impl Output {
    /// Looks before anything is made: `asked` must be new, empty, or with `force` hold nothing but an earlier run's results.
    ///
    /// # Errors
    /// Exit code 3: something else is in it.
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
        Ok(Self { folder })
    }

    /// Makes the folder, without an earlier run's results.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn prepare(&self) -> Result<(), Failure> {
        files::private_dir(&self.folder, 0o755)?;
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
