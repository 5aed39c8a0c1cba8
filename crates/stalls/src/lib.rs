// SPDX-License-Identifier: Apache-2.0
//! Stalls and what they cost, from a log that was written, from a counter alone, or from samples of a server that runs. No I/O of its own, no clock: who calls opens the log.
//!
//! - [`explain`]: one pass through a log, in bounded memory: classes of statements, those that stalled, what they waited for, what was lost.
//! - [`recorded::explain`]: the same of a load that was recorded.
//! - [`counter::explain`]: what `Innodb_buffer_pool_wait_free` alone says, by the ladder of sleeps of the version.
//! - [`Lattice`]: the lengths that stalls can have, by these sleeps.
//! - [`Explained`]: the answer, as plain data.
//! - [`watch`]: the same of a server that runs, from samples of its threads and what it says itself.
//!
//! Not here: reading a server's threads or asking it (`observe`); showing anything.

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
pub mod watch;

pub use cause::{Cause, Evidence};
pub use explained::{Account, Band, ClassOf, Cost, Counter, Explained, OfCause, SkippedPart, Source, Stall, Victim};
pub use gather::{Asked, MOST_STATEMENT_BYTES, explain};
pub use ladder::Lattice;
pub use server::Server;
pub use sql::Dialect;
