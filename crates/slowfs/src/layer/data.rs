// SPDX-License-Identifier: Apache-2.0
//! Reads, writes and syncs: first the work, then the reply when it is due.

use super::{Layer, Opened};
use crate::backing::Open;
use crate::reply::{self, errno};
use crate::rule::Place;
use crate::waiting::Asked;
use diskmodel::Class;
use fuser::{FileHandle, ReplyData, ReplyEmpty, ReplyWrite};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fdatasync, fsync, seek};
use rustix::io::{ReadWriteFlags, Result};
use std::sync::PoisonError;

impl Layer {
    pub(super) fn open_file(&self, number: u64, flags: i32) -> Result<FileHandle> {
        let inode = self.inodes.get(number)?;
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let wanted = self.access_mode(asked);
        let (file, access) = match inode.open(wanted) {
            Ok(file) => (file, wanted),
            // Write-only by its mode, and this process is not root: open it without the read access that write-back would like to have.
            Err(rustix::io::Errno::ACCESS) => (inode.open(asked & OFlags::RWMODE)?, asked & OFlags::RWMODE),
            Err(error) => return Err(error),
        };
        Ok(self.keep(Opened::File(inode, self.backing(file, access))))
    }

    /// With the write-back cache the kernel reads the rest of a page before it writes it, so a writer must be able to read. `O_APPEND`, `O_DIRECT` and
    /// `O_DSYNC` come with each request.
    pub(super) fn access_mode(&self, asked: OFlags) -> OFlags {
        match asked & OFlags::RWMODE {
            OFlags::WRONLY if self.settings.writeback_cache => OFlags::RDWR,
            mode => mode,
        }
    }

    pub(super) fn backing(&self, file: OwnedFd, access: OFlags) -> Open {
        Open::new(file, access, self.settings.direct)
    }

    pub(super) fn read_file(&self, handle: FileHandle, asked: Asked, reply: ReplyData) {
        let place = place(handle, asked.offset, u64::from(asked.length));
        let fill = |into: &mut [u8]| self.fill(handle, asked.offset, into);
        let filled = || self.engine.counters.seen(self.looker.look(asked));
        reply::read(&self.engine, &self.buffers, (place, asked.length), fill, filled, reply);
    }

    fn fill(&self, handle: FileHandle, offset: u64, into: &mut [u8]) -> Result<usize> {
        let opened = self.opened(handle)?;
        let Opened::File(inode, open) = opened.as_ref() else { return Err(rustix::io::Errno::ISDIR) };
        let count = open.read(inode, into, offset)?;
        #[cfg(feature = "failpoints")]
        let count = self.lost.as_ref().map_or(count, |lost| lost.overlay(inode.number, into, count, offset));
        Ok(count)
    }

    /// `is_cached`: the kernel writes pages of its cache, and looks at the error alone, never at how much was written (fuse_writepage_end in fs/fuse/file.c).
    pub(super) fn write_file(
        &self,
        (handle, offset): (FileHandle, u64),
        data: &[u8],
        (flags, is_cached): (i32, bool),
        reply: ReplyWrite,
    ) {
        let work = self.engine.arrive(Class::Write, place(handle, offset, data.len() as u64));
        // The kernel repeats the flags of the open file, and adds RWF_DSYNC as O_DSYNC; O_SYNC holds the same bit.
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        let mut how = ReadWriteFlags::empty();
        how.set(ReadWriteFlags::DSYNC, flags.contains(OFlags::DSYNC));
        how.set(ReadWriteFlags::APPEND, !is_cached && self.appends(handle, offset, flags));
        let stored = match is_cached {
            true => self.store_whole(handle, offset, data, how),
            false => self.store(handle, offset, data, how),
        };
        match stored {
            Ok(count) => self.engine.answer(work, move || reply.written(count)),
            Err(error) => {
                self.engine.counters.failed();
                reply.error(errno(error));
            }
        }
    }

