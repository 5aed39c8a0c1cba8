// SPDX-License-Identifier: Apache-2.0
//! A slow disk without a mount: a library in the programs themselves ([`preload`]), for machines without `/dev/fuse` or without the
//! right to mount. It cannot slow down static programs, or files of file systems that do not distinguish a cached read from other
//! reads. Both are refused before anything is changed.

use crate::Error;
use crate::directory::{canonical_directory, largest_file};
use preload::{Loadable, Map};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwrite};
use std::ffi::OsString;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The map of one directory, and the path of the library.
#[derive(Debug)]
pub(crate) struct Preloaded {
    library: PathBuf,
    map: Map,
}

impl Preloaded {
    pub(crate) fn new(directory: &Path, library: &Path) -> Result<Self, Error> {
        Ok(Self { library: preload::install(library)?, map: Map::create(directory)? })
    }

    pub(crate) fn map(&self) -> Arc<OwnedFd> {
        self.map.descriptor()
    }
}

/// The environment for a program below all of these directories; each map comes with the pid of its keeper.
pub(crate) fn environment(layers: &[(&Preloaded, u32)]) -> Vec<(OsString, OsString)> {
    let Some((first, _)) = layers.first() else { return Vec::new() };
    preload::environment(&first.library, layers.iter().map(|(layer, keeper)| (&layer.map, *keeper)))
}

/// The folder of the library: the same as for fetched servers, which other users execute, too.
pub fn library_folder(places: &host::places::Places) -> PathBuf {
    places.cache.join("preload")
}

pub(crate) fn can_be_loaded(program: &Path) -> bool {
    preload::loadable(program).is_ok_and(|found| found == Loadable::Yes)
}

/// Whether the library can be loaded into this program. Programs that it starts are not checked.
///
/// # Errors
/// [`Error::Refused`]: the program is static, or gains rights when it starts; or it cannot be read.
pub fn check_program(program: &Path) -> Result<(), Error> {
    match preload::loadable(program)? {
        Loadable::Yes => Ok(()),
        Loadable::No { program, why } => Err(Error::Refused {
            what: format!("{} {why}: the preload layer cannot slow it down", program.display()),
            hint: "the FUSE layer can, where there is /dev/fuse and the right to mount (`wringer doctor`); or use a dynamic build".into(),
        }),
    }
}

/// Checks whether the directory's file system distinguishes a read from the page cache from a read from the disk; returns the
/// canonical path. For the check it makes a file without a name there, which is gone at once.
///
/// # Errors
/// [`Error::Refused`]: it does not; or there is no such directory.
pub fn check_directory(directory: &Path) -> Result<PathBuf, Error> {
    let path = canonical_directory(directory)?;
    let refused = |why: &str| Error::Refused {
        what: format!("{}: {why}", path.display()),
        hint: "name a directory on a disk's own file system (ext4, xfs, btrfs): in a container, a volume".into(),
    };
    /// tmpfs and ramfs (statfs(2)).
    const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
    if rustix::fs::statfs(&path).is_ok_and(|found| IN_MEMORY.contains(&found.f_type)) {
        return Err(refused("its file system keeps files in memory: no read reaches a disk"));
    }
    match says_what_is_cached(&path) {
        Some(false) => {
            Err(refused("its file system does not say whether a read comes out of the page cache (RWF_NOWAIT)"))
        }
        _ => Ok(path),
    }
}

/// `None`: no file could be made for the check.
fn says_what_is_cached(directory: &Path) -> Option<bool> {
    let mut page = [7; 4096];
    let unnamed = || {
        let file = open(directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
        pwrite(&file, &page, 0).map(|_| file)
    };
    let existing = || {
        let (file, _) = largest_file(directory, &|_| true).filter(|(_, bytes)| *bytes >= page.len() as u64)?;
        open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    let file = unnamed().ok().or_else(existing)?;
    let found = preadv2(&file, &mut [IoSliceMut::new(&mut page)], 0, ReadWriteFlags::NOWAIT);
    Some(matches!(found, Ok(_) | Err(Errno::AGAIN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_asked_by_a_file_without_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = says_what_is_cached(folder.path());
        assert!(said.is_some());
        assert_eq!(folder.path().read_dir().expect("the folder").count(), 0);
        let gone = Path::new("/dev/shm/no-such");
        assert!(check_directory(gone).expect_err("gone").to_string().contains("there is no directory"));
    }
}
