// SPDX-License-Identifier: Apache-2.0
//! The folder of a profile.

use crate::commands::run::refuse_unwritable;
use crate::exit::{Exit, Failure};
use host::clock::unix_seconds;
use host::files;
use host::places::Places;
use std::path::{Path, PathBuf};

/// The folder for the profiles: it is made where it is missing, and must be empty.
///
/// # Errors
/// Exit code 3: it holds files, or cannot be written.
pub(super) fn folder(asked: Option<&Path>, sandbox: &str, places: &Places) -> Result<PathBuf, Failure> {
    let own = || places.recordings.join(format!("profile-{sandbox}-{}-{:x}", unix_seconds(), std::process::id()));
    let folder = asked.map_or_else(own, Path::to_owned);
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    if std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let failure = Failure::message(Exit::Missing, format!("{} is not empty", folder.display()));
        return Err(failure.hint("name another folder with --to"));
    }
    refuse_unwritable(&folder)?;
    files::own_dir(&folder, 0o755).map_err(|error| Failure::new(Exit::Missing, error))?;
    Ok(folder)
}

/// # Errors
/// Exit code 3: there is no such folder.
pub(super) fn readable_folder(path: &Path) -> Result<PathBuf, Failure> {
    let real = path.canonicalize().ok().filter(|it| it.is_dir());
    real.ok_or_else(|| {
        Failure::message(Exit::Missing, format!("--debug-files: there is no folder {}", path.display()))
            .hint("name the folder usr/lib/debug of an unpacked package NAME-dbgsym; it has a folder .build-id")
    })
}
