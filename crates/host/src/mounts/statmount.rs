// SPDX-License-Identifier: Apache-2.0
//! statmount(2), since Linux 6.8: reads mounts by ids that are never given again.

use std::io;

/// The number is the same for every architecture.
const SYS_STATMOUNT: libc::c_long = 457;
const STATMOUNT_MNT_BASIC: u64 = 2;

/// `mnt_id_req` of linux/mount.h, its first version.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    param: u64,
}

/// `statmount`, up to the last field that is read here; the kernel fills 512 bytes.
#[repr(C)]
struct Answer {
    size: u32,
    options: u32,
    mask: u64,
    super_block: [u32; 6],
    unique: u64,
    unique_parent: u64,
    id: u32,
    parent: u32,
    rest: [u8; 448],
}

/// The id that mountinfo shows for the mount, in our namespace.
///
/// # Errors
/// The kernel does not know such ids. `Ok(None)`: the mount is gone, or in another namespace.
pub(super) fn old_id(unique: u64) -> Result<Option<u64>, io::Error> {
    let request = Request { size: 24, spare: 0, id: unique, param: STATMOUNT_MNT_BASIC };
    // SAFETY: numbers and arrays of numbers, for which zeros are valid.
    let mut answer: Answer = unsafe { std::mem::zeroed() };
    // SAFETY: reads one `mnt_id_req`, and writes at most as many bytes as it is told.
    let result = unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, &raw mut answer, size_of::<Answer>(), 0) };
    if result == 0 {
        return Ok((answer.mask & STATMOUNT_MNT_BASIC != 0).then_some(u64::from(answer.id)));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_large_as_the_kernel_says() {
        assert_eq!((size_of::<Request>(), size_of::<Answer>()), (24, 512));
    }

    #[test]
    fn the_root_has_the_id_that_mountinfo_shows() {
        let mark = crate::mounts::Mark::of(std::path::Path::new("/proc")).expect("is there");
        let shown = crate::mounts::mounts_at(std::path::Path::new("/proc")).expect("reads").pop().expect("is mounted");
        assert_eq!((mark.id, &mark.device), (shown.id, &shown.device));
        let Some(unique) = mark.unique else { return };
        assert_eq!(old_id(unique).expect("the kernel knows it"), Some(shown.id));
        assert_eq!(old_id(u64::MAX).expect("the kernel looks"), None);
    }
}
