// SPDX-License-Identifier: Apache-2.0
//! Reads and changes attributes.

use super::extended::drop_set_ids;
use super::{Layer, Opened};
use fuser::{FileAttr, FileHandle, FileType, INodeNo, TimeOrNow};
use rustix::fs::{
    AtFlags, CWD, FileType as Kind, Mode, OFlags, Stat, Timestamps, chmodat, chownat, ftruncate, utimensat,
};
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use rustix::time::Timespec;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The changes that a setattr request asks for; `None`: no change.
pub(super) struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    /// The caller's group when the file is cut: a caller of this group may not keep its set-id bits.
    pub drops_set_ids: Option<u32>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
}

impl Layer {
    pub(super) fn change_attributes(&self, number: u64, handle: Option<FileHandle>, changes: Changes) -> Result<Stat> {
        let inode = self.inodes.get(number)?;
        if changes.uid.is_some() || changes.gid.is_some() {
            let (uid, gid) = (changes.uid.map(Uid::from_raw), changes.gid.map(Gid::from_raw));
            chownat(inode.as_ref(), "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        // After the change of owner, because that clears set-id bits.
        if let Some(mode) = changes.mode {
            chmodat(CWD, inode.link(), Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?;
        }
        if let Some(gid) = changes.drops_set_ids {
            drop_set_ids(&inode, gid)?;
        }
        if let Some(size) = changes.size {
            self.change(&inode, || self.truncate(&inode, handle, size))?;
            #[cfg(feature = "failpoints")]
            if let Some(lost) = &self.lost {
                lost.truncate(number, size);
            }
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = Timestamps { last_access: time(changes.accessed), last_modification: time(changes.modified) };
            self.change(&inode, || utimensat(inode.as_ref(), "", &times, AtFlags::EMPTY_PATH))?;
        }
        inode.stat()
    }

    fn truncate(&self, inode: &crate::inode::Inode, handle: Option<FileHandle>, size: u64) -> Result<()> {
        if let Some(handle) = handle
            && let Opened::File(_, open) = self.opened(handle)?.as_ref()
        {
            match ftruncate(open.file(), size) {
                Err(Errno::INVAL | Errno::BADF) => {}
                result => return result,
            }
        }
        ftruncate(inode.open(OFlags::WRONLY)?, size)
    }
}

#[allow(clippy::useless_conversion)] // the width of st_nlink differs between processors
pub(super) fn attributes(number: u64, stat: &Stat) -> FileAttr {
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    FileAttr {
        ino: INodeNo(number),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: moment(stat.st_atime, stat.st_atime_nsec),
        mtime: moment(stat.st_mtime, stat.st_mtime_nsec),
        ctime: moment(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: file_type(Kind::from_raw_mode(stat.st_mode)),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: narrow(u64::from(stat.st_nlink)),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: narrow(stat.st_rdev),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::RegularFile | Kind::Unknown => FileType::RegularFile,
    }
}

fn moment(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let fraction = Duration::from_nanos(u64::from(nanoseconds.try_into().unwrap_or(0)));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    if seconds >= 0 { UNIX_EPOCH + whole + fraction } else { UNIX_EPOCH - whole + fraction }
}

fn time(wanted: Option<TimeOrNow>) -> Timespec {
    const UTIME_NOW: i64 = (1 << 30) - 1;
    const UTIME_OMIT: i64 = (1 << 30) - 2;
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match wanted {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(since.subsec_nanos()),
            },
            Err(before) => before_epoch(before.duration()),
        },
    }
}

/// Before 1970, too, the nanoseconds count forward.
fn before_epoch(before: Duration) -> Timespec {
    let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
    match before.subsec_nanos() {
        0 => Timespec { tv_sec: -seconds, tv_nsec: 0 },
        nanoseconds => Timespec { tv_sec: -seconds - 1, tv_nsec: 1_000_000_000 - i64::from(nanoseconds) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_both_ways_also_before_1970() {
        for (seconds, nanoseconds) in [(0i64, 0u32), (1_700_000_000, 999_999_999), (-1, 500_000_000), (-86_400, 0)] {
            let back = time(Some(TimeOrNow::SpecificTime(moment(seconds, nanoseconds))));
            assert_eq!((back.tv_sec, back.tv_nsec), (seconds, i64::from(nanoseconds)));
        }
    }
}