    /// Whether a write goes to the end that the file has then. The kernel's idea of the end may be old where others write to the file, too. A page of the cache has
    /// its place; and the requests of one large direct write come at the same time.
    fn appends(&self, handle: FileHandle, offset: u64, flags: OFlags) -> bool {
        flags.contains(OFlags::APPEND)
            && !flags.contains(OFlags::DIRECT)
            && !self.settings.writeback_cache
            && self
                .opened(handle)
                .is_ok_and(|opened| matches!(opened.as_ref(), Opened::File(inode, _) if inode.watched.is_end(offset)))
    }

    /// Writes all, or fails with the reason why the rest was not written.
    fn store_whole(&self, handle: FileHandle, offset: u64, data: &[u8], how: ReadWriteFlags) -> Result<u32> {
        let mut done = 0;
        while done < data.len() {
            match self.store(handle, offset + done as u64, &data[done..], how)? {
                0 => return Err(rustix::io::Errno::IO),
                count => done += count as usize,
            }
        }
        Ok(u32::try_from(done).unwrap_or(u32::MAX))
    }

    fn store(&self, handle: FileHandle, offset: u64, data: &[u8], how: ReadWriteFlags) -> Result<u32> {
        let opened = self.opened(handle)?;
        let Opened::File(inode, open) = opened.as_ref() else { return Err(rustix::io::Errno::ISDIR) };
        #[cfg(feature = "failpoints")]
        if let Some(lost) = &self.lost {
            lost.store(inode, open, offset, data)?;
            return Ok(u32::try_from(data.len()).unwrap_or(u32::MAX));
        }
        let mut buffer = self.buffers.take(data.len());
        buffer.bytes_mut(data.len()).copy_from_slice(data);
        let written = self.change(inode, || open.write(inode, buffer.bytes(data.len()), offset, how));
        self.buffers.give_back(buffer);
        let written = written?;
        if !self.settings.writeback_cache {
            let end = offset + written as u64;
            inode.watched.tell_end(end);
            // The kernel has put the bytes of this write at `offset` into its cache, and they are elsewhere.
            if how.contains(ReadWriteFlags::APPEND) && inode.watched.size() != Some(end) {
                self.drop_soon(inode);
            }
        }
        Ok(u32::try_from(written).unwrap_or(u32::MAX))
    }

    pub(super) fn sync(&self, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let work = self.engine.arrive(Class::Sync, place(handle, 0, 0));
        match self.make_durable(handle, data_only) {
            Ok(()) => self.engine.answer(work, move || reply.ok()),
            Err(error) => {
                self.engine.counters.failed();
                reply.error(errno(error));
            }
        }
    }

    fn make_durable(&self, handle: FileHandle, data_only: bool) -> Result<()> {
        #[cfg(feature = "failpoints")]
        if self.lost.is_some() {
            return Ok(());
        }
        match self.opened(handle)?.as_ref() {
            Opened::File(_, open) if data_only => fdatasync(open.file()),
            Opened::File(_, open) => fsync(open.file()),
            Opened::Folder(folder) => fsync(&*folder.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    pub(super) fn allocate(&self, handle: FileHandle, offset: u64, length: u64, mode: i32) -> Result<()> {
        let opened = self.opened(handle)?;
        let Opened::File(inode, open) = opened.as_ref() else { return Err(rustix::io::Errno::ISDIR) };
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        self.change(inode, || fallocate(open.file(), flags, offset, length))?;
        if !self.settings.writeback_cache && !flags.contains(FallocateFlags::KEEP_SIZE) {
            inode.watched.tell_end(offset + length);
        }
        Ok(())
    }

    pub(super) fn find_data(&self, handle: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        let opened = self.opened(handle)?;
        let Opened::File(_, open) = opened.as_ref() else { return Err(rustix::io::Errno::ISDIR) };
        let from = u64::try_from(offset).map_err(|_| rustix::io::Errno::INVAL)?;
        let target = match whence {
            libc::SEEK_DATA => SeekFrom::Data(from),
            libc::SEEK_HOLE => SeekFrom::Hole(from),
            _ => return Err(rustix::io::Errno::INVAL),
        };
        seek(open.file(), target).map(|found| i64::try_from(found).unwrap_or(i64::MAX))
    }
}

/// Each handle is a place of its own: a sequential reader reads through one handle.
fn place(handle: FileHandle, offset: u64, bytes: u64) -> Place {
    Place { file: handle.0, offset, bytes }
}
