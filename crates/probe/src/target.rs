// SPDX-License-Identifier: Apache-2.0
//! The file to probe: a given one, the largest below a folder, or a new one without a name.

use crate::Error;
use crate::evict::evict;
use crate::scramble::fill;
use crate::tree;
use rustix::fs::OFlags;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use units::Bytes;

/// An opened file.
#[derive(Debug)]
pub struct Target {
    pub file: File,
    /// For a new file: its folder.
    pub path: PathBuf,
    pub size_bytes: u64,
    /// The file is new, has no name, disappears with this process, and may be written.
    pub own: bool,
    /// Bytes in holes, or packed by the file system: no disk is read for them.
    pub unallocated_bytes: u64,
}

/// The mount on which a path lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub file_system: String,
    pub device: String,
    /// As text; bytes that are no text are replaced.
    pub mounted_at: String,
}

impl Target {
    /// Opens a file, or the largest one below a folder. Links are followed, because the user named the path.
    ///
    /// # Errors
    /// It cannot be opened; the folder has no file; it is no ordinary file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(path).map_err(Error::file("look at", path))?;
        let path = if metadata.is_dir() { tree::largest(path)? } else { path.to_owned() };
        // Before it is opened: opening a pipe would wait for its writer.
        if !metadata.is_dir() && !metadata.is_file() {
            let hint = "name a file or a folder; for a whole device, a file on it";
            return Err(Error::unfit(&path, "it is no ordinary file", hint));
        }
        let file = File::open(&path).map_err(Error::file("open", &path))?;
        let metadata = file.metadata().map_err(Error::file("look at", &path))?;
        let unallocated_bytes = metadata.len().saturating_sub(metadata.blocks() * 512);
        Ok(Self { file, path, size_bytes: metadata.len(), own: false, unallocated_bytes })
    }

    /// Makes a file without a name in `folder`. Nobody else can open it, and it disappears when this process ends, however it ends.
    /// The file is written in full, synced, and cold: no read is answered from an extent that was never written.
    ///
    /// # Errors
    /// There is no room: see [`stays_free`]. Or the file cannot be made.
    pub fn create(folder: &Path, size_bytes: u64, progress: &mut dyn FnMut(u64)) -> Result<Self, Error> {
        check_room(folder, size_bytes)?;
        let file = host::files::nameless(folder)?;
        let mut memory = vec![0; 1 << 20];
        let mut written = 0;
        while written < size_bytes && !host::interrupt::requested() {
            fill(&mut memory, written + 1);
            let length = usize::try_from(size_bytes - written).unwrap_or(usize::MAX).min(memory.len());
            file.write_all_at(&memory[..length], written).map_err(Error::file("write a file in", folder))?;
            written += length as u64;
            progress(written);
        }
        file.sync_data().map_err(Error::file("sync a file in", folder))?;
        evict(&file, folder)?;
        Ok(Self { file, path: folder.to_owned(), size_bytes: written, own: true, unallocated_bytes: 0 })
    }

    /// Lets reads and writes bypass the page cache from now on (open(2), `O_DIRECT`).
    ///
    /// # Errors
    /// The file system has no direct I/O.
    pub fn go_direct(&self) -> Result<(), Error> {
        let set = rustix::fs::fcntl_getfl(&self.file)
            .and_then(|flags| rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT));
        set.map_err(|_| Error::unfit(&self.path, "its file system has no direct I/O", "add --cached"))
    }

    /// The file system of the file. `None` when the mount table does not show it.
    pub fn place(&self) -> Option<Place> {
        let path = self.path.canonicalize().ok()?;
        let mounts = host::change::mounts().ok()?;
        // The longest mount point; of several mounts at one point the last, which covers the others.
        let mount = mounts.into_iter().filter(|mount| path.starts_with(&mount.target));
        let mount = mount.max_by_key(|mount| mount.target.as_os_str().len())?;
        let mounted_at = mount.target.to_string_lossy().into_owned();
        Some(Place { file_system: mount.fstype, device: mount.source, mounted_at })
    }
}

fn check_room(folder: &Path, size_bytes: u64) -> Result<(), Error> {
    let state = rustix::fs::statvfs(folder).map_err(|errno| Error::file("look at", folder)(errno.into()))?;
    let (available, total) = (state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize);
    let keep = stays_free(available, total);
    if available.saturating_sub(size_bytes) >= keep {
        return Ok(());
    }
    let why = format!("{} are available, and {} of them stay free", Bytes(available), Bytes(keep));
    Err(Error::unfit(folder, why, "create a smaller file, or elsewhere"))
}

/// The bytes of a file system that a file of ours leaves to others: 5 % of it, but of what is available at most a half, so that a small file fits on a disk
/// that is nearly full; and at least 1 GiB.
fn stays_free(available: u64, total: u64) -> u64 {
    (total / 20).min(available / 2).max(Bytes::GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_takes_a_small_file() {
        const GIB: u64 = Bytes::GIB;
        assert_eq!(stays_free(200 * GIB, 400 * GIB), 20 * GIB);
        assert_eq!(stays_free(12 * GIB, 400 * GIB), 6 * GIB, "less is available than 5 %");
        assert_eq!(stays_free(10 * GIB, 10 * GIB), GIB);
        assert_eq!(stays_free(1 << 20, 400 * GIB), GIB, "nothing fits");
    }
}
