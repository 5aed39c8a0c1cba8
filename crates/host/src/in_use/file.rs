// SPDX-License-Identifier: Apache-2.0
//! Finds the users of one file or block device, by whatever name they use it: it is known by the numbers of its inode, or of the device.

use super::{How, InUse, User, swaps, users};
use crate::Error;
use crate::change::loop_device::{backing, backing_files};
use crate::mounts::mounts_everywhere;
use crate::process::look_at;
use rustix::fs::{FallocateFlags, FileType, Statx, fallocate};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use units::MapsLine;

/// The numbers that identify a file or a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// Major and minor number of its file system's device, and its inode.
    Inode(u32, u32, u64),
    /// Major and minor number of a block device.
    Device(u32, u32),
}

impl Numbers {
    fn is(self, it: &Statx) -> bool {
        match self {
            Self::Inode(..) => self == Self::of_inode(it),
            Self::Device(major, minor) => {
                FileType::from_raw_mode(it.stx_mode.into()) == FileType::BlockDevice
                    && (it.stx_rdev_major, it.stx_rdev_minor) == (major, minor)
            }
        }
    }

    fn of_inode(it: &Statx) -> Self {
        Self::Inode(it.stx_dev_major, it.stx_dev_minor, it.stx_ino)
    }

    fn is_at(self, path: &Path) -> bool {
        look_at(path).is_some_and(|it| self.is(&it))
    }

    /// The first use by a process.
    fn used_by(self, pid: u32) -> std::io::Result<Option<(How, PathBuf)>> {
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            if link.is_absolute() && self.is_at(&entry.path()) {
                return Ok(Some((How::Open, link)));
            }
        }
        Ok(self.mapped_by(pid)?.map(|path| (How::Mapped, path)))
    }

    /// The first mapping of it. Some file systems have other numbers in `/proc/PID/maps` than `stat` has: so the mapped file itself is looked at, where
    /// we may.
    fn mapped_by(self, pid: u32) -> std::io::Result<Option<PathBuf>> {
        let text = fs::read(format!("/proc/{pid}/maps"))?;
        let text = String::from_utf8_lossy(&text);
        let mut last = "";
        Ok(text.lines().find_map(|line| {
            let addresses = line.split(' ').next()?;
            let line = MapsLine::parse(line)?;
            let path = line.path()?;
            if std::mem::replace(&mut last, path) == path {
                return None;
            }
            let is_it = match look_at(Path::new(&format!("/proc/{pid}/map_files/{addresses}"))) {
                Some(it) => self.is(&it),
                None => self == Self::in_maps(&line)?,
            };
            is_it.then(|| path.into())
        }))
    }

    fn in_maps(line: &MapsLine<'_>) -> Option<Self> {
        let (major, minor) = line.device_numbers()?;
        Some(Self::Inode(major, minor, line.inode))
    }

    /// Compares the path that was attached, and the numbers of the file or device, because the path may lead nowhere now, or to another file. A file
    /// system that does not answer cannot be the one of this file, which has answered.
    fn loops(self) -> impl Iterator<Item = User> {
        use rustix::fs::{major, minor};
        let is_it = move |device: &Path, file: &Path| {
            let attached = || {
                let it = backing(device)?;
                Some(match self {
                    Self::Inode(..) => Self::Inode(major(it.device), minor(it.device), it.inode),
                    Self::Device(..) => Self::Device(major(it.rdevice), minor(it.rdevice)),
                })
            };
            self.is_at(file) || attached() == Some(self)
        };
        let attached = backing_files().into_iter().filter(move |(device, file)| is_it(device, file));
        attached.map(|(device, file)| User::Loop { device, file })
    }

    /// Finds it by the path in `/proc/swaps`, looked up in every mount namespace that can be seen.
    fn swap(self) -> Option<User> {
        let files = swaps();
        if files.is_empty() {
            return None;
        }
        let pids: Vec<u32> = mounts_everywhere().unwrap_or_default().into_iter().map(|it| it.pid).collect();
        let is_it = |file: &PathBuf| {
            let inside = file.strip_prefix("/").unwrap_or(file);
            pids.iter().any(|pid| self.is_at(&Path::new(&format!("/proc/{pid}/root")).join(inside)))
        };
        files.into_iter().find(is_it).map(|file| User::Swap { file })
    }
}

/// Every other user of a file: a process that has it open or mapped, a loop device, the kernel as swap; by whatever path.
///
/// # Errors
/// The file cannot be looked at.
pub fn file(path: &Path) -> Result<InUse, Error> {
    let it = look_at(path).ok_or_else(|| Error::path("look at", path, std::io::ErrorKind::NotFound))?;
    let numbers = Numbers::of_inode(&it);
    let mut in_use = used(numbers);
    in_use.by.extend(numbers.loops());
    let by_name = numbers.swap();
    in_use.by.extend(by_name.or_else(|| is_swap_file(path).then(|| User::Swap { file: path.to_owned() })));
    Ok(in_use)
}

/// Every other process that has a block device open or mapped, by whatever node, and every loop device to which it is attached: the kernel lists no loop device
/// among a device's holders, and gives it to another user as one of its own.
pub fn open_or_attached(device: u64) -> InUse {
    let numbers = Numbers::Device(rustix::fs::major(device), rustix::fs::minor(device));
    let mut in_use = used(numbers);
    in_use.by.extend(numbers.loops());
    in_use
}

fn used(numbers: Numbers) -> InUse {
    let own = std::process::id();
    let (by, unseen) = users(&|pid| if pid == own { Ok(None) } else { numbers.used_by(pid) });
    InUse { by, unseen }
}

/// Whether the kernel swaps to the file, by whatever name: the kernel refuses to grow a swap file (ETXTBSY). The asked size is one that no file can
/// have (EFBIG), so that nothing is changed.
fn is_swap_file(path: &Path) -> bool {
    let last = u64::try_from(i64::MAX).unwrap_or_default();
    let answer = |file: fs::File| fallocate(&file, FallocateFlags::KEEP_SIZE, last, 1);
    crate::files::open_existing(path).is_ok_and(|file| answer(file) == Err(Errno::TXTBSY))
}
