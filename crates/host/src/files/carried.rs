// SPDX-License-Identifier: Apache-2.0
//! Libraries whose bytes the program carries, written to files that a dynamic linker can load.

use super::{check_usable, private_dir, write_atomic};
use crate::Error;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};

/// Writes the library into `folder`, which is Wringer's own, readable for everybody, unless it is there already. Returns its path. A hash of the bytes
/// follows `name` in the file's name, so that each release has its own file.
///
/// # Errors
/// The file cannot be written. For root: another user may write in the folder.
pub fn carried_library(folder: &Path, name: &str, library: &[u8]) -> Result<PathBuf, Error> {
    check_usable(folder)?;
    let path = folder.join(format!("{name}-{:016x}.so", fingerprint(library)));
    if std::fs::read(&path).is_ok_and(|found| found == library) {
        return Ok(path);
    }
    // servers run as other users, and must pass through the cache, whatever the umask
    if let Some(cache) = folder.parent().filter(|cache| !cache.exists()) {
        private_dir(cache, 0o755)?;
    }
    private_dir(folder, 0o755)?;
    write_atomic(&path, library, 0o644)?;
    Ok(path)
}

/// Tells releases apart. It need not be the same in each build: an existing file is compared byte by byte.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_written_once_and_again_where_its_file_was_changed() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("library");
        let write = |library: &[u8]| carried_library(&folder, "libwringer_test", library).expect("written");
        let path = write(b"one");
        let text = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(text.starts_with("libwringer_test-") && text.ends_with(".so"), "{text}");
        let made = || std::fs::metadata(&path).and_then(|it| it.modified()).expect("a time");
        let before = made();
        assert_eq!((write(b"one"), made()), (path.clone(), before), "not written again");
        assert_ne!(write(b"two"), path);
        write_atomic(&path, b"damaged", 0o644).expect("damaged");
        assert_eq!(write(b"one"), path);
        assert_eq!(std::fs::read(&path).expect("readable"), b"one");
    }
}
