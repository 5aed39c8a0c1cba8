// SPDX-License-Identifier: Apache-2.0
use std::fs::{self, File};
use std::path::Path;

/// Takes the files below `folder` out of the page cache, as far as they are clean: pages that are in it are a free hit for a
/// server in a cgroup. Needs no root for one's own files (posix_fadvise(2), `POSIX_FADV_DONTNEED`).
pub fn evict(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => evict(&entry.path()),
            Ok(kind) if kind.is_file() => {
                if let Ok(file) = File::open(entry.path()) {
                    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
                }
            }
            _ => {}
        }
    }
}
