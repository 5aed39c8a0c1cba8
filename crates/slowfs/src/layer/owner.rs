// SPDX-License-Identifier: Apache-2.0
//! New files belong to the caller from the first moment on: a file that belonged to root until a later chown would lock a
//! server out when the layer dies in between.

use fuser::Request;
use rustix::io::{Errno, Result};

/// Runs `make` with the file-system identity of `caller` when this process is root and the caller is not, else as it is. When the
/// caller is refused (its supplementary groups are not known here; the kernel has already checked its right), `make` runs as root
/// and `give` hands the result over.
pub(super) fn as_caller<T>(
    caller: &Request,
    make: impl Fn() -> Result<T>,
    give: impl Fn(&T) -> Result<()>,
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
        Err(Errno::ACCESS | Errno::PERM) => {
            let made = make()?;
            give(&made)?;
            Ok(made)
        }
        result => result,
    }
}

/// This thread's file-system uid and gid, root's again on drop. Both are per thread in the kernel, and in glibc and musl.
struct Identity;

impl Identity {
    fn take(uid: u32, gid: u32) -> Self {
        // SAFETY: plain system calls on this thread's credentials. The group goes first, while the right to change it is there.
        unsafe {
            libc::setfsgid(gid);
            libc::setfsuid(uid);
        }
        Self
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        // SAFETY: as above; the effective uid is still root's, so both are allowed, and the capabilities come back with the uid.
        unsafe {
            libc::setfsuid(0);
            libc::setfsgid(0);
        }
    }
}
