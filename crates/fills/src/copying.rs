// SPDX-License-Identifier: Apache-2.0
//! Copies a tree of files. Where the file system can share blocks (FICLONE), the copy shares them; else the kernel copies the bytes, without the
//! holes. At the end the copy is on the disk, and not in the page cache.

use crate::Error;
use crate::tree::{Node, Root};
use host::files::{self, Copied};
use rustix::fs::{Advice, fadvise};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The uid and gid that files get; `None`: the caller's.
pub type Owner = Option<(u32, u32)>;

/// Threads that copy: a disk has work for a few requests at a time, and more only move its head.
const MOST_WORKERS: usize = 4;
/// Room beside the data themselves, for folders and the file system's own blocks.
const SPARE_BYTES: u64 = 64 << 20;
/// A file that takes more than this on the disk has blocks that can be shared; the content of a smaller file may lie in its inode.
const PROBE_BYTES: u64 = 16 << 10;

/// What a copy has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cloned {
    /// Files that share their blocks with the original's.
    pub shared_files: u64,
    /// Files whose bytes were copied.
    pub copied_files: u64,
    /// Bytes copied; holes are not.
    pub copied_bytes: u64,
    /// Length of all files.
    pub bytes: u64,
    pub elapsed: Duration,
}

impl Cloned {
    /// `reflink` where the files share their blocks, else `copy`.
    pub fn mechanism(&self) -> &'static str {
        if self.copied_bytes == 0 && self.shared_files > 0 { "reflink" } else { "copy" }
    }
}

pub(crate) struct Copying<'a> {
    pub what: &'static str,
    pub from: &'a Path,
    /// An empty folder that is the caller's, and that nobody else can write while this goes on.
    pub to: &'a Path,
    pub owner: Owner,
    /// Names at the top that are not copied.
    pub leave_out: &'a [&'a str],
    /// Bytes that must stay free beside the copy.
    pub keep_free_bytes: u64,
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl Copying<'_> {
    /// # Errors
    /// [`Error::NoRoom`] before anything is copied; a link in the original; interrupted. Files that were copied already stay.
    pub(crate) fn run(&self) -> Result<Cloned, Error> {
        let began = Instant::now();
        let root = Root::open(self.from)?;
        let mut nodes = root.nodes()?;
        nodes.retain(|node| !self.leave_out.iter().any(|name| node.path == Path::new(name)));
        let (folders, files): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(|node| node.is_folder);
        self.require_room(&root, &files)?;
        for folder in &folders {
            files::new_private_dir(&self.to.join(&folder.path))?;
        }
        let (shared, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        in_parallel(&files, |file| {
            match self.one(&root, file)? {
                Copied::Shared => shared.fetch_add(1, Ordering::Relaxed),
                Copied::Bytes(count) => bytes.fetch_add(count, Ordering::Relaxed),
            };
            Ok(())
        })?;
        self.settle(&folders, &files)?;
        let shared_files = shared.into_inner();
        Ok(Cloned {
            shared_files,
            copied_files: (files.len() as u64).saturating_sub(shared_files),
            copied_bytes: bytes.into_inner(),
            bytes: files.iter().map(|file| file.size_bytes).sum(),
            elapsed: began.elapsed(),
        })
    }

    fn one(&self, root: &Root, file: &Node) -> Result<Copied, Error> {
        if (self.stop)() {
            return Err(Error::Interrupted);
        }
        let source = root.file(&file.path)?;
        let (from, to) = (self.from.join(&file.path), self.to.join(&file.path));
        let (copied, _) = files::copy_opened(&source, &from, &to, file.mode, self.owner, &mut |_| !(self.stop)())?;
        let _ = fadvise(&source, 0, None, Advice::DontNeed);
        Ok(copied)
    }

    /// Writes the copy's bytes to the disk, then gives its folders their owner, the top folder last: until then nobody else can enter. The sync of
    /// the first file also writes the file system's own data on the other files: so this is called after all of them are copied.
    fn settle(&self, folders: &[Node], files: &[Node]) -> Result<(), Error> {
        let copy = Root::open(self.to)?;
        in_parallel(files, |file| {
            let copied = copy.file(&file.path)?;
            copied.sync_all().map_err(|source| Error::path("sync", self.to.join(&file.path), source))?;
            let _ = fadvise(&copied, 0, None, Advice::DontNeed);
            Ok(())
        })?;
        let top = (Path::new(""), None);
        let inner = folders.iter().rev().map(|folder| (folder.path.as_path(), Some(folder.mode)));
        for (path, mode) in inner.chain([top]) {
            let folder = copy.folder(path)?;
            let fail = |operation: &'static str| move |errno| Error::path(operation, self.to.join(path), errno);
            if let Some(mode) = mode {
                rustix::fs::fchmod(&folder, rustix::fs::Mode::from_raw_mode(mode)).map_err(fail("set the mode of"))?;
            }
            if let Some((uid, gid)) = self.owner {
                let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
                rustix::fs::fchown(&folder, Some(uid), Some(gid)).map_err(fail("change the owner of"))?;
            }
            folder.sync_all().map_err(|source| Error::path("sync", self.to.join(path), source))?;
        }
        Ok(())
    }

    /// Whether the disk has room for the copy. A copy that shares blocks needs none.
    fn require_room(&self, root: &Root, files: &[Node]) -> Result<(), Error> {
        // a small file: where blocks cannot be shared, its first bytes are copied, and that shows it
        let probe = files.iter().filter(|file| file.taken_bytes > PROBE_BYTES).min_by_key(|file| file.size_bytes);
        if let Some(file) = probe
            && self.shares(root, file)?
        {
            return Ok(());
        }
        let taken: u64 = files.iter().map(|file| file.taken_bytes).sum();
        require_room(self.what, self.to, taken.saturating_add(SPARE_BYTES).saturating_add(self.keep_free_bytes))
    }

    fn shares(&self, root: &Root, file: &Node) -> Result<bool, Error> {
        let probe = self.to.join(".probe");
        let source = root.file(&file.path)?;
        // where blocks cannot be shared, the copy of bytes ends after its first piece
        let copied = files::copy_opened(&source, &self.from.join(&file.path), &probe, 0o600, None, &mut |_| false);
        files::remove_file(&probe)?;
        Ok(matches!(copied, Ok((Copied::Shared, _))))
    }
}

/// # Errors
/// [`Error::NoRoom`]: the disk of `path` has less room than that for ordinary users.
pub(crate) fn require_room(what: &'static str, path: &Path, need_bytes: u64) -> Result<(), Error> {
    let free_bytes = free_bytes(path)?;
    if free_bytes >= need_bytes {
        return Ok(());
    }
    Err(Error::NoRoom { what, path: path.into(), need_bytes, free_bytes })
}

pub(crate) fn free_bytes(path: &Path) -> Result<u64, Error> {
    let disk = rustix::fs::statvfs(path).map_err(|errno| Error::path("look at the disk of", path, errno))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Work on each item, by several threads; results in the items' order. The first error ends it.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, MOST_WORKERS);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<R, Error>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
