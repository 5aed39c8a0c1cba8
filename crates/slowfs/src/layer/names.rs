// SPDX-License-Identifier: Apache-2.0
//! Names: create, link, rename, remove, list.

use super::extended::masked;
use super::owner::as_caller;
use super::{Layer, Opened};
use crate::inode::Inode;
use fuser::{FileHandle, Request};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat, chownat, fstat, linkat, mkdirat,
    mknodat, openat, renameat_with, seek, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const LISTING_BYTES: usize = 32 * 1024;

impl Layer {
    pub(super) fn make_node(
        &self,
        caller: &Request,
        parent: u64,
        name: &OsStr,
        (mode, umask): (u32, u32),
        device: u32,
    ) -> Result<(u64, Stat)> {
        let parent = self.inodes.get(parent)?;
        let (kind, bits) = (FileType::from_raw_mode(mode), masked(&parent, mode, umask));
        let make = || mknodat(parent.as_ref(), name, kind, bits, device.into());
        as_caller(caller, make, || make().and_then(|()| hand_over_name(caller, &parent, name)))?;
        self.inodes.lookup(&parent, name)
    }

    pub(super) fn make_folder(
        &self,
        caller: &Request,
        parent: u64,
        name: &OsStr,
        (mode, umask): (u32, u32),
    ) -> Result<(u64, Stat)> {
        let parent = self.inodes.get(parent)?;
        let bits = masked(&parent, mode, umask);
        let make = || mkdirat(parent.as_ref(), name, bits);
        as_caller(caller, make, || make().and_then(|()| hand_over_name(caller, &parent, name)))?;
        self.inodes.lookup(&parent, name)
    }

    pub(super) fn make_symlink(&self, caller: &Request, parent: u64, name: &OsStr, to: &Path) -> Result<(u64, Stat)> {
        let parent = self.inodes.get(parent)?;
        let make = || symlinkat(to, parent.as_ref(), name);
        as_caller(caller, make, || make().and_then(|()| hand_over_name(caller, &parent, name)))?;
        self.inodes.lookup(&parent, name)
    }

    pub(super) fn make_link(&self, number: u64, parent: u64, name: &OsStr) -> Result<(u64, Stat)> {
        let (inode, parent) = (self.inodes.get(number)?, self.inodes.get(parent)?);
        linkat(CWD, inode.link(), parent.as_ref(), name, AtFlags::SYMLINK_FOLLOW)?;
        self.inodes.lookup(&parent, name)
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<()> {
        unlinkat(self.inodes.get(parent)?.as_ref(), name, flags)
    }

    pub(super) fn rename_entry(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<()> {
        let (old, new) = (self.inodes.get(from.0)?, self.inodes.get(to.0)?);
        renameat_with(old.as_ref(), from.1, new.as_ref(), to.1, RenameFlags::from_bits_retain(flags))
    }

    pub(super) fn create_file(
        &self,
        caller: &Request,
        parent: u64,
        name: &OsStr,
        (mode, umask): (u32, u32),
        flags: i32,
    ) -> Result<((u64, Stat), FileHandle)> {
        let parent = self.inodes.get(parent)?;
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let access = self.access_mode(asked);
        let how = access | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | asked & (OFlags::EXCL | OFlags::TRUNC);
        let bits = masked(&parent, mode, umask);
        let make = |how| openat(parent.as_ref(), name, how, bits);
        let by_root = || match make(how | OFlags::EXCL) {
            // somebody else has made it meanwhile, and the caller may not open it
            Err(Errno::EXIST) if !asked.contains(OFlags::EXCL) => Err(Errno::ACCESS),
            made => made.and_then(|file| hand_over(caller, &parent, file.as_fd()).map(|()| file)),
        };
        let file = as_caller(caller, || make(how), by_root)?;
        let found = self.inodes.lookup(&parent, name)?;
        let inode = self.inodes.get(found.0)?;
        Ok((found, self.keep(Opened::File(inode, self.backing(file, access)))))
    }

    pub(super) fn open_folder(&self, number: u64) -> Result<FileHandle> {
        let inode = self.inodes.get(number)?;
        let folder = openat(inode.as_ref(), ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.keep(Opened::Folder(Mutex::new(folder))))
    }

    /// Calls `add` with number, position of the next entry, kind and name, until `add` says that its reply is full.
    pub(super) fn read_folder(
        &self,
        handle: FileHandle,
        offset: u64,
        mut add: impl FnMut(u64, u64, FileType, &OsStr) -> bool,
    ) -> Result<()> {
        let opened = self.opened(handle)?;
        let Opened::Folder(folder) = opened.as_ref() else { return Err(Errno::NOTDIR) };
        let folder = folder.lock().unwrap_or_else(PoisonError::into_inner);
        seek(&*folder, SeekFrom::Start(offset))?;
        let mut space = Box::new([const { MaybeUninit::uninit() }; LISTING_BYTES]);
        let mut entries = RawDir::new(&*folder, &mut space[..]);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    FileType::from_raw_mode(statat(&*folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                }
                kind => kind,
            };
            if add(entry.ino(), entry.next_entry_cookie(), kind, name) {
                break;
            }
        }
        Ok(())
    }
}

fn hand_over_name(caller: &Request, parent: &Inode, name: &OsStr) -> Result<()> {
    let place = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    hand_over(caller, parent, place.as_fd())
}

/// Gives the caller what root had to create. Below a folder with the set-group-id bit it keeps the folder's group. Whoever may write to the folder can put
/// another file under the name at the same moment: a file of somebody else, or one that has a second name, is not what was created.
fn hand_over(caller: &Request, parent: &Inode, made: BorrowedFd<'_>) -> Result<()> {
    let it = fstat(made)?;
    let has_one_name = it.st_nlink == 1 || FileType::from_raw_mode(it.st_mode) == FileType::Directory;
    if it.st_uid != 0 || !has_one_name {
        return Err(Errno::ACCESS);
    }
    let group_is_inherited = statat(parent, "", AtFlags::EMPTY_PATH)?.st_mode & 0o2000 != 0;
    let gid = (!group_is_inherited).then(|| Gid::from_raw(caller.gid()));
    chownat(made, "", Some(Uid::from_raw(caller.uid())), gid, AtFlags::EMPTY_PATH)
}
