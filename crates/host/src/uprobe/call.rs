// SPDX-License-Identifier: Apache-2.0
//! Turns the results of system calls into errors.

use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// A descriptor that the kernel has just given to us.
pub(super) fn owned(descriptor: libc::c_long) -> Result<OwnedFd, Errno> {
    let Ok(descriptor) = i32::try_from(descriptor) else { return Err(Errno::BADF) };
    if descriptor < 0 {
        return Err(last());
    }
    // SAFETY: the call that returned it succeeded, and nobody else has it
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

pub(super) fn control(event: &OwnedFd, request: libc::c_ulong, argument: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: requests of perf events read or write no more than their argument names
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(last()) } else { Ok(()) }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
