// SPDX-License-Identifier: Apache-2.0
//! Makes a stall happen whose cause, length and moment are known, in a sandbox, and checks whether it took effect.
//!
//! - [`plan::random`]: a plan by a seed. Pure.
//! - [`Ground`]: a sandbox, and the stalls that can be made in it: which causes can be planted there, and why others cannot.
//! - [`conduct()`]: carries a plan out, one thread for each injection. Out: [`Injected`], which has the figures that were asked
//!   for and the measured ones.
//!
//! Not here: finding stalls (`stalls`), showing anything, starting servers.
//!
//! Invariants: everything that is held is released when this process ends. A lock of the server ends with its connection; a slow layer goes back to its
//! own times when the connection to it ends; a limit of a cgroup is a step of the run. Each injection is in the journal before it begins.
//! The witness is another connection or the kernel's counter, never the code that planted.

mod conduct;
mod cpu;
mod disk;
mod error;
mod injected;
mod locks;
mod means;
mod numbered;
pub mod plan;
mod sandbox_checks;
mod scan;
mod stop_request;
mod table;

pub use conduct::{Conducted, conduct};
pub use error::Error;
pub use injected::{Injected, Witness};
pub use means::{CAUSES, named};
pub use plan::{Injection, Random};
pub use sandbox_checks::{Ground, Plantable, check_cause};
pub use table::Rows;
