// SPDX-License-Identifier: Apache-2.0
//! The functions that read, write and sync. They do the work first, and then hold the operation if it reached the disk.
//!
//! A read is held unless the page cache has all of it; the page cache is asked before the read. A write is held when it is direct
//! or synchronous. The kernel does other writes later, and the sync after them is held.

use super::changed_descriptors::pass;
use super::files::{Slow, slow};
use super::hold::{Done, hold, in_force};
use super::next::{Function, missing, next};
use super::sys::{self, Vector};
use crate::class::Class;
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering::Relaxed;

/// The place where a read or a write begins.
#[derive(Clone, Copy)]
enum At {
    /// The descriptor's position, which moves.
    Position,
    Offset(u64),
}

impl At {
    /// `preadv2` and `pwritev2` take -1 for the descriptor's own position.
    fn or_position(offset: i64) -> Self {
        u64::try_from(offset).map_or(Self::Position, Self::Offset)
    }

    fn offset(self, descriptor: i32) -> u64 {
        match self {
            Self::Position => sys::position(descriptor).unwrap_or(0),
            Self::Offset(offset) => offset,
        }
    }
}

#[inline]
unsafe fn reading(descriptor: i32, vectors: &[Vector], at: At, real: impl FnOnce() -> isize) -> isize {
    match slow(descriptor).filter(|slow| in_force(*slow)) {
        None => real(),
        // SAFETY: the caller's buffers.
        Some(slow) => unsafe { read_slowly(slow, descriptor, vectors, at, real) },
    }
}

/// The read itself is always one call of the C library, so that it is as atomic as without this library. Whether the page cache has
/// the data is asked for the place that the caller names. If only a trial read can tell, its data is overwritten by the real read.
unsafe fn read_slowly(slow: Slow, descriptor: i32, vectors: &[Vector], at: At, real: impl FnOnce() -> isize) -> isize {
    let arrived = sys::now();
    let shared = slow.shared;
    let wanted: usize = vectors.iter().map(|vector| vector.bytes).sum();
    let offset = at.offset(descriptor);
    let mut cached = None;
    if sys::flags(descriptor) & sys::DIRECT == 0 {
        // SAFETY: the caller's buffers, which the read is to fill.
        cached = match unsafe { sys::read_cached(descriptor, vectors, wanted, offset) } {
            Ok(bytes) => Some(bytes),
            Err(sys::EAGAIN) => Some(0),
            Err(_) => {
                shared.unseen_reads.fetch_add(1, Relaxed);
                None
            }
        };
        if let (At::Offset(_), Some(bytes)) = (at, cached)
            && bytes == wanted
            && wanted > 0
        {
            shared.cached_reads.fetch_add(1, Relaxed);
            return isize::try_from(bytes).unwrap_or(isize::MAX);
        }
    }
    let result = real();
    match usize::try_from(result) {
        Ok(0) => {}
        Ok(bytes) if cached.is_some_and(|cached| cached >= bytes) => drop(shared.cached_reads.fetch_add(1, Relaxed)),
        Ok(bytes) => finish(slow, descriptor, Done { class: Class::Read, offset, bytes, arrived }),
        Err(_) => drop(shared.errors.fetch_add(1, Relaxed)),
    }
    result
}

/// Holds the operation, unless the descriptor means another file by now.
fn finish(slow: Slow, descriptor: i32, done: Done) {
    let errno = sys::errno();
    if let Some((slow, file)) = slow.confirm(descriptor) {
        hold(slow, &file, done);
    }
    sys::set_errno(errno);
}

#[inline]
fn writing(descriptor: i32, at: At, flags: c_int, real: impl FnOnce() -> isize) -> isize {
    match slow(descriptor).filter(|slow| in_force(*slow)) {
        None => real(),
        Some(slow) => write_slowly(slow, descriptor, at, flags, real),
    }
}

fn write_slowly(slow: Slow, descriptor: i32, at: At, flags: c_int, real: impl FnOnce() -> isize) -> isize {
    /// `RWF_DSYNC` and `RWF_SYNC`.
    const SYNCHRONOUS: c_int = 2 | 4;
    let arrived = sys::now();
    let opened = sys::flags(descriptor);
    let synchronous = opened & sys::DSYNC != 0 || flags & SYNCHRONOUS != 0;
    let held = synchronous || opened & sys::DIRECT != 0;
    let result = real();
    let Ok(bytes) = usize::try_from(result) else {
        slow.shared.errors.fetch_add(1, Relaxed);
        return result;
    };
    if !held {
        slow.shared.buffered_writes.fetch_add(1, Relaxed);
    } else if bytes > 0 {
        // After a write, also an appending one, the descriptor's position is behind the written data.
        let offset = match at {
            At::Position => At::Position.offset(descriptor).saturating_sub(bytes as u64),
            At::Offset(offset) => offset,
        };
        finish(slow, descriptor, Done { class: Class::Write, offset, bytes, arrived });
        if synchronous {
            finish(slow, descriptor, Done { class: Class::Sync, offset: 0, bytes: 0, arrived: sys::now() });
        }
    }
    result
}

