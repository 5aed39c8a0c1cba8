// SPDX-License-Identifier: Apache-2.0
//! Gives new files to the caller from the beginning. A file that belonged to root until a later chown would lock a server out if
//! the layer died in between.

use fuser::Request;
use rustix::io::{Errno, Result};

/// Runs `make` with the file-system identity of `caller` if this process is root and the caller is not; else with its own. When the
/// kernel refuses the caller, `by_root` makes it as root, and changes the owner. (The caller's supplementary groups are unknown
/// here; the kernel has already checked the caller's right.)
pub(super) fn as_caller<T>(
    caller: &Request,
    make: impl FnOnce() -> Result<T>,
    by_root: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let (uid, gid) = (caller.uid(), caller.gid());
    if !rustix::process::geteuid().is_root() || uid == 0 {
        return make();
    }
    let first = {
        let _identity = Identity::take(uid, gid);
        make()
    };
    match first {
        Err(Errno::ACCESS | Errno::PERM) => by_root(),
        result => result,
    }
}

/// This thread's file-system uid and gid, root's again on drop. Both are per thread in the kernel, and in glibc and musl.
struct Identity;

impl Identity {
    fn take(uid: u32, gid: u32) -> Self {
        // SAFETY: plain system calls on this thread's credentials. The group changes first, while this thread still has the right to change it.
        unsafe {
            libc::setfsgid(gid);
            libc::setfsuid(uid);
        }
        Self
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        // SAFETY: as above; the effective uid is still root's, so both calls are allowed, and the capabilities return with the uid.
        unsafe {
            libc::setfsuid(0);
            libc::setfsgid(0);
        }
    }
}
