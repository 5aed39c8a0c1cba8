// SPDX-License-Identifier: Apache-2.0
//! Finds the functions behind this library's: those of the C library, or of another preloaded library.

use super::sys;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        pub(super) enum Function { $($name),* }

        // SAFETY: each name ends with a zero and has no other zero.
        const NAMES: &[&CStr] = &[$(unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) }),*];
    };
}

functions!(
    read,
    pread,
    pread64,
    readv,
    preadv,
    preadv64,
    preadv2,
    preadv64v2,
    __read_chk,
    __pread_chk,
    __pread64_chk,
    write,
    pwrite,
    pwrite64,
    writev,
    pwritev,
    pwritev64,
    pwritev2,
    pwritev64v2,
    fsync,
    fdatasync,
    syncfs,
    sync_file_range,
    open,
    open64,
    openat,
    openat64,
    creat,
    creat64,
    __open_2,
    __open64_2,
    __openat_2,
    __openat64_2,
    mkstemp,
    mkstemp64,
    mkostemp,
    mkostemp64,
    close,
    close_range,
    closefrom,
    fclose,
    dup,
    dup2,
    dup3,
    fcntl,
    fcntl64,
);

static FOUND: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Looks up all functions when the library is loaded, so that no signal handler must do it.
pub(super) fn find_all() {
    FOUND.iter().zip(NAMES).for_each(|(place, name)| {
        find(place, name);
    });
}

/// A call before the library is initialised looks its function up itself. Null: the C library has no such function.
#[inline]
pub(super) fn next(function: Function) -> *mut c_void {
    let (Some(place), Some(name)) = (FOUND.get(function as usize), NAMES.get(function as usize)) else {
        return null_mut();
    };
    match place.load(Relaxed) {
        found if !found.is_null() => found,
        _ => find(place, name),
    }
}

#[cold]
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    // SAFETY: the name ends with a zero.
    let found = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) };
    place.store(found, Relaxed);
    found
}

/// The result of a function that does not exist.
pub(super) fn missing() {
    const ENOSYS: i32 = 38;
    sys::set_errno(ENOSYS);
}
