// SPDX-License-Identifier: Apache-2.0
//! Writes the library, which the program carries, to a file that a dynamic linker can load.

use crate::Error;
use host::files;
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libwringer_asked.so"));

/// The name as `/proc/PID/maps` shows it; a hash of the bytes stands behind it, so that each release has its own file.
pub const LIBRARY_NAME: &str = "libwringer_asked";

/// Writes the library into `folder`, which is Wringer's own, readable for everybody, unless it is there already. Returns its path.
///
/// # Errors
/// The file cannot be written.
pub fn install(folder: &Path) -> Result<PathBuf, Error> {
    let path = folder.join(format!("{LIBRARY_NAME}-{:016x}.so", fingerprint(LIBRARY)));
    let failed = |source| Error::Install { path: path.clone(), source };
    if std::fs::read(&path).is_ok_and(|found| found == LIBRARY) {
        return Ok(path);
    }
    files::private_dir(folder, 0o755).map_err(failed)?;
    files::write_atomic(&path, LIBRARY, 0o644).map_err(failed)?;
    Ok(path)
}

/// FNV-1a, to tell releases apart; an existing file is compared byte by byte.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
