// SPDX-License-Identifier: Apache-2.0
//! The library's own system calls. They leave `errno` alone, and are no cancellation points.

use core::arch::asm;

pub(super) const RDWR: usize = 2;
pub(super) const CLOEXEC: usize = 0o2_000_000;
pub(super) const DSYNC: i32 = 0o10_000;
#[cfg(target_arch = "x86_64")]
pub(super) const DIRECT: i32 = 0o40_000;
#[cfg(target_arch = "aarch64")]
pub(super) const DIRECT: i32 = 0o200_000;
const AT_FDCWD: usize = -100isize as usize;
const RWF_NOWAIT: usize = 8;
pub(super) const EAGAIN: isize = -11;
const ERANGE: isize = 34;
/// cachestat(2), the same number on every architecture (Linux 6.5).
const CACHESTAT: usize = 451;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const CLOSE: usize = 3;
    pub(super) const FSTAT: usize = 5;
    pub(super) const LSEEK: usize = 8;
    pub(super) const MMAP: usize = 9;
    pub(super) const FCNTL: usize = 72;
    pub(super) const PRCTL: usize = 157;
    pub(super) const FUTEX: usize = 202;
    pub(super) const OPENAT: usize = 257;
    pub(super) const READLINKAT: usize = 267;
    pub(super) const PREADV2: usize = 327;
    /// The place of `st_mode` in `struct stat`.
    pub(super) const MODE_OFFSET: usize = 24;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const FCNTL: usize = 25;
    pub(super) const OPENAT: usize = 56;
    pub(super) const CLOSE: usize = 57;
    pub(super) const LSEEK: usize = 62;
    pub(super) const READLINKAT: usize = 78;
    pub(super) const FSTAT: usize = 80;
    pub(super) const FUTEX: usize = 98;
    pub(super) const PRCTL: usize = 167;
    pub(super) const MMAP: usize = 222;
    pub(super) const PREADV2: usize = 286;
    /// The place of `st_mode` in `struct stat`.
    pub(super) const MODE_OFFSET: usize = 16;
}

