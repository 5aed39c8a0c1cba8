// SPDX-License-Identifier: Apache-2.0

/// Gives the calling thread a table of descriptors of its own, with standard input, output and error alone in it. A thread that hangs
/// in the kernel outlives its process: nothing that it had open would be closed, and no lock of its freed. Returns whether that
/// worked; if not, the table is what it was.
pub fn without_descriptors() -> bool {
    // SAFETY: takes flags only, and changes the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    // SAFETY: closes what this thread's own table holds; nothing that lives in this thread owns one of them.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) == 0 }
}
