// SPDX-License-Identifier: Apache-2.0
//! The way through a server's files. Links are not followed, except those that PostgreSQL makes for its tablespaces and its write-ahead log.
//!
//! The server's user may put anything into these folders, and root reads them: each name is opened from its own folder, and never through a link that took its
//! place.

use ledger::FilesSeen;
use probe::residency::{Residency, residency};
use rustix::fs::{
    AtFlags, Dir, FileType, FsWord, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The deepest folder that is entered; servers have three or four levels.
const DEEPEST: u32 = 32;
/// HUGETLBFS_MAGIC of include/uapi/linux/magic.h.
const HUGE_PAGES: FsWord = 0x9584_58f6;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Times since the walk began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// After it no file is looked at.
    pub(super) look: Duration,
    /// After it no file is counted.
    pub(super) count: Duration,
}

/// What was found so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) seen: FilesSeen,
    /// Grows as long as the walk gets on.
    pub(super) steps: u64,
    /// The first reason why a file or a folder cannot be looked at, and how many there are.
    pub(super) refused: Option<String>,
    pub(super) refusals: u64,
    /// Whether the limit was reached.
    pub(super) is_over: bool,
    /// Whether all files are known, looked at or not.
    pub(super) is_counted: bool,
}

/// [`Found`] for two threads: one walks, the other waits.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Found>>);

impl Shared {
    pub(super) fn get(&self) -> Found {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut Found)) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.steps += 1;
        note(&mut found);
    }
}

/// Which links of a folder are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The data directory: `pg_wal` may be a link.
    Data,
    /// `pg_tblspc`: each link is a tablespace.
    Tablespaces,
    /// A tablespace: several servers may use it, each a folder of its own.
    Tablespace,
    Other,
}

pub(super) struct Walk {
    /// The folder `/proc/PID`.
    process: OwnedFd,
    /// The process's root directory.
    root: OwnedFd,
    data: OwnedFd,
    /// PostgreSQL's: `18`.
    version: Option<String>,
    limits: Option<Limits>,
    began: Instant,
    /// Device and inode of each file that was looked at.
    known: BTreeSet<(u64, u64)>,
    found: Shared,
}

impl Walk {
    /// `process`: the folder `/proc/PID` of a process that works in its data directory, as servers do.
    pub(super) fn of(
        process: &Path,
        version: Option<String>,
        limits: Option<Limits>,
        found: Shared,
    ) -> io::Result<Self> {
        let process = rustix::fs::open(process, FOLDER, Mode::empty())?;
        let root = openat(&process, "root", FOLDER, Mode::empty())?;
        let data = without_traces(process.as_fd(), c"cwd", OFlags::empty())?;
        if number(data.as_fd())? == number(root.as_fd())? {
            return Err(io::Error::other("the process works in the root directory, which is no data directory"));
        }
        Ok(Self { process, root, data, version, limits, began: Instant::now(), known: BTreeSet::new(), found })
    }

    /// Looks at all files, first at those that are open: most of what is cached is theirs.
    pub(super) fn all(mut self) -> io::Result<()> {
        self.open_files();
        let data = self.data.try_clone()?;
        self.folder(data, Place::Data, 0);
        let is_counted = !self.is_past(|it| it.count);
        self.found.note(|it| it.is_counted = is_counted);
        Ok(())
    }

