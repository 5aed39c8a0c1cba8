// SPDX-License-Identifier: Apache-2.0
//! A loop device over a file of a slow disk: attached, found again, detached. The name of its file identifies it, because that name carries the run's
//! id. Its number does not: the kernel gives a number to another device as soon as it is free. The device detaches by itself when nobody has it open
//! any more (autoclear); a device that somebody uses is never taken away.

use super::value::{Restored, read_value, restore_value};
use crate::mapper::numbers;
use crate::mounts::{MountedAt, mounted_anywhere};
use crate::permit::Permit;
use crate::process::{Identity, open_device};
use crate::{Error, interrupt};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file system that does not tell the inode of a file within this time counts as hanging.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// include/uapi/linux/loop.h: `loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `loop_config`, Linux 5.8.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device that is attached now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    /// `/dev/loop3`.
    pub path: PathBuf,
    /// The device number, as `stat` shows it.
    pub device: u64,
    /// Its reads and writes bypass the page cache of its file.
    pub direct: bool,
}

impl LoopDevice {
    /// The loop device whose file has this name. `None`: there is none any more.
    pub fn find(name: &str) -> Option<Self> {
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::at(&entry.path())).find_map(|(device, file)| (file == name).then_some(device))
    }

    /// The loop device of a folder below `/sys/block`, and the name of its file.
    fn at(sys: &Path) -> Option<(Self, String)> {
        let backing = fs::read_to_string(sys.join("loop/backing_file")).ok()?;
        let name = backing.trim_end().rsplit('/').next()?.to_owned();
        let path = Path::new("/dev").join(sys.file_name()?);
        let device = fs::metadata(&path).ok()?.rdev();
        let direct = fs::read_to_string(sys.join("loop/dio")).is_ok_and(|text| text.trim() == "1");
        Some((Self { path, device, direct }, name))
    }

    /// Where the device is mounted, in our mount namespace or in any other that can be seen.
    pub fn mount(&self) -> Option<MountedAt> {
        let numbers = numbers(self.device);
        mounted_anywhere(&|mount| mount.device == numbers)
    }

    /// Whether the device is mounted, or a process that is not in `own` has it open.
    pub fn is_used(&self, own: &[Identity]) -> bool {
        self.mount().is_some() || open_device(self.device).found.iter().any(|user| !own.contains(user))
    }
}

/// The canonical path of the file below each loop device of this host.
pub fn backing_files() -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let attached = entries.filter_map(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        Some((Path::new("/dev").join(entry.file_name()), PathBuf::from(file.trim_end())))
    });
    attached.collect()
}

/// A loop device to which nothing is attached now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeDevice(i32);

impl FreeDevice {
    /// Finds a free device; the kernel makes one where there is none.
    ///
    /// # Errors
    /// There are no loop devices here, or this user has no right to them.
    pub fn find() -> Result<Self, Error> {
        let control = open_node(Path::new("/dev/loop-control"), OFlags::RDWR)?;
        // SAFETY: takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(Error::call("ask for a free loop device", io::Error::last_os_error()));
        }
        Ok(Self(number))
    }

    /// Its folder below `/sys/block`.
    fn sys(self) -> PathBuf {
        Path::new("/sys/block").join(format!("loop{}", self.0))
    }

    /// The file that holds the device's read-ahead, and its present value. The kernel computes the value anew when a file is attached, from the
    /// properties of the file's disk, and keeps it after the file is detached (block/blk-settings.c, `blk_apply_bdi_limits`).
    pub fn read_ahead(self) -> Option<(PathBuf, String)> {
        let path = self.sys().join("queue/read_ahead_kb");
        let value = read_value(&path).ok()?;
        Some((path, value))
    }
}

/// Attaches the loop device to `file`, so that it bypasses the page cache, with sectors of `block_bytes`. It stays attached as long as the returned
/// descriptor, or another process, has it open. `None`: another program was faster.
///
/// # Errors
/// The file cannot be attached, or the device cannot bypass the page cache.
pub fn attach(
    _permit: &Permit,
    free: FreeDevice,
    file: BorrowedFd<'_>,
    name: &str,
    block_bytes: u32,
) -> Result<Option<(LoopDevice, OwnedFd)>, Error> {
    let path = PathBuf::from(format!("/dev/loop{}", free.0));
    let node = open_node(&path, OFlags::RDWR)?;
    match configure(node.as_fd(), file, name, block_bytes) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(None),
        Err(error) => return Err(Error::path("attach", path, error)),
    }
    // this descriptor has no right to write: udev reads a device when its last writer closes it
    let hold = open_node(&path, OFlags::RDONLY)?;
    match LoopDevice::at(&free.sys()) {
        Some((device, found)) if found == name && device.direct => Ok(Some((device, hold))),
        Some((device, _)) if !device.direct => {
            Err(Error::path("go past the page cache with", path, io::Error::from(io::ErrorKind::Unsupported)))
        }
        _ => Err(Error::path("find", path, io::Error::from(io::ErrorKind::NotFound))),
    }
}

