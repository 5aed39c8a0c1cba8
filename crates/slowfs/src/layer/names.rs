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
        as_caller(caller, make, || make().and_then(|()| hand_over_name(caller, &parent, name, kind)))?;
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
        as_caller(caller, make, || make().and_then(|()| hand_over_name(caller, &parent, name, FileType::Directory)))?;
        self.inodes.lookup(&parent, name)
    }

    pub(super) fn make_symlink(&self, caller: &Request, parent: u64, name: &OsStr, to: &Path) -> Result<(u64, Stat)> {
        let parent = self.inodes.get(parent)?;
        let make = || symlinkat(to, parent.as_ref(), name);
        as_caller(caller, make, || make().and_then(|()| hand_over_name(caller, &parent, name, FileType::Symlink)))?;
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
            made => made
                .and_then(|file| hand_over(ids(caller), &parent, file.as_fd(), FileType::RegularFile).map(|()| file)),
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

fn hand_over_name(caller: &Request, parent: &Inode, name: &OsStr, kind: FileType) -> Result<()> {
    let place = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    hand_over(ids(caller), parent, place.as_fd(), kind)
}

fn ids(caller: &Request) -> (u32, u32) {
    (caller.uid(), caller.gid())
}

/// Gives the caller what root had to create. Below a folder with the set-group-id bit it keeps the folder's group. Whoever may write to the folder can put
/// something else under the name at the same moment. What is of another kind, of somebody else, or has a second name or any content is not what was created.
fn hand_over((uid, gid): (u32, u32), parent: &Inode, made: BorrowedFd<'_>, kind: FileType) -> Result<()> {
    let it = fstat(made)?;
    if it.st_uid != 0 || FileType::from_raw_mode(it.st_mode) != kind {
        return Err(Errno::ACCESS);
    }
    let is_new = match kind {
        FileType::Directory => is_empty(made)?,
        FileType::RegularFile => it.st_nlink == 1 && it.st_size == 0,
        _ => it.st_nlink == 1,
    };
    if !is_new {
        return Err(Errno::ACCESS);
    }
    let group_is_inherited = statat(parent, "", AtFlags::EMPTY_PATH)?.st_mode & 0o2000 != 0;
    let gid = (!group_is_inherited).then(|| Gid::from_raw(gid));
    chownat(made, "", Some(Uid::from_raw(uid)), gid, AtFlags::EMPTY_PATH)
}

fn is_empty(folder: BorrowedFd<'_>) -> Result<bool> {
    let folder = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut space = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(&folder, &mut space[..]);
    while let Some(entry) = entries.next() {
        if ![".", ".."].map(str::as_bytes).contains(&entry?.file_name().to_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)] // files of the test's own
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, chown};

    #[test]
    fn only_what_was_just_made_by_root_is_given_to_the_caller() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let place = |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        let parent = Inode::of(place(folder.path()));
        let give = |name: &str, kind| {
            let given = hand_over((12_345, 12_345), &parent, place(&at(name)).as_fd(), kind);
            assert_eq!(given.is_ok(), fs::symlink_metadata(at(name)).unwrap().uid() == 12_345, "{name}");
            given
        };
        let (file, directory) = (FileType::RegularFile, FileType::Directory);
        for name in ["new", "linked", "key", "else"] {
            fs::write(at(name), if name == "key" { "secret" } else { "" }).unwrap();
        }
        fs::hard_link(at("linked"), at("second")).unwrap();
        chown(at("else"), Some(12_346), None).unwrap();
        fs::create_dir_all(at("full/inside")).unwrap();
        fs::create_dir(at("empty")).unwrap();
        for (name, kind) in
            [("linked", file), ("key", file), ("full", directory), ("new", directory), ("new", FileType::Fifo)]
        {
            assert_eq!(give(name, kind), Err(Errno::ACCESS), "{name} as {kind:?}");
        }
        assert_eq!(hand_over((12_345, 12_345), &parent, place(&at("else")).as_fd(), file), Err(Errno::ACCESS));
        give("new", file).unwrap();
        give("empty", directory).unwrap();
    }
}
