// SPDX-License-Identifier: Apache-2.0
//! Stalls and what they cost, from a log that was written, or from a counter alone. No I/O of its own, no clock: who calls opens the log.
//!
//! - [`explain`]: one pass through a log, in bounded memory: classes of statements, those that stalled, what they waited for, what was lost.
//! - [`recorded::explain`]: the same of a load that was recorded.
//! - [`counter::explain`]: what `Innodb_buffer_pool_wait_free` alone says, by the ladder of sleeps of the version.
//! - [`Lattice`]: the lengths that stalls can have, by these sleeps.
//! - [`Explained`]: the answer, as plain data.
//!
//! Not here: looking at a server that runs; showing anything.

mod burst;
mod cause;
mod class;
pub mod counter;
mod explained;
mod fit;
mod gather;
mod ladder;
mod needs;
pub mod recorded;
mod server;
mod settle;
mod victim;

pub use cause::{Cause, Evidence};
pub use explained::{Account, Band, ClassOf, Cost, Counter, Explained, OfCause, SkippedPart, Source, Stall, Victim};
pub use gather::{Asked, MOST_STATEMENT_BYTES, explain};
pub use ladder::Lattice;
pub use server::Server;
pub use sql::Dialect;
