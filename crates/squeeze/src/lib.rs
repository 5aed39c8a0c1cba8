// SPDX-License-Identifier: Apache-2.0
//! Squeezes: reversible limits on the host or on one server. Each goes through a [`run::Run`], so that its undo is on disk before
//! the change, and each is measured by a witness that shares no code with it.
//!
//! - [`disk`]: a slow layer over a sandbox's data directory; [`probe`] is its witness.
//! - [`server_ram`]: a memory cgroup that one server is started in.

pub mod disk;
mod error;
pub mod probe;
pub mod server_ram;

pub use error::Error;
