// SPDX-License-Identifier: Apache-2.0
//! How many bytes a server has asked its malloc for and not given back. A small library in the server (ld.so(8), `LD_PRELOAD`) finds out: when Wringer
//! asks, and only then, the library calls the malloc's own function that returns this number.
//!
//! ```text
//! Map::ask -> Shared: a number that rises -> the library's thread wakes -> mallctl, MallocExtension_GetNumericProperty, mallinfo2
//!          <- Shared: the answer          <-
//! ```
//!
//! This source is compiled twice: as a crate of the program (the shared memory, the library's bytes), and by `build.rs` with the cfg
//! `wringer_library` as the library itself, without `std` and without any dependency.
//!
//! Invariants:
//! - The library replaces no function. Between two questions its thread sleeps in the kernel; all signals are blocked in it.
//! - The library asks nothing by itself. It allocates nothing; a malloc's function that it calls may allocate.
//! - A process that the server forks has no such thread, and does not answer.
#![cfg_attr(wringer_library, no_std)]
// Some code is used on one side of the shared memory only.
#![allow(dead_code)]

mod shared;

#[cfg(any(wringer_library, clippy))]
mod inside;

#[cfg(not(wringer_library))]
mod error;
#[cfg(not(wringer_library))]
mod library;
#[cfg(not(wringer_library))]
mod map;

#[cfg(not(wringer_library))]
pub use {
    error::Error,
    library::{check_folder, install},
    map::{Map, Silence, environment},
};
