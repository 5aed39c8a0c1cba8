// SPDX-License-Identifier: Apache-2.0

/// Gives the calling thread its own table of descriptors, which has only standard input, output and error. This is for a thread that may hang in the
/// kernel and so outlive its process: with the common table, no descriptor of the process would be closed, and no lock would be freed. Returns
/// whether it worked; if not, the table is unchanged.
pub fn without_descriptors() -> bool {
    // SAFETY: takes flags only, and changes the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    // SAFETY: closes the descriptors in this thread's own table; no value that lives in this thread owns one of them.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) == 0 }
}
