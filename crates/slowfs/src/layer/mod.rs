// SPDX-License-Identifier: Apache-2.0
//! The FUSE file system. Names and attributes pass through at once; reads, writes and syncs are answered by the [`Engine`].

mod attributes;
mod data;
mod extended;
mod names;
pub(crate) mod outside;
mod owner;

use crate::buffer::Pool;
use crate::engine::Engine;
use crate::inode::{Inode, Table};
use crate::reply::errno;
use crate::waiting::{Asked, Looker};
use crate::way;
use attributes::{Changes, attributes, file_type};
use extended::Answer;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, Stat};
use rustix::io::Result;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// The most that one request can carry; the kernel's own bound is 1 MiB (`fs.fuse.max_pages_limit` 256).
const MAX_WRITE_BYTES: u32 = 1024 * 1024;
/// The kernel's default of 12 would throttle asynchronous I/O. With this value nothing waits for a slot at depth 256.
const MAX_BACKGROUND: u16 = 512;
/// How long the kernel may keep names and attributes. `LONG` is for a run's own files: nobody changes them in another way.
const LONG: Duration = Duration::from_secs(86_400);
const SHORT: Duration = Duration::from_secs(1);

pub(crate) struct Layer {
    engine: Arc<Engine>,
    inodes: Table,
    opened: RwLock<HashMap<u64, Arc<Opened>>>,
    next_handle: AtomicU64,
    buffers: Arc<Pool>,
    looker: Looker,
    settings: Settings,
    stale: Sender<outside::Stale>,
    /// The process that measures the way to this layer; 0: none.
    way_looker: u32,
    #[cfg(feature = "failpoints")]
    lost: Option<crate::broken_sync::Lost>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The kernel keeps written pages until they are synced or evicted, as it does above a disk.
    pub writeback_cache: bool,
    /// Aligned requests bypass the page cache of the backing file system.
    pub direct: bool,
    pub threads: usize,
}

#[derive(Debug)]
enum Opened {
    File(Arc<Inode>, crate::backing::Open),
    Folder(Mutex<OwnedFd>),
}

impl Layer {
    pub(crate) fn new(
        root: OwnedFd,
        engine: Arc<Engine>,
        settings: Settings,
        stale: Sender<outside::Stale>,
        way_looker: u32,
    ) -> Result<Self> {
        Ok(Self {
            engine,
            inodes: Table::new(root)?,
            opened: RwLock::default(),
            next_handle: AtomicU64::new(1),
            buffers: Arc::default(),
            looker: Looker::new(settings.threads),
            settings,
            stale,
            way_looker,
            #[cfg(feature = "failpoints")]
            lost: crate::broken_sync::Lost::when_asked(),
        })
    }

    /// The measuring file, which is in no directory. Only the measuring process can see it.
    fn is_way(&self, caller: &Request, parent: INodeNo, name: &OsStr) -> bool {
        parent.0 == crate::inode::ROOT && name == way::NAME && self.way_looker != 0 && caller.pid() == self.way_looker
    }

    fn lifetime(&self) -> Duration {
        if self.settings.writeback_cache { LONG } else { SHORT }
    }

    fn keep(&self, opened: Opened) -> FileHandle {
        let handle = self.next_handle.fetch_add(1, Relaxed);
        self.opened.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(opened));
        FileHandle(handle)
    }

    fn opened(&self, handle: FileHandle) -> Result<Arc<Opened>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.get(&handle.0).cloned().ok_or(rustix::io::Errno::BADF)
    }

    fn drop_handle(&self, handle: FileHandle) {
        self.opened.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
    }

    fn attributes(&self, number: u64, stat: &Stat) -> FileAttr {
        #[allow(unused_mut)]
        let mut found = attributes(number, stat);
        self.tell_end(number, found.size);
        #[cfg(feature = "failpoints")]
        if let Some(lost) = &self.lost {
            lost.enlarge(number, &mut found.size);
        }
        found
    }

    fn found(&self, (number, stat): (u64, Stat)) -> FileAttr {
        self.attributes(number, &stat)
    }

    /// A disk can fail at open, too. A name that does not exist is no failure of the disk.
    fn refusal(&self, error: rustix::io::Errno) -> Errno {
        if error == rustix::io::Errno::IO {
            self.engine.counters.failed();
        }
        errno(error)
    }

    fn reply_entry(&self, result: Result<(u64, Stat)>, reply: ReplyEntry) {
        match result {
            Ok(found) => {
                let (lifetime, attributes) = (self.lifetime(), self.found(found));
                self.after_a_look(found.0, move || reply.entry(&lifetime, &attributes, Generation(0)));
            }
            Err(error) => reply.error(self.refusal(error)),
        }
    }
}

