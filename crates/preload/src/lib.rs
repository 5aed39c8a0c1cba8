// SPDX-License-Identifier: Apache-2.0
//! The preload layer: a slow disk for a program that is started with a library in it (ld.so(8), `LD_PRELOAD`), where no file system
//! can be mounted. It needs no right and no device.
//!
//! ```text
//! program -> interpose (read, pwrite, fsync, ...) -> the C library -> kernel     the work itself, first
//!                |
//!             Shared: the model in force, counters, in memory that all processes of the run share
//!                |
//! wringer internal preload -> keeper: sets the model, renews the lease, answers the same questions as the FUSE layer
//! ```
//!
//! This source is compiled twice: as a crate of the program (the memory's layout, the keeper, the library's bytes), and by `build.rs`
//! with the cfg `wringer_library` as the library itself, without `std` and without any dependency.
//!
//! Invariants:
//! - A call does what the C library's does, with its result and its `errno`; only the moment of its return changes.
//! - The library never locks and never allocates: it may be called from signal handlers, between fork and exec, and inside `malloc`.
//! - Nothing is delayed when the word in force is 0, or when the lease has ended.
#![cfg_attr(wringer_library, no_std)]
// Some code is used on one side of the shared memory only.
#![allow(dead_code)]

#[cfg(wringer_library)]
#[path = "../../diskmodel/src/class.rs"]
mod class;
mod shared_model;
#[cfg(not(wringer_library))]
use diskmodel as class;
mod histogram;
#[path = "../../slowfs/src/overshoot.rs"]
mod overshoot;
mod shared;

#[cfg(any(wringer_library, clippy))]
mod interpose;

#[cfg(not(wringer_library))]
mod elf;
#[cfg(not(wringer_library))]
mod error;
#[cfg(not(wringer_library))]
pub mod keeper;
#[cfg(not(wringer_library))]
mod library;
#[cfg(not(wringer_library))]
mod map;
#[cfg(not(wringer_library))]
mod points;

#[cfg(not(wringer_library))]
pub use {
    elf::{Loadable, loadable},
    error::Error,
    library::install,
    map::{Map, environment},
};
