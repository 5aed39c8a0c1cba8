// SPDX-License-Identifier: Apache-2.0
//! A slow disk: one image file, or one block device, as the only file of a FUSE file system that is mounted nowhere. A loop device
//! over that file is a block device whose reads, writes and flushes are answered with the delay of the model.
//!
//! ```text
//! file system -> /dev/loopN -> FUSE file -> worker (image::Image, engine::Engine) -> image
//!                                             | died: another one is forked, and the kernel sends again what was not answered
//!                                           keeper (holds the FUSE descriptors)
//! ```
//!
//! Invariants, in addition to those of the layer:
//! - With FUSE 7.40 (Linux 6.9) the death of a worker is no I/O error. A new worker starts when all threads of the old one have
//!   ended, so no write of the old worker can come after a write of the new one.
//! - The death of the keeper is no I/O error either: its worker sets the delays to zero and goes on serving. A stopped worker is woken.
//! - The FUSE file system ends when nobody has its file open any more, and worker and keeper end with it.

mod device;
mod events;
mod image;
mod in_force;
mod keeper;
mod worker;

pub use device::{RESEND_SINCE, protocol};
pub use keeper::{Options, Ready, run};

use crate::Error;
use crate::control::{Client, Kept};
use std::path::Path;

/// The worker's socket in the run's folder: delay and counters.
pub const WORKER_SOCKET: &str = "slowfs.sock";
/// The keeper's socket, in the same folder.
pub const KEEPER_SOCKET: &str = "keeper.sock";

/// # Errors
/// The keeper is gone.
pub fn kept(folder: &Path) -> Result<Kept, Error> {
    Client::connect(folder.join(KEEPER_SOCKET))?.kept()
}

/// Tells the keeper that a loop device has opened the file: from then on the file system ends when the loop device closes it.
///
/// # Errors
/// The keeper is gone.
pub fn attached(folder: &Path) -> Result<(), Error> {
    Client::connect(folder.join(KEEPER_SOCKET))?.attached().map(drop)
}