/// Returns the kernel's result, or a negative error number.
unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's; the clobbered registers are those of the kernel's calling convention.
    unsafe {
        asm!("syscall", inlateout("rax") number.cast_signed() => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => result, in("x1") a[1], in("x2") a[2], in("x3") a[3],
            in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

/// The result of fstat(2).
#[derive(Clone, Copy)]
pub(super) struct File {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) kind: u32,
}

impl File {
    pub(super) const REGULAR: u32 = 0o100_000;
    pub(super) const DIRECTORY: u32 = 0o040_000;
}

pub(super) fn file(descriptor: i32) -> Option<File> {
    let mut stat = [0u64; 32];
    // SAFETY: the buffer is larger than the structure.
    let result = unsafe { call(number::FSTAT, [descriptor as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    let mode = stat[number::MODE_OFFSET / 8] & 0xffff_ffff;
    let kind = u32::try_from(mode & 0o170_000).unwrap_or(0);
    (result == 0).then_some(File { device: stat[0], inode: stat[1], size: stat[6], kind })
}

pub(super) fn flags(descriptor: i32) -> i32 {
    const F_GETFL: usize = 3;
    // SAFETY: changes nothing.
    let flags = unsafe { call(number::FCNTL, [descriptor as usize, F_GETFL, 0, 0, 0, 0]) };
    i32::try_from(flags).unwrap_or(0).max(0)
}

/// The descriptor's position; `None` when it has none.
pub(super) fn position(descriptor: i32) -> Option<u64> {
    const SEEK_CUR: usize = 1;
    // SAFETY: moves nothing.
    let position = unsafe { call(number::LSEEK, [descriptor as usize, 0, SEEK_CUR, 0, 0, 0]) };
    u64::try_from(position).ok()
}

/// `struct iovec`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Vector {
    pub(super) base: *mut u8,
    pub(super) bytes: usize,
}

/// Reads from the page cache only: preadv2(2), `RWF_NOWAIT`. `Err`: the page cache has nothing of it, or the file system cannot
/// tell. `RWF_NOWAIT` does not wait for the disk, but starts the read. A disk that answers at once would then look like the page
/// cache, so cachestat(2) is asked first, where the kernel has it. `wanted`: the length of all vectors together.
pub(super) unsafe fn read_cached(
    descriptor: i32,
    vectors: &[Vector],
    wanted: usize,
    offset: u64,
) -> Result<usize, isize> {
    if cached_pages(descriptor, offset, wanted) == Some(0) {
        return Err(EAGAIN);
    }
    let place = [usize::try_from(offset).unwrap_or(0), 0];
    let arguments = [descriptor as usize, vectors.as_ptr() as usize, vectors.len(), place[0], place[1], RWF_NOWAIT];
    // SAFETY: the caller's buffers.
    let result = unsafe { call(number::PREADV2, arguments) };
    usize::try_from(result).map_err(|_| result)
}

/// How many pages of this range are in the page cache. `None`: the kernel cannot tell.
fn cached_pages(descriptor: i32, offset: u64, bytes: usize) -> Option<u64> {
    // `struct cachestat_range`: an empty one would mean all of the file
    let range = [offset, u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?];
    // `struct cachestat`: cached, dirty, in writeback, evicted, recently evicted
    let mut found = [0u64; 5];
    let arguments = [descriptor as usize, range.as_ptr() as usize, found.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: reads two words and writes five.
    let result = unsafe { call(CACHESTAT, arguments) };
    (result == 0).then_some(found[0])
}

pub(super) fn open(path: &Path) -> Option<i32> {
    // SAFETY: the path ends with a zero.
    let result = unsafe { call(number::OPENAT, [AT_FDCWD, path.bytes.as_ptr() as usize, RDWR | CLOEXEC, 0, 0, 0]) };
    i32::try_from(result).ok().filter(|descriptor| *descriptor >= 0)
}

pub(super) fn close(descriptor: i32) {
    // SAFETY: the descriptor belongs to this library.
    unsafe { call(number::CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

pub(super) fn map_shared(descriptor: i32, bytes: usize) -> Option<*mut u8> {
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    // SAFETY: a new mapping where the kernel wants it.
    let result = unsafe { call(number::MMAP, [0, bytes, READ_WRITE, SHARED, descriptor as usize, 0]) };
    (result > 0).then_some(result as *mut u8)
}

/// The path of an open descriptor, as /proc shows it.
pub(super) fn path_of(descriptor: i32, buffer: &mut [u8]) -> Result<usize, isize> {
    let mut link = Path::new();
    link.push(b"/proc/self/fd/").push_number(descriptor);
    let arguments = [AT_FDCWD, link.bytes.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0];
    // SAFETY: the path ends with a zero, and the buffer has the stated length.
    let result = unsafe { call(number::READLINKAT, arguments) };
    match usize::try_from(result) {
        Ok(bytes) if bytes < buffer.len() => Ok(bytes),
        Ok(_) => Err(-ERANGE),
        Err(_) => Err(result),
    }
}

pub(super) enum Slept {
    TimedOut,
    /// The word has changed, or a signal came.
    Woken,
}

/// Sleeps until `until_ns` on `CLOCK_MONOTONIC`, or until the shared word changes: futex(2).
pub(super) fn sleep(word: &core::sync::atomic::AtomicU32, seen: u32, until_ns: u64) -> Slept {
    const WAIT_BITSET: usize = 9;
    const ALL: usize = 0xffff_ffff;
    const ETIMEDOUT: isize = 110;
    let time = [until_ns / 1_000_000_000, until_ns % 1_000_000_000];
    let arguments = [core::ptr::from_ref(word) as usize, WAIT_BITSET, seen as usize, time.as_ptr() as usize, 0, ALL];
    // SAFETY: the word and the time live through the call.
    match unsafe { call(number::FUTEX, arguments) } {
        result if result == -ETIMEDOUT => Slept::TimedOut,
        _ => Slept::Woken,
    }
}

/// Sets the timer slack of this thread. The kernel's default is 50 us, and the least is 1 ns: prctl(2), `PR_SET_TIMERSLACK`.
pub(super) fn timer_slack() -> usize {
    const GET: usize = 30;
    // SAFETY: changes nothing.
    usize::try_from(unsafe { call(number::PRCTL, [GET, 0, 0, 0, 0, 0]) }).unwrap_or(0)
}

pub(super) fn set_timer_slack(ns: usize) {
    const SET: usize = 29;
    // SAFETY: this changes only the timers of this thread.
    unsafe { call(number::PRCTL, [SET, ns, 0, 0, 0, 0]) };
}

/// A short path, built without allocation.
pub(super) struct Path {
    bytes: [u8; 64],
    len: usize,
}

impl Path {
    pub(super) fn new() -> Self {
        Self { bytes: [0; 64], len: 0 }
    }

    /// Text that does not fit is left out; the last byte stays zero.
    pub(super) fn push(&mut self, text: &[u8]) -> &mut Self {
        for byte in text {
            if self.len + 1 < self.bytes.len()
                && let Some(place) = self.bytes.get_mut(self.len)
            {
                *place = *byte;
                self.len += 1;
            }
        }
        self
    }

    pub(super) fn push_number(&mut self, number: i32) -> &mut Self {
        let mut divisor = 1_000_000_000;
        while divisor > 1 && number < divisor {
            divisor /= 10;
        }
        while divisor > 0 {
            let digit = u8::try_from(number / divisor % 10).unwrap_or(0);
            self.push(&[b'0' + digit]);
            divisor /= 10;
        }
        self
    }
}

#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    fn __errno_location() -> *mut i32;
}

/// Nanoseconds on `CLOCK_MONOTONIC`, from the C library, which mostly needs no system call.
pub(super) fn now() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: fills the structure; this clock always exists.
    unsafe { clock_gettime(MONOTONIC, &mut time) };
    time.seconds.unsigned_abs() * 1_000_000_000 + time.nanoseconds.unsigned_abs()
}

pub(super) fn errno() -> i32 {
    // SAFETY: this thread's own.
    unsafe { *__errno_location() }
}

pub(super) fn set_errno(value: i32) {
    // SAFETY: this thread's own.
    unsafe { *__errno_location() = value };
}
