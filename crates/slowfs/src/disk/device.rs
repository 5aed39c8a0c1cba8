// SPDX-License-Identifier: Apache-2.0
//! `/dev/fuse` for a disk: descriptors that stay open when a worker dies.
//!
//! Each thread has its own descriptor, so that the threads share no lock. The keeper keeps all of them open: when the last holder
//! of a descriptor is gone, the kernel answers the requests taken from it with an error.

use super::image::Image;
use crate::Error;
use fuser::{Config, Filesystem, InitFlags, KernelConfig, Request, Session, SessionACL, Version};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::sync::{Arc, OnceLock};

/// The first protocol that knows `FUSE_NOTIFY_RESEND`: Linux 6.9.
pub const RESEND_SINCE: (u32, u32) = (7, 40);

const MAX_WRITE_BYTES: u32 = 1024 * 1024;
/// The kernel's default of 12 would throttle a disk with a deep queue.
const MAX_BACKGROUND: u16 = 512;
/// include/uapi/linux/fuse.h: `_IOR(229, 0, uint32_t)`.
const FUSE_DEV_IOC_CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
const FUSE_NOTIFY_RESEND: i32 = 7;
const FUSE_INIT: u32 = 26;

pub(super) fn open_device() -> Result<OwnedFd, Error> {
    open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::Device { source: errno.into() })
}

/// Opens another descriptor of the same connection; it takes requests independently.
pub(super) fn clone_device(device: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let clone = open_device()?;
    let number = device.as_raw_fd().cast_unsigned();
    // SAFETY: the ioctl reads one u32, a descriptor's number, from the pointer.
    let asked = unsafe { rustix::ioctl::ioctl(&clone, rustix::ioctl::Setter::<FUSE_DEV_IOC_CLONE, u32>::new(number)) };
    asked.map_err(|errno| Error::Serve { operation: "clone the FUSE descriptor", source: errno.into() })?;
    Ok(clone)
}

/// The protocol of this kernel, guessed from its release without a mount. The real one is agreed on when a disk is served.
pub fn protocol() -> Option<(u32, u32)> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse::<u32>().ok());
    let kernel = (numbers.next()?, numbers.next()?);
    Some(if kernel >= (6, 9) { RESEND_SINCE } else { (7, RESEND_SINCE.1 - 1) })
}

/// Reads the kernel's first request, and agrees on the protocol.
pub(super) fn shake_hands(device: BorrowedFd<'_>) -> Result<Version, Error> {
    let agreed = Arc::new(OnceLock::new());
    let device = device.try_clone_to_owned().map_err(failed)?;
    Session::from_fd(Handshake(agreed.clone()), device, SessionACL::All, Config::default()).map_err(failed)?;
    agreed.get().copied().ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
}

fn failed(source: io::Error) -> Error {
    Error::Serve { operation: "shake hands with the kernel", source }
}

struct Handshake(Arc<OnceLock<Version>>);

impl Filesystem for Handshake {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = self.0.set(config.kernel_abi());
        for flag in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_BIG_WRITES,
            InitFlags::FUSE_MAX_PAGES,
        ] {
            let _ = config.add_capabilities(flag);
        }
        let accepted = config.set_max_write(MAX_WRITE_BYTES).is_ok()
            && config.set_max_background(MAX_BACKGROUND).is_ok()
            && config.set_congestion_threshold(MAX_BACKGROUND).is_ok();
        if accepted { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

/// A session on a connection whose handshake is over. The library begins each session with a handshake. So we answer it over a
/// socket, and then replace the socket's descriptor by the device.
pub(super) fn session(device: BorrowedFd<'_>, image: Image) -> io::Result<Session<Image>> {
    let (library, kernel) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::write(&kernel, &init_request())?;
    let mut config = Config::default();
    config.n_threads = Some(1);
    let session = Session::from_fd(image, library, SessionACL::All, config)?;
    // SAFETY: both numbers are open. The second one was our socket, which dup2 closes.
    if unsafe { libc::dup3(device.as_raw_fd(), session.as_fd().as_raw_fd(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(session)
}

/// The request as the kernel would send it: `fuse_in_header` (length, opcode, unique, node, uid, gid, pid, extensions, padding) and
/// `fuse_init_in` (version, read-ahead, flags, more flags, reserve).
fn init_request() -> Vec<u8> {
    const BYTES: u32 = 40 + 64;
    let mut bytes = Vec::with_capacity(BYTES as usize);
    bytes.extend([BYTES, FUSE_INIT].map(u32::to_ne_bytes).concat());
    bytes.extend([1, 0].map(u64::to_ne_bytes).concat());
    bytes.resize(40, 0);
    bytes.extend([7, RESEND_SINCE.1, 0, 0, 0].map(u32::to_ne_bytes).concat());
    bytes.resize(BYTES as usize, 0);
    bytes
}

/// Asks the kernel to send all unanswered requests again: a `fuse_out_header` without a request's number.
pub(super) fn resend(device: BorrowedFd<'_>) -> io::Result<()> {
    let mut header = Vec::with_capacity(16);
    header.extend(16_u32.to_ne_bytes());
    header.extend(FUSE_NOTIFY_RESEND.to_ne_bytes());
    header.extend(0_u64.to_ne_bytes());
    rustix::io::write(device, &header)?;
    Ok(())
}
