// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use capability::MallocKind;
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libwringer_asked.so"));

/// Whether the loader would find the library in this folder.
///
/// # Errors
/// It would not, because of a character in the folder's path.
pub fn check_folder(folder: &Path) -> Result<(), Error> {
    match folder.to_string_lossy().contains(MallocKind::PRELOAD_SEPARATORS) {
        true => Err(Error::Split { folder: folder.to_owned() }),
        false => Ok(()),
    }
}

/// Writes the library, which the program carries, into `folder`, which is Wringer's own, unless it is there already. Returns its path.
///
/// # Errors
/// The file cannot be written; or as for [`check_folder`].
pub fn install(folder: &Path) -> Result<PathBuf, Error> {
    check_folder(folder)?;
    host::files::carried_library(folder, "libwringer_asked", LIBRARY).map_err(|source| Error::Install { source })
}
