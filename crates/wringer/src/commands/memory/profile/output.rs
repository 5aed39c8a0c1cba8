// SPDX-License-Identifier: Apache-2.0
//! The folder of a profile.

use crate::commands::run::{lock_folder, make_folder};
use crate::exit::{Exit, Failure};
use host::clock::unix_seconds;
use host::places::Places;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The folder for the profiles: it is made where it is missing, and must be empty. It is locked as long as the returned file is open.
///
/// # Errors
/// Exit code 3: it holds files, cannot be written, or another command writes into it.
pub(super) fn folder(asked: Option<&Path>, sandbox: &str, places: &Places) -> Result<(PathBuf, File), Failure> {
    let own = || places.recordings.join(format!("profile-{sandbox}-{}-{:x}", unix_seconds(), std::process::id()));
    let folder = asked.map_or_else(own, Path::to_owned);
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    refuse_filled(&folder)?;
    make_folder(&folder, 0o755)?;
    let lock = lock_folder(&folder)?;
    // another command may have written into it until then, and have ended
    refuse_filled(&folder)?;
    Ok((folder, lock))
}

fn refuse_filled(folder: &Path) -> Result<(), Failure> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let failure = Failure::message(Exit::Missing, format!("{} is not empty", folder.display()));
        return Err(failure.hint("name another folder with --to"));
    }
    Ok(())
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