    fn open_files(&mut self) {
        let folder = match openat(&self.process, "fd", FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(errno) => return self.refuse(&io::Error::from(errno)),
        };
        let Ok(mut entries) = Dir::read_from(&folder) else { return };
        while let Some(Ok(entry)) = entries.read() {
            let number = entry.file_name();
            let is_file = statat(&folder, number, AtFlags::empty())
                .is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile);
            if is_file && !self.is_past(|it| it.look) {
                self.file(folder.as_fd(), number, OFlags::empty());
            }
        }
    }

    fn folder(&mut self, folder: OwnedFd, place: Place, depth: u32) {
        self.found.note(|_| ());
        let listed = number(folder.as_fd()).and_then(|number| Ok((number.0, Dir::read_from(&folder)?)));
        let (device, mut entries) = match listed {
            Ok(listed) => listed,
            Err(error) => return self.refuse(&error),
        };
        while let Some(entry) = entries.read() {
            if self.is_past(|it| it.count) {
                return self.found.note(|it| it.is_over = true);
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return self.refuse_unless_gone(errno),
            };
            let name = entry.file_name();
            match kind(folder.as_fd(), name, entry.file_type()) {
                FileType::RegularFile if self.known.contains(&(device, entry.ino())) => {}
                FileType::RegularFile if self.is_past(|it| it.look) => self.found.note(|it| {
                    it.is_over = true;
                    it.seen.left += 1;
                }),
                FileType::RegularFile => self.file(folder.as_fd(), name, OFlags::NOFOLLOW),
                FileType::Directory => self.within(folder.as_fd(), name, place, depth),
                FileType::Symlink => self.link(folder.as_fd(), name, place, depth),
                _ => {}
            }
        }
    }

    fn within(&mut self, above: BorrowedFd<'_>, name: &CStr, place: Place, depth: u32) {
        let own = self.version.as_ref().map(|version| format!("PG_{version}_"));
        let inside = match (place, name.to_bytes()) {
            (_, b"." | b"..") => return,
            (Place::Tablespace, name) if own.is_some_and(|own| !name.starts_with(own.as_bytes())) => return,
            (Place::Data, b"pg_tblspc") if self.version.is_some() => Place::Tablespaces,
            _ => Place::Other,
        };
        if depth >= DEEPEST {
            return self.refuse(&format_args!("more than {DEEPEST} folders deep"));
        }
        match without_traces(above, name, OFlags::NOFOLLOW) {
            Ok(folder) => self.folder(folder, inside, depth + 1),
            Err(errno) => self.refuse_unless_gone(errno),
        }
    }

    fn link(&mut self, above: BorrowedFd<'_>, name: &CStr, place: Place, depth: u32) {
        let inside = match (place, name.to_bytes()) {
            (Place::Data, b"pg_wal" | b"pg_xlog") if self.version.is_some() => Place::Other,
            (Place::Tablespaces, _) => Place::Tablespace,
            _ => return,
        };
        match readlinkat(above, name, Vec::new()).and_then(|target| self.in_root(above, &target)) {
            Ok(folder) => self.folder(folder, inside, depth + 1),
            Err(errno) => self.refuse_unless_gone(errno),
        }
    }

    /// The folder that a link means: an absolute path begins at the process's root directory, not at ours.
    fn in_root(&self, above: BorrowedFd<'_>, target: &CStr) -> rustix::io::Result<OwnedFd> {
        if target.to_bytes().starts_with(b"/") {
            return openat2(&self.root, target, FOLDER, Mode::empty(), ResolveFlags::IN_ROOT);
        }
        openat(above, target, FOLDER, Mode::empty())
    }

    fn file(&mut self, above: BorrowedFd<'_>, name: &CStr, flags: OFlags) {
        let opened = openat(above, name, FILE | flags, Mode::empty());
        let file = match opened {
            Ok(file) => File::from(file),
            Err(errno) => return self.refuse_unless_gone(errno),
        };
        let has_page_cache = fstatfs(&file).is_ok_and(|it| it.f_type != HUGE_PAGES);
        let Ok(metadata) = file.metadata() else { return };
        if !has_page_cache || !metadata.is_file() || !self.known.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        let cached = match metadata.len() {
            0 => Ok(None),
            _ => residency(&file, Path::new(OsStr::from_bytes(name.to_bytes()))).map(Some),
        };
        match cached {
            Ok(cached) => self.found.note(|it| add(&mut it.seen, cached)),
            Err(probe::Error::File { source, .. }) => self.refuse(&source),
            Err(error) => self.refuse(&error),
        }
    }

    /// What has gone meanwhile, or whose name is something else now, is not the server's; nor is a file of `/proc` whose process has ended (`ESRCH`).
    fn refuse_unless_gone(&self, errno: Errno) {
        if ![Errno::NOENT, Errno::LOOP, Errno::NOTDIR, Errno::NXIO, Errno::SRCH].contains(&errno) {
            self.refuse(&io::Error::from(errno));
        }
    }

    fn refuse(&self, error: &dyn Display) {
        self.found.note(|it| {
            it.refusals += 1;
            it.refused.get_or_insert_with(|| error.to_string());
        });
    }

    fn is_past(&self, limit: fn(&Limits) -> Duration) -> bool {
        self.limits.as_ref().is_some_and(|limits| self.began.elapsed() >= limit(limits))
    }
}

fn add(seen: &mut FilesSeen, cached: Option<Residency>) {
    seen.looked_at += 1;
    if let Some(it) = cached {
        seen.cached += it.cached_bytes();
        seen.dirty += it.dirty_pages.unwrap_or(0) * it.page_bytes;
    }
}

/// Opens a folder so that listing it does not change its access time; only its owner and root may.
fn without_traces(above: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = FOLDER | flags;
    match openat(above, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(above, name, flags, Mode::empty()),
        other => other,
    }
}

/// Device and inode.
fn number(file: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let it = rustix::fs::fstat(file)?;
    Ok((it.st_dev, it.st_ino))
}

/// Some file systems do not tell the kind of an entry when they list it.
fn kind(above: BorrowedFd<'_>, name: &CStr, told: FileType) -> FileType {
    match told {
        FileType::Unknown => {
            statat(above, name, AtFlags::SYMLINK_NOFOLLOW).map_or(told, |it| FileType::from_raw_mode(it.st_mode))
        }
        told => told,
    }
}
