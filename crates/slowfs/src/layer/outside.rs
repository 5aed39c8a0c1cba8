// SPDX-License-Identifier: Apache-2.0
//! Files that others change past the layer: by a bind mount, from another mount namespace, by a descriptor from before the mount.
//!
//! Above a disk the kernel keeps the pages of a file that a program writes. The kernel's own look at a FUSE file's time of modification
//! (`FUSE_AUTO_INVAL_DATA`) cannot tell who wrote: it drops all pages of a file about once a second for as long as the server writes it, and each of them
//! is then read again. So the layer looks by itself: it knows its own changes, and has the kernel drop the pages of a file that somebody else changed.
//! Source: fuse_change_attributes_i in fs/fuse/inode.c, Linux 6.18.

use super::Layer;
use crate::inode::Inode;
use fuser::{INodeNo, Notifier};
use rustix::fs::{FileType, Stat};
use rustix::io::Result;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// What the layer last saw of a file's content, and whether it changes the file at this moment.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many of the layer's own changes are under way. Meanwhile nobody can tell whose change it is that shows.
    own: u32,
    seen: Option<Mark>,
}

/// Size, and time of modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark(i64, i64, i64);

impl Mark {
    #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)] // the type of st_mtime_nsec differs between processors
    fn of(stat: &Stat) -> Self {
        Self(stat.st_size, stat.st_mtime as i64, stat.st_mtime_nsec as i64)
    }
}

impl Watched {
    /// Whether somebody else has changed the file since it was last seen. `stat` reads the file's attributes at that moment.
    pub(crate) fn was_changed(&self, stat: impl FnOnce() -> Result<Stat>) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.own == 0 && state.look(stat)
    }

    /// Makes a change of the layer's own. Beside its result: whether somebody else had changed the file before.
    pub(crate) fn change<T>(&self, stat: impl Fn() -> Result<Stat>, change: impl FnOnce() -> T) -> (T, bool) {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_changed = {
            let mut state = lock();
            let was_changed = state.own == 0 && state.look(&stat);
            state.own += 1;
            was_changed
        };
        let changed = change();
        let mut state = lock();
        state.own -= 1;
        state.look(&stat);
        (changed, was_changed)
    }
}

impl State {
    fn look(&mut self, stat: impl FnOnce() -> Result<Stat>) -> bool {
        let Ok(stat) = stat() else { return false };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return false;
        }
        let now = Mark::of(&stat);
        self.seen.replace(now).is_some_and(|seen| seen != now)
    }
}

/// A file of which the kernel is to drop pages and attributes, and what comes after that.
pub(crate) type Stale = (u64, Box<dyn FnOnce() + Send>);

pub(crate) fn stale() -> (Sender<Stale>, Receiver<Stale>) {
    channel()
}

/// Has the kernel drop pages and attributes of each file that comes. In a thread of its own: the kernel waits for reads of these pages, and the threads
/// that take requests answer them.
pub(crate) fn drop_pages(stale: &Receiver<Stale>, kernel: &Notifier) {
    for (number, then) in stale {
        // The whole file. An error: the kernel does not know the file any more.
        let _ = kernel.inval_inode(INodeNo(number), 0, 0);
        then();
    }
}

impl Layer {
    /// Calls `reply`, and before that has the kernel drop what it keeps of the file where somebody else has changed the file since the layer last looked.
    pub(super) fn after_a_look(&self, number: u64, reply: impl FnOnce() + Send + 'static) {
        let is_old = !self.settings.writeback_cache
            && self.inodes.get(number).is_ok_and(|inode| inode.watched.was_changed(|| inode.stat()));
        match is_old {
            true => self.drop_stale(number, reply),
            false => reply(),
        }
    }

    fn drop_stale(&self, number: u64, then: impl FnOnce() + Send + 'static) {
        if let Err(std::sync::mpsc::SendError((_, then))) = self.stale.send((number, Box::new(then))) {
            then();
        }
    }

    /// Makes a change of the content of a file, which is then known as the layer's own.
    pub(super) fn change<T>(&self, inode: &Inode, change: impl FnOnce() -> T) -> T {
        if self.settings.writeback_cache {
            return change();
        }
        let (changed, was_changed) = inode.watched.change(|| inode.stat(), change);
        if was_changed {
            self.drop_stale(inode.number, || ());
        }
        changed
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests make their own files
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::time::Duration;

    #[test]
    fn own_changes_and_those_of_others_are_told_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = || rustix::fs::fstat(file.as_file());
        let write = || {
            // Longer than a tick of the kernel's clock for times of files.
            std::thread::sleep(Duration::from_millis(20));
            file.as_file().write_all(b"more").unwrap();
        };
        let watched = Watched::default();
        assert!(!watched.was_changed(stat), "first seen now");
        assert_eq!(watched.change(stat, write), ((), false));
        assert!(!watched.was_changed(stat), "our own change");
        write();
        assert!(watched.was_changed(stat));
        assert!(!watched.was_changed(stat), "told once");
        write();
        assert_eq!(watched.change(stat, write), ((), true), "before our own change");
        let ((), before) = watched.change(stat, || assert!(!watched.was_changed(stat), "a change is under way"));
        assert!(!before && !watched.was_changed(stat));
    }
}
