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
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

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
    /// Calls `reply`, and before that has the kernel drop what it keeps of the file where somebody else has changed the file since the layer last looked. Another
    /// reply may have found the change, and the kernel may not have dropped the pages yet.
    pub(super) fn after_a_look(&self, number: u64, reply: impl FnOnce() + Send + 'static) {
        if self.settings.writeback_cache {
            return reply();
        }
        let Ok(inode) = self.inodes.get(number) else { return reply() };
        match inode.watched.was_changed(|| inode.stat()) || inode.watched.is_dropping() {
            true => {
                inode.watched.begin_drop();
                self.drop_stale(inode, reply);
            }
            false => reply(),
        }
    }

    fn drop_stale(&self, inode: Arc<Inode>, then: impl FnOnce() + Send + 'static) {
        let number = inode.number;
        let ended = move || {
            inode.watched.end_drop();
            then();
        };
        if let Err(std::sync::mpsc::SendError((_, ended))) = self.stale.send((number, Box::new(ended))) {
            ended();
        }
    }

    /// Nobody waits for it; once is enough.
    pub(super) fn drop_soon(&self, inode: &Arc<Inode>) {
        match inode.watched.begin_drop() {
            true => self.drop_stale(inode.clone(), || ()),
            false => inode.watched.end_drop(),
        }
    }

    /// Makes a change of the content of a file, which is then known as the layer's own.
    pub(super) fn change<T>(&self, inode: &Arc<Inode>, change: impl FnOnce() -> T) -> T {
        if self.settings.writeback_cache {
            return change();
        }
        let (changed, was_changed) = inode.watched.change(|| inode.stat(), change);
        if was_changed {
            self.drop_soon(inode);
        }
        changed
    }

    /// The kernel is told of this size, or has written up to it.
    pub(super) fn tell_end(&self, number: u64, size: u64) {
        if let (false, Ok(inode)) = (self.settings.writeback_cache, self.inodes.get(number)) {
            inode.watched.tell_end(size);
        }
    }
}