#[inline]
fn syncing(descriptor: i32, real: impl FnOnce() -> c_int) -> c_int {
    let Some(slow) = slow(descriptor).filter(|slow| in_force(*slow)) else { return real() };
    let arrived = sys::now();
    let result = real();
    if result == 0 {
        finish(slow, descriptor, Done { class: Class::Sync, offset: 0, bytes: 0, arrived });
    } else {
        slow.shared.errors.fetch_add(1, Relaxed);
    }
    result
}

unsafe fn vectors<'a>(first: *const Vector, count: c_int) -> &'a [Vector] {
    match usize::try_from(count) {
        // SAFETY: the caller promises that there are `count` vectors.
        Ok(count) if count > 0 && !first.is_null() => unsafe { core::slice::from_raw_parts(first, count) },
        _ => &[],
    }
}

/// Functions that read one buffer.
macro_rules! reads {
    ($($name:ident($descriptor:ident, $buffer:ident, $bytes:ident $(, $more:ident: $type:ty)*), $at:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($descriptor: c_int, $buffer: *mut u8, $bytes: usize $(, $more: $type)*) -> isize {
            let real = || pass!($name($descriptor: c_int, $buffer: *mut u8, $bytes: usize $(, $more: $type)*) -> isize);
            let whole = [Vector { base: $buffer, bytes: $bytes }];
            // SAFETY: the caller's buffer.
            unsafe { reading($descriptor, &whole, $at, real) }
        }
    )*};
}

reads! {
    read(descriptor, buffer, bytes), At::Position;
    pread(descriptor, buffer, bytes, offset: i64), At::or_position(offset);
    pread64(descriptor, buffer, bytes, offset: i64), At::or_position(offset);
}

/// Functions of fortified programs know the true size of the buffer. The C library handles an overflow.
macro_rules! checked_reads {
    ($($name:ident($($more:ident: $type:ty),*), $at:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(descriptor: c_int, buffer: *mut u8, bytes: usize $(, $more: $type)*, room: usize) -> isize {
            let real = || pass!($name(descriptor: c_int, buffer: *mut u8, bytes: usize $(, $more: $type)*, room: usize) -> isize);
            if bytes > room {
                return real();
            }
            let whole = [Vector { base: buffer, bytes }];
            // SAFETY: the caller's buffer, which has the room.
            unsafe { reading(descriptor, &whole, $at, real) }
        }
    )*};
}

checked_reads! {
    __read_chk(), At::Position;
    __pread_chk(offset: i64), At::or_position(offset);
    __pread64_chk(offset: i64), At::or_position(offset);
}

/// Functions that read several buffers.
macro_rules! vector_reads {
    ($($name:ident($($more:ident: $type:ty),*), $at:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(descriptor: c_int, first: *const Vector, count: c_int $(, $more: $type)*) -> isize {
            let real = || pass!($name(descriptor: c_int, first: *const Vector, count: c_int $(, $more: $type)*) -> isize);
            // SAFETY: the caller's buffers.
            unsafe { reading(descriptor, vectors(first, count), $at, real) }
        }
    )*};
}

vector_reads! {
    readv(), At::Position;
    preadv(offset: i64), At::or_position(offset);
    preadv64(offset: i64), At::or_position(offset);
    preadv2(offset: i64, flags: c_int), At::or_position(offset);
    preadv64v2(offset: i64, flags: c_int), At::or_position(offset);
}

/// Functions that write.
macro_rules! writes {
    ($($name:ident($first:ident: $pointer:ty, $count:ident: $number:ty $(, $more:ident: $type:ty)*), $at:expr, $flags:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(descriptor: c_int, $first: $pointer, $count: $number $(, $more: $type)*) -> isize {
            let real = || pass!($name(descriptor: c_int, $first: $pointer, $count: $number $(, $more: $type)*) -> isize);
            writing(descriptor, $at, $flags, real)
        }
    )*};
}

writes! {
    write(buffer: *const u8, bytes: usize), At::Position, 0;
    pwrite(buffer: *const u8, bytes: usize, offset: i64), At::or_position(offset), 0;
    pwrite64(buffer: *const u8, bytes: usize, offset: i64), At::or_position(offset), 0;
    writev(first: *const Vector, count: c_int), At::Position, 0;
    pwritev(first: *const Vector, count: c_int, offset: i64), At::or_position(offset), 0;
    pwritev64(first: *const Vector, count: c_int, offset: i64), At::or_position(offset), 0;
    pwritev2(first: *const Vector, count: c_int, offset: i64, flags: c_int), At::or_position(offset), flags;
    pwritev64v2(first: *const Vector, count: c_int, offset: i64, flags: c_int), At::or_position(offset), flags;
}

macro_rules! syncs {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(descriptor: c_int) -> c_int {
            syncing(descriptor, || pass!($name(descriptor: c_int) -> c_int))
        }
    )*};
}

syncs!(fsync, fdatasync, syncfs);

/// Held only when the call waits for the writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sync_file_range(descriptor: c_int, offset: i64, bytes: i64, flags: c_uint) -> c_int {
    /// `SYNC_FILE_RANGE_WAIT_AFTER`.
    const WAIT_AFTER: c_uint = 4;
    let real = || pass!(sync_file_range(descriptor: c_int, offset: i64, bytes: i64, flags: c_uint) -> c_int);
    if flags & WAIT_AFTER == 0 { real() } else { syncing(descriptor, real) }
}