fn reply_empty(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for Layer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_BIG_WRITES,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // Only the file system below knows whether the umask counts.
            InitFlags::FUSE_DONT_MASK,
            // Without this flag the kernel would ask for a file's capabilities before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        if crate::mount_rights::keeps_access_lists() {
            wanted.push(InitFlags::FUSE_POSIX_ACL);
        }
        wanted.push(match self.settings.writeback_cache {
            true => InitFlags::FUSE_WRITEBACK_CACHE,
            // The layer itself says which pages are old.
            false => InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        });
        // A kernel without one of these flags works, too, but more slowly.
        wanted.into_iter().for_each(|flag| {
            let _ = config.add_capabilities(flag);
        });
        let accepted = config.set_max_write(MAX_WRITE_BYTES).is_ok()
            && config.set_max_background(MAX_BACKGROUND).is_ok()
            && config.set_congestion_threshold(MAX_BACKGROUND).is_ok();
        if accepted { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn lookup(&self, caller: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.is_way(caller, parent, name) {
            return reply.entry(&way::NAME_LASTS, &way::attributes(), Generation(0));
        }
        self.reply_entry(self.inodes.get(parent.0).and_then(|parent| self.inodes.lookup(&parent, name)), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.inodes.forget(number.0, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if number.0 == way::INODE {
            return reply.attr(&way::ATTRIBUTES_LAST, &way::attributes());
        }
        match self.inodes.get(number.0).and_then(|inode| inode.stat()) {
            Ok(stat) => {
                let (lifetime, attributes) = (self.lifetime(), self.attributes(number.0, &stat));
                self.after_a_look(number.0, move || reply.attr(&lifetime, &attributes));
            }
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn setattr(
        &self,
        caller: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let drops_set_ids = (size.is_some() && caller.uid() != 0).then(|| caller.gid());
        let changes = Changes { mode, uid, gid, size, drops_set_ids, accessed, modified };
        // Never after a look: while a file is cut, the kernel holds back the writes of its pages, and dropping the pages waits for these writes
        // (fuse_set_nowrite in fs/fuse/dir.c).
        match self.change_attributes(number.0, handle, changes) {
            Ok(stat) => reply.attr(&self.lifetime(), &self.attributes(number.0, &stat)),
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.inodes.get(number.0).and_then(|inode| rustix::fs::readlinkat(inode.as_ref(), "", Vec::new())) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn mknod(
        &self,
        caller: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.reply_entry(self.make_node(caller, parent.0, name, (mode, umask), device), reply);
    }

    fn mkdir(&self, caller: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.reply_entry(self.make_folder(caller, parent.0, name, (mode, umask)), reply);
    }

    fn symlink(&self, caller: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.reply_entry(self.make_symlink(caller, parent.0, name, target), reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.make_link(number.0, parent.0, name), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.remove(parent.0, name, rustix::fs::AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.remove(parent.0, name, rustix::fs::AtFlags::REMOVEDIR), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.rename_entry((parent.0, name), (new_parent.0, new_name), flags.bits()), reply);
    }

    fn create(
        &self,
        caller: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(caller, parent.0, name, (mode, umask), flags) {
            Ok((found, handle)) => {
                let attributes = self.found(found);
                reply.created(&self.lifetime(), &attributes, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if number.0 == way::INODE {
            return reply.opened(FileHandle(way::HANDLE), FopenFlags::FOPEN_KEEP_CACHE);
        }
        match self.open_file(number.0, flags.0) {
            Ok(handle) => {
                self.after_a_look(number.0, move || reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE));
            }
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn read(
        &self,
        caller: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if handle.0 == way::HANDLE {
            return way::answer(&self.engine, offset, reply);
        }
        let direct = OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::DIRECT);
        let asked = Asked { thread: caller.pid(), inode: number.0, offset, length: size, direct };
        self.read_file(handle, asked, reply);
    }

    fn write(
        &self,
        caller: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
            && let Err(error) = self.drop_set_ids_of(handle, caller.gid())
        {
            return reply.error(self.refusal(error));
        }
        let is_cached = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        self.write_file((handle, offset), data, (flags.0, is_cached), reply);
    }

    /// The kernel writes dirty pages back at close by itself, and the backing file system has no work at close.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.sync(handle, data_only, reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.drop_handle(handle);
        reply.ok();
    }

    fn fallocate(
        &self,
        caller: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let dropped = if caller.uid() == 0 { Ok(()) } else { self.drop_set_ids_of(handle, caller.gid()) };
        reply_empty(dropped.and_then(|()| self.allocate(handle, offset, length, mode)), reply);
    }

    /// With the write-back cache the kernel has pages that the backing file does not have: so the whole file counts as data.
    fn lseek(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        if self.settings.writeback_cache {
            return reply.error(Errno::ENOSYS);
        }
        match self.find_data(handle, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_folder(number.0) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let add = |number, next, kind, name: &OsStr| reply.add(INodeNo(number), next, file_type(kind), name);
        match self.read_folder(handle, offset, add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.drop_handle(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.sync(handle, data_only, reply);
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        match self.inodes.get(number.0).and_then(|inode| rustix::fs::fstatvfs(inode.as_ref())) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                u32::try_from(found.f_bsize).unwrap_or(4096),
                u32::try_from(found.f_namemax).unwrap_or(255),
                u32::try_from(found.f_frsize).unwrap_or(4096),
            ),
            Err(error) => reply.error(self.refusal(error)),
        }
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_extended(self.extended(number.0, name, size), reply);
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.set_extended(number.0, name, value, flags), reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        reply_extended(self.list_extended(number.0, size), reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.remove_extended(number.0, name), reply);
    }
}

fn reply_extended(result: Result<Answer>, reply: ReplyXattr) {
    match result {
        Ok(Answer::Size(size)) => reply.size(size),
        Ok(Answer::Data(data)) => reply.data(&data),
        Err(error) => reply.error(errno(error)),
    }
}
