// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libwringer_preload.so"));

/// Writes the library, which the program carries, into `folder`, which is Wringer's own, unless it is there already. Returns its path.
///
/// # Errors
/// The file cannot be written.
pub fn install(folder: &Path) -> Result<PathBuf, Error> {
    host::files::carried_library(folder, "libwringer_preload", LIBRARY).map_err(|source| Error::Install { source })
}
