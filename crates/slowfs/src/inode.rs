// SPDX-License-Identifier: Apache-2.0
//! Files by identity, not by path: one `O_PATH` descriptor for each inode that the kernel knows.
//!
//! A descriptor keeps its inode alive, so a file that is renamed or unlinked while open stays the same file, and an inode number is never
//! used again while the kernel still holds the old one.

use crate::watched::Watched;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, PoisonError, RwLock};

/// The inode number of the root of a FUSE file system.
pub(crate) const ROOT: u64 = 1;
/// Numbers for inodes that are not on the root's device, or whose own number is [`ROOT`].
const FOREIGN: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Inode {
    path: OwnedFd,
    pub(crate) number: u64,
    pub(crate) watched: Watched,
}

#[derive(Debug)]
pub(crate) struct Table {
    known: RwLock<Known>,
    root_device: u64,
}

#[derive(Debug)]
struct Known {
    inodes: HashMap<u64, Entry>,
    numbers: HashMap<(u64, u64), u64>,
    foreign: u64,
}

#[derive(Debug)]
struct Entry {
    inode: Arc<Inode>,
    identity: (u64, u64),
    /// How many times the kernel was told of the inode. The kernel forgets it the same number of times.
    lookups: u64,
}

impl Table {
    pub(crate) fn new(root: OwnedFd) -> Result<Self> {
        let stat = fstat(&root)?;
        let identity = (stat.st_dev, stat.st_ino);
        let inode = Arc::new(Inode::new(root, ROOT));
        let known = Known {
            inodes: HashMap::from([(ROOT, Entry { inode, identity, lookups: 1 })]),
            numbers: HashMap::from([(identity, ROOT)]),
            foreign: FOREIGN,
        };
        Ok(Self { known: RwLock::new(known), root_device: stat.st_dev })
    }

    pub(crate) fn get(&self, number: u64) -> Result<Arc<Inode>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.inodes.get(&number).map(|entry| entry.inode.clone()).ok_or(Errno::STALE)
    }

    /// Finds `name` in `parent`, and counts that the kernel is told of the inode.
    pub(crate) fn lookup(&self, parent: &Inode, name: &OsStr) -> Result<(u64, Stat)> {
        let path = openat(&parent.path, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&path)?;
        Ok((self.remember(path, &stat), stat))
    }

    fn remember(&self, path: OwnedFd, stat: &Stat) -> u64 {
        let identity = (stat.st_dev, stat.st_ino);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.numbers.get(&identity).copied()
            && let Some(entry) = known.inodes.get_mut(&number)
        {
            entry.lookups += 1;
            return number;
        }
        let number = if stat.st_dev == self.root_device && stat.st_ino > ROOT && stat.st_ino < FOREIGN {
            stat.st_ino
        } else {
            known.foreign += 1;
            known.foreign
        };
        let inode = Arc::new(Inode::new(path, number));
        known.numbers.insert(identity, number);
        known.inodes.insert(number, Entry { inode, identity, lookups: 1 });
        number
    }

    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.inodes.get_mut(&number) else { return };
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups == 0 && number != ROOT {
            let identity = entry.identity;
            known.inodes.remove(&number);
            known.numbers.remove(&identity);
        }
    }
}

impl Inode {
    /// A file that is in no table.
    pub(crate) fn of(path: OwnedFd) -> Self {
        Self::new(path, 0)
    }

    fn new(path: OwnedFd, number: u64) -> Self {
        Self { path, number, watched: Watched::default() }
    }

    pub(crate) fn stat(&self) -> Result<Stat> {
        statat(&self.path, "", AtFlags::EMPTY_PATH)
    }

    /// The magic link that opens this very inode again, whatever its name is now.
    pub(crate) fn link(&self) -> String {
        use rustix::fd::AsRawFd as _;
        format!("/proc/self/fd/{}", self.path.as_raw_fd())
    }

    pub(crate) fn open(&self, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::open(self.link(), flags | OFlags::CLOEXEC, Mode::empty())
    }
}

impl AsFd for Inode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::open;

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn an_inode_outlives_its_names_and_is_forgotten_by_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("one"), "1").unwrap();
        std::fs::hard_link(folder.path().join("one"), folder.path().join("two")).unwrap();
        let table = Table::new(open(folder.path(), OFlags::PATH, Mode::empty()).unwrap()).unwrap();
        let root = table.get(ROOT).unwrap();
        let (one, _) = table.lookup(&root, OsStr::new("one")).unwrap();
        let (two, stat) = table.lookup(&root, OsStr::new("two")).unwrap();
        assert_eq!(one, two, "hard links are one inode");
        assert_eq!(stat.st_nlink, 2);

        std::fs::remove_file(folder.path().join("one")).unwrap();
        std::fs::remove_file(folder.path().join("two")).unwrap();
        let inode = table.get(one).unwrap();
        assert_eq!(inode.stat().unwrap().st_nlink, 0);
        assert!(inode.open(OFlags::RDWR).is_ok());

        table.forget(one, 1);
        assert!(table.get(one).is_ok());
        table.forget(one, 1);
        assert_eq!(table.get(one).unwrap_err(), Errno::STALE);
        assert_eq!(table.lookup(&root, OsStr::new("one")).unwrap_err(), Errno::NOENT);
    }
}
