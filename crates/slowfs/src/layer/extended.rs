// SPDX-License-Identifier: Apache-2.0
//! Extended attributes, access lists among them: the backing file keeps them. Also their consequences: the mode of a new file below
//! a folder with a default access list, and the set-id bits that a write clears.

use super::{Layer, Opened};
use crate::inode::Inode;
use fuser::FileHandle;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Stat, XattrFlags, chmodat, getxattr, getxattr_query, listxattr, listxattr_query,
    removexattr, setxattr,
};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;

/// The answer to a request that gives the size of its buffer, or asks for the needed size.
pub(super) enum Answer {
    Size(u32),
    Data(Vec<u8>),
}

/// The largest value of an attribute (xattr(7)).
const SIZE_MAX: u32 = 64 * 1024;

impl Layer {
    pub(super) fn extended(&self, number: u64, name: &OsStr, size: u32) -> Result<Answer> {
        let inode = self.inodes.get(number)?;
        let (there, fill) =
            (|| getxattr_query(inode.link(), name), |into: &mut [u8]| getxattr(inode.link(), name, into));
        match answer(size, there, fill) {
            // The kernel asks for access lists by itself: where there can be none, the answer is that there is none.
            Err(Errno::OPNOTSUPP) if is_access_list(name) => Err(Errno::NODATA),
            other => other,
        }
    }

    pub(super) fn list_extended(&self, number: u64, size: u32) -> Result<Answer> {
        let inode = self.inodes.get(number)?;
        answer(size, || listxattr_query(inode.link()), |into| listxattr(inode.link(), into))
    }

    pub(super) fn set_extended(&self, number: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let inode = self.inodes.get(number)?;
        setxattr(inode.link(), name, value, XattrFlags::from_bits_retain(flags.cast_unsigned()))
    }

    pub(super) fn remove_extended(&self, number: u64, name: &OsStr) -> Result<()> {
        removexattr(self.inodes.get(number)?.link(), name)
    }

    /// A write by a user without the right to keep set-id bits clears them. The backing file system does not clear them, because
    /// this process has that right. Capabilities of a file are cleared by every write.
    pub(super) fn drop_set_ids_of(&self, handle: FileHandle, gid: u32) -> Result<()> {
        match self.opened(handle)?.as_ref() {
            Opened::File(inode, _) => drop_set_ids(inode, gid),
            Opened::Folder(_) => Ok(()),
        }
    }
}

fn answer(size: u32, there: impl Fn() -> Result<usize>, fill: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Answer> {
    if size == 0 {
        return there().map(|count| Answer::Size(u32::try_from(count).unwrap_or(u32::MAX)));
    }
    let mut data = vec![0; usize::try_from(size.min(SIZE_MAX)).unwrap_or(0)];
    let count = fill(&mut data)?;
    data.truncate(count);
    Ok(Answer::Data(data))
}

fn is_access_list(name: &OsStr) -> bool {
    name == "system.posix_acl_access" || name == "system.posix_acl_default"
}

/// The mode of a new file, as in other file systems: below a folder with a default access list the umask does not count (umask(2)).
pub(super) fn masked(parent: &Inode, mode: u32, umask: u32) -> Mode {
    let inherits = getxattr_query(parent.link(), "system.posix_acl_default").is_ok();
    Mode::from_raw_mode(if inherits { mode } else { mode & !umask } & 0o7777)
}

/// See [`Layer::drop_set_ids_of`].
pub(super) fn drop_set_ids(inode: &Inode, gid: u32) -> Result<()> {
    let stat = inode.stat()?;
    match without_set_ids(&stat, gid) {
        Some(mode) => chmodat(CWD, inode.link(), Mode::from_raw_mode(mode), AtFlags::empty()),
        None => Ok(()),
    }
}

/// `None`: nothing to clear. When the group may not execute the file, the set-group-id bit stays for a caller of that group (since Linux 6.2).
fn without_set_ids(stat: &Stat, gid: u32) -> Option<u32> {
    let bits = if stat.st_mode & 0o010 == 0 && stat.st_gid == gid { 0o4000 } else { 0o6000 };
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (is_file && stat.st_mode & bits != 0).then_some(stat.st_mode & 0o7777 & !bits)
}
