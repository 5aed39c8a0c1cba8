// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use capability::MallocKind;
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libwringer_asked.so"));

/// Writes the library, which the program carries, into `folder`, which is Wringer's own, unless it is there already. Returns its path.
///
/// # Errors
/// The file cannot be written; or the loader would not find it, because of a character in the path of the folder.
pub fn install(folder: &Path) -> Result<PathBuf, Error> {
    if folder.to_string_lossy().contains(MallocKind::PRELOAD_SEPARATORS) {
        return Err(Error::Split { folder: folder.to_owned() });
    }
    host::files::carried_library(folder, "libwringer_asked", LIBRARY).map_err(|source| Error::Install { source })
}
