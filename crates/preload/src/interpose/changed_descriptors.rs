// SPDX-License-Identifier: Apache-2.0
//! The functions after which a descriptor may mean another file. They forget what is known of the descriptor.
//!
//! `open`, `openat` and `fcntl` take a variable number of arguments; on the architectures that this library is built for the optional one
//! is passed as a fixed one is, and is handed on whether the caller gave it or not.

use super::files::{forget, forget_from};
use super::next::{Function, missing, next};
use core::ffi::{c_char, c_int, c_uint, c_void};

/// Calls the C library's function; returns -1 when there is none.
macro_rules! pass {
    ($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty) => {{
        let next = next(Function::$name);
        if next.is_null() {
            missing();
            -1
        } else {
            // SAFETY: the C library's function of this name has this type.
            let next: unsafe extern "C" fn($($type),*) -> $result = unsafe { core::mem::transmute(next) };
            // SAFETY: the caller's arguments, as they are.
            unsafe { next($($argument),*) }
        }
    }};
}
pub(super) use pass;

/// Functions that return a descriptor.
macro_rules! returns_descriptor {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let descriptor = pass!($name($($argument: $type),*) -> c_int);
            forget(descriptor);
            descriptor
        }
    )*};
}

returns_descriptor! {
    open(path: *const c_char, flags: c_int, mode: c_uint);
    open64(path: *const c_char, flags: c_int, mode: c_uint);
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint);
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint);
    creat(path: *const c_char, mode: c_uint);
    creat64(path: *const c_char, mode: c_uint);
    __open_2(path: *const c_char, flags: c_int);
    __open64_2(path: *const c_char, flags: c_int);
    __openat_2(folder: c_int, path: *const c_char, flags: c_int);
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int);
    mkstemp(template: *mut c_char);
    mkstemp64(template: *mut c_char);
    mkostemp(template: *mut c_char, flags: c_int);
    mkostemp64(template: *mut c_char, flags: c_int);
    dup(descriptor: c_int);
    dup2(descriptor: c_int, number: c_int);
    dup3(descriptor: c_int, number: c_int, flags: c_int);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    forget(descriptor);
    pass!(close(descriptor: c_int) -> c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    forget_from(first, last);
    pass!(close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    forget_from(c_uint::try_from(first).unwrap_or(0), c_uint::MAX);
    let next = next(Function::closefrom);
    if !next.is_null() {
        // SAFETY: the C library's function of this name has this type.
        let next: unsafe extern "C" fn(c_int) = unsafe { core::mem::transmute(next) };
        // SAFETY: the caller's argument.
        unsafe { next(first) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(stream: *mut c_void) -> c_int {
    // SAFETY: the caller's stream, which is open until the next call.
    forget(unsafe { fileno(stream) });
    pass!(fclose(stream: *mut c_void) -> c_int)
}

macro_rules! controls {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(descriptor: c_int, command: c_int, argument: usize) -> c_int {
            const DUPFD: c_int = 0;
            const DUPFD_CLOEXEC: c_int = 1030;
            let result = pass!($name(descriptor: c_int, command: c_int, argument: usize) -> c_int);
            if command == DUPFD || command == DUPFD_CLOEXEC {
                forget(result);
            }
            result
        }
    )*};
}

controls!(fcntl, fcntl64);

unsafe extern "C" {
    fn fileno(stream: *mut c_void) -> c_int;
}
