// SPDX-License-Identifier: Apache-2.0
//! Files and folders below a folder. Each is opened relative to the folder above it and through no link: so a user who may write there cannot put
//! another file under a name meanwhile.

use crate::Error;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, open, openat, statat};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// One file or folder, as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// The path below the root.
    pub path: PathBuf,
    pub is_folder: bool,
    /// The bits of permission.
    pub mode: u32,
    pub size_bytes: u64,
    /// Bytes that it takes on the disk.
    pub taken_bytes: u64,
    pub inode: u64,
    /// Seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    pub changed: (i64, i64),
}

impl Node {
    fn of(path: PathBuf, stat: &Stat) -> Self {
        Self {
            path,
            is_folder: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            mode: stat.st_mode & 0o777,
            size_bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            taken_bytes: u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512),
            inode: stat.st_ino,
            modified: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
            changed: (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default()),
        }
    }
}

/// The most levels of folders that are read: more than any server has.
const DEEPEST: usize = 32;

/// A folder; names are looked up below it.
pub(crate) struct Root {
    path: PathBuf,
    folder: OwnedFd,
}

impl Root {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty()).map_err(|errno| Error::path("open", path, errno))?;
        Ok(Self { path: path.into(), folder })
    }

    /// One file directly in it.
    ///
    /// # Errors
    /// It is not there.
    pub(crate) fn node(&self, name: &str) -> Result<Node, Error> {
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| Error::path("look at", self.path.join(name), errno))?;
        Ok(Node::of(name.into(), &stat))
    }

    /// Everything below it, sorted by name; a folder stands before its content.
    ///
    /// # Errors
    /// [`Error::Unfit`]: a link, a socket or a device is there.
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        self.walk(&self.folder, Path::new(""), 0, &mut nodes)?;
        Ok(nodes)
    }

    fn walk(&self, folder: impl AsFd, below: &Path, depth: usize, nodes: &mut Vec<Node>) -> Result<(), Error> {
        let fail = |errno| Error::path("read folder", self.path.join(below), errno);
        let unfit = |name: &Path, why| Err(Error::Unfit { path: self.path.join(name), why });
        if depth > DEEPEST {
            return unfit(below, "its folders are too deep");
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let path = below.join(std::ffi::OsStr::from_bytes(&name));
            let Ok(text) = std::str::from_utf8(&name) else { return unfit(&path, "its name is no text") };
            let stat = statat(&folder, text, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| Error::path("look at", self.path.join(&path), errno))?;
            let node = Node::of(path.clone(), &stat);
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    nodes.push(node);
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let inner = openat(&folder, text, flags, Mode::empty())
                        .map_err(|errno| Error::path("open", self.path.join(&path), errno))?;
                    self.walk(inner, &path, depth.saturating_add(1), nodes)?;
                }
                FileType::RegularFile => nodes.push(node),
                FileType::Symlink => {
                    return unfit(&path, "it is a link, and what it leads to is not in the data directory");
                }
                _ => return unfit(&path, "it is neither a file nor a folder"),
            }
        }
        Ok(())
    }

    /// Opens a file below it for reading.
    pub(crate) fn file(&self, path: &Path) -> Result<File, Error> {
        // O_NONBLOCK: a FIFO in the place of a file does not block this process
        self.descend(path, OFlags::RDONLY | OFlags::NONBLOCK).map(File::from)
    }

    /// Opens a folder below it; the empty path is the root itself.
    pub(crate) fn folder(&self, path: &Path) -> Result<File, Error> {
        self.descend(path, OFlags::RDONLY | OFlags::DIRECTORY).map(File::from)
    }

    fn descend(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Error> {
        let fail = |errno| Error::path("open", self.path.join(path), errno);
        let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut here = openat(&self.folder, ".", through, Mode::empty()).map_err(fail)?;
        let mut parts = path.iter().peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let how = if is_last { flags | OFlags::NOFOLLOW | OFlags::CLOEXEC } else { through };
            here = openat(&here, part, how, Mode::empty()).map_err(fail)?;
        }
        Ok(here)
    }
}
