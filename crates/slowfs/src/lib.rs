// SPDX-License-Identifier: Apache-2.0
//! The slow layer: a FUSE file system that passes a directory through and holds each reply to a read, a write or a sync until its
//! time has come.
//!
//! It is not a fault injector: every request reaches the file below, with its result, and only the time of the reply changes. A
//! `diskmodel::Model` decides that time. The layer is its own process (`wringer internal slowfs`), so that a server that dies never
//! takes the files with it. It mounts over the directory in its own mount namespace, so that nobody else sees it.
//!
//! ```text
//! server -> kernel (page cache, FUSE) -> layer::Layer -> backing file      the work itself
//!                                           |
//!                                        engine::Engine                   when the reply leaves
//! ```
//!
//! [`disk`] serves one file instead of a directory, for a loop device, and survives the death of its process.
//!
//! Invariants:
//! - A reply to fsync, fdatasync or an `O_DSYNC` write leaves after the backing file system has said that the data is durable.
//! - A reply never leaves before the work behind it is done, whatever the delay.
//! - Delay 0 runs the same code as any other delay.
//! - A smaller delay ends waits early that are under way; a larger one holds for requests that arrive after it.

pub mod control;
pub mod disk;
pub mod mount_rights;
pub mod process;
pub mod stats;

mod backing;
#[cfg(feature = "failpoints")]
mod broken_sync;
mod buffer;
mod clock;
mod engine;
mod error;
mod inode;
mod layer;
mod overshoot;
mod reply;
mod rule;
mod waiting;
mod watched;
pub mod way;

pub use error::Error;
