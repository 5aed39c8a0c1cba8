// SPDX-License-Identifier: Apache-2.0
//! The content of a load: workloads by name, their options, the distributions of keys, and the resulting statements.
//!
//! In: a [`Name`] with [`Options`], [`Tables`] and a [`distribution::Distribution`], or the text of a user's own file ([`file::WorkloadFile`]). Out:
//! a [`Workload`], which draws one [`Transaction`] after the other from the caller's generator. The command line, experiment files and workload files
//! all use the words of this crate: [`SETTINGS`] is the one table of options.
//!
//! Not here: sending anything (`load`). No I/O, no clock, no randomness of its own.

mod build;
mod code;
pub mod distribution;
mod error;
pub mod file;
mod name;
mod pgbench;
mod settings;
mod sysbench;
mod tables;
#[cfg(test)]
mod tests;
pub mod text;
mod transaction;

pub use build::{build, setup, setup_tables};
pub use code::Code;
pub use error::Error;
pub use name::Name;
pub use pgbench::{ACCOUNTS, TELLERS};
pub use settings::{Setting, Slot};
pub use sysbench::{Options, SETTINGS};
pub use tables::Tables;
pub use transaction::{Kind, Param, StatementSpec, Transaction, Workload};

/// Small, fast and seedable. Each connection has its own, so that a seed means the same load whatever the number of threads.
pub type Rng = rand_xoshiro::Xoshiro256PlusPlus;
/// The traits to draw from [`Rng`].
pub use rand_xoshiro::rand_core;