/// Restores the read-ahead of a device, unless a file is attached: then the value is for that file. Returns whether it was changed.
///
/// # Errors
/// The value cannot be read or written. A device that is gone has no value, and is no error.
pub fn restore_read_ahead(permit: &Permit, path: &Path, before: &str) -> Result<bool, Error> {
    let attached = path.ancestors().nth(2).is_some_and(|device| device.join("loop/backing_file").exists());
    if attached || !path.exists() {
        return Ok(false);
    }
    let found = read_value(path)?;
    Ok(restore_value(permit, path, before, &[&found])? == Restored::Restored)
}

fn configure(node: BorrowedFd<'_>, file: BorrowedFd<'_>, name: &str, block_bytes: u32) -> io::Result<()> {
    // SAFETY: numbers and arrays of numbers, for which zeros are valid.
    let mut config: Config = unsafe { std::mem::zeroed() };
    config.fd = file.as_raw_fd().cast_unsigned();
    config.block_size = block_bytes;
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    let length = name.len().min(config.info.file_name.len() - 1);
    config.info.file_name[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: reads one `loop_config` from the pointer.
    let configured = unsafe { libc::ioctl(node.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if configured == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Detaches the loop device whose file has this name; other processes have `patience` to close it. Returns whether there was such a device.
///
/// # Errors
/// [`Error::Mounted`], or [`Error::Busy`] with the processes that have it open; the device detaches when they close it.
pub fn detach(_permit: &Permit, name: &str, patience: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + patience;
    let mut was_there = false;
    while let Some(device) = LoopDevice::find(name) {
        was_there = true;
        let mount = device.mount();
        if mount.is_none() {
            clear(&device.path, name)?;
        }
        if LoopDevice::find(name).is_none() {
            break;
        }
        let may_wait = Instant::now() < deadline && !interrupt::impatient();
        match mount {
            // a mount in another namespace ends with the last process of that namespace
            Some(mount) if mount.elsewhere.is_none() || !may_wait => {
                return Err(Error::Mounted { path: device.path, mount });
            }
            _ if may_wait => std::thread::sleep(Duration::from_millis(50)),
            _ => return Err(super::busy_by(&device.path, open_device(device.device).found)),
        }
    }
    Ok(was_there)
}

/// The number may have passed to another device before this opens it, so the open device is asked for the name of its file again.
fn clear(path: &Path, name: &str) -> Result<(), Error> {
    let node = match open_node(path, OFlags::RDONLY) {
        Err(error) if error.errno() == Some(libc::ENXIO) => return Ok(()),
        other => other?,
    };
    if label(node.as_fd()).as_deref() != Some(name) {
        return Ok(());
    }
    // SAFETY: takes no argument.
    if unsafe { libc::ioctl(node.as_raw_fd(), LOOP_CLR_FD) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if [Some(libc::ENXIO), Some(libc::EBUSY)].contains(&error.raw_os_error()) => Ok(()),
        error => Err(Error::path("detach", path, error)),
    }
}

/// The name of its file, as it was written into the device at the attach.
fn label(node: BorrowedFd<'_>) -> Option<String> {
    let info = status(node)?;
    let length = info.file_name.iter().position(|byte| *byte == 0).unwrap_or(info.file_name.len());
    Some(String::from_utf8_lossy(&info.file_name[..length]).into_owned())
}

/// The state of the device. `None`: no file is attached.
fn status(node: BorrowedFd<'_>) -> Option<Info> {
    // SAFETY: as in `configure`.
    let mut info: Info = unsafe { std::mem::zeroed() };
    // SAFETY: writes one `loop_info64` to the pointer.
    let answer = unsafe { libc::ioctl(node.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (answer == 0).then_some(info)
}

/// What is attached to a loop device, as `stat` names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backing {
    /// The device of the file's file system.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The block device itself, where one is attached; otherwise 0.
    pub(crate) rdevice: u64,
}

/// What is attached to a loop device. The kernel asks the file system of that file, which may hang: `None` also when there is no answer in time.
pub(crate) fn backing(device: &Path) -> Option<Backing> {
    let (answer, answered) = std::sync::mpsc::channel();
    let device = device.to_owned();
    let ask = move || {
        let node = open_node(&device, OFlags::RDONLY).ok()?;
        let Info { device, inode, rdevice, .. } = status(node.as_fd())?;
        Some(Backing { device, inode, rdevice })
    };
    std::thread::Builder::new().spawn(move || answer.send(ask())).ok()?;
    answered.recv_timeout(ANSWERS_WITHIN).ok().flatten()
}

fn open_node(path: &Path, flags: OFlags) -> Result<OwnedFd, Error> {
    open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| Error::path("open", path, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_large_as_the_kernel_says() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // a permit without a journal
    fn what_is_not_ours_is_not_detached() {
        assert!(!detach(&Permit::issue(1), "wringer-w-20261120-201530-0000", Duration::ZERO).expect("looks"));
    }
}
