// SPDX-License-Identifier: Apache-2.0
//! A stock Debian kernel under QEMU, with the program in it: for tests that must not run on the machine that builds.
//!
//! A *case* is a shell script below `cases/`. One boot runs several cases. Each case prints `CASE <name> ok` or `CASE <name> FAILED <reason>` on the
//! serial console, and is a test of its own. `docs/testing.md` tells how to add one.
// test code makes its own folders, starts programs, and prints their results
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod boot;
mod cpio;
mod disk;
mod image;
mod machine;
mod parts;
mod power;
mod servers;
mod turns;

pub use boot::{Boot, EMULATOR_FAILED, case, skip_unwanted};
pub use disk::Disk;
pub use image::initramfs;
pub use machine::{Machine, Running};
pub use parts::{Parts, parts};
pub use power::{Lost, PowerCut};
pub use servers::{Servers, servers};
pub use turns::{Turn, turn};
