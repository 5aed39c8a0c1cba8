// SPDX-License-Identifier: Apache-2.0
//! A FUSE file system with one file. It keeps no state: no request depends on an earlier one. So any worker can answer any request, also twice.

use crate::backing::Open;
use crate::buffer::Pool;
use crate::engine::Engine;
use crate::inode::Inode;
use crate::reply::{self, errno};
use crate::rule::Place;
use crate::way;
use diskmodel::Class;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, seek};
use rustix::io::ReadWriteFlags;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ROOT: u64 = crate::inode::ROOT;
const FILE: u64 = 2;
const BLOCK: u32 = 4096;
/// For how long the kernel may keep attributes: only the content changes.
const LONG: Duration = Duration::from_secs(86_400);

/// The image as every worker opens it.
#[derive(Debug)]
pub(super) struct Backing {
    pub inode: Inode,
    pub open: Open,
    pub bytes: u64,
    pub is_device: bool,
    /// The file's inode number in the FUSE file system.
    pub name: OsString,
}

impl Backing {
    pub(super) fn new(inode: Inode, open: Open, is_device: bool, name: OsString) -> rustix::io::Result<Self> {
        let bytes = seek(open.file(), SeekFrom::End(0))?;
        Ok(Self { inode, open, bytes, is_device, name })
    }
}

/// The buffers of one thread.
#[derive(Clone)]
pub(super) struct Image {
    pub backing: Arc<Backing>,
    pub engine: Arc<Engine>,
    pub buffers: Arc<Pool>,
}

impl Image {
    fn attributes(&self, number: u64) -> FileAttr {
        let is_root = number == ROOT;
        let (kind, perm, size) =
            if is_root { (FileType::Directory, 0o500, 0) } else { (FileType::RegularFile, 0o600, self.backing.bytes) };
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: if is_root { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    /// Whether this range is within the image: nothing beyond it is ever asked for.
    fn is_within(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.backing.bytes)
    }
}

fn place(offset: u64, bytes: u64) -> Place {
    Place { file: FILE, offset, bytes }
}

impl Filesystem for Image {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent.0 == ROOT && name == way::NAME {
            reply.entry(&way::NAME_LASTS, &way::attributes(), Generation(0));
        } else if parent.0 == ROOT && name == self.backing.name {
            reply.entry(&LONG, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if number.0 == way::INODE {
            return reply.attr(&way::ATTRIBUTES_LAST, &way::attributes());
        }
        reply.attr(&LONG, &self.attributes(number.0));
    }

    /// Changes of times and owners have no effect here, and the size stays.
    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match size {
            Some(size) if size != self.backing.bytes => reply.error(Errno::EPERM),
            _ => reply.attr(&LONG, &self.attributes(number.0)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if number.0 == way::INODE {
            return way::answer(&self.engine, offset, reply);
        }
        let fill = |into: &mut [u8]| self.backing.open.read(&self.backing.inode, into, offset);
        reply::read(&self.engine, &self.buffers, (place(offset, u64::from(size)), size), fill, || {}, reply);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let work = self.engine.arrive(Class::Write, place(offset, data.len() as u64));
        if !self.is_within(offset, data.len() as u64) {
            self.engine.counters.failed();
            return reply.error(Errno::ENOSPC);
        }
        let mut buffer = self.buffers.take(data.len());
        buffer.bytes_mut(data.len()).copy_from_slice(data);
        let written =
            self.backing.open.write(&self.backing.inode, buffer.bytes(data.len()), offset, ReadWriteFlags::empty());
        self.buffers.give_back(buffer);
        match written {
            Ok(count) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                self.engine.answer(work, move || reply.written(count));
            }
            Err(error) => {
                self.engine.counters.failed();
                reply.error(errno(error));
            }
        }
    }

    /// The loop device sends a flush as an fsync.
    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let work = self.engine.arrive(Class::Sync, place(0, 0));
        match fdatasync(self.backing.open.file()) {
            Ok(()) => self.engine.answer(work, move || reply.ok()),
            Err(error) => {
                self.engine.counters.failed();
                reply.error(errno(error));
            }
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    /// The loop device sends a discard and a request for zeros as fallocate(2). A discard makes no hole in an image: a later write
    /// there might find no free space.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let work = self.engine.arrive(Class::Write, place(offset, 0));
        let asked = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let discards = asked.contains(FallocateFlags::PUNCH_HOLE) && !self.backing.is_device;
        let flags = if discards { FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE } else { asked };
        let within = self.is_within(offset, length);
        let zeroed = if within {
            fallocate(self.backing.open.file(), flags, offset, length)
        } else {
            Err(rustix::io::Errno::NOSPC)
        };
        match zeroed {
            Ok(()) => self.engine.answer(work, move || reply.ok()),
            Err(error) => {
                // A request that the file system does not support is no failure of the disk.
                if error == rustix::io::Errno::IO {
                    self.engine.counters.failed();
                }
                reply.error(errno(error));
            }
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.backing.bytes / u64::from(BLOCK), 0, 0, 2, 0, BLOCK, 255, BLOCK);
    }
}
