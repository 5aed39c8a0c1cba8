// SPDX-License-Identifier: Apache-2.0
//! Stalls and what they cost, from a log that was written, from a counter alone, or from samples of a server that runs. No I/O of its own, no clock: the
//! caller opens the log.
//!
//! - [`explain`]: one pass through a log, in bounded memory: classes of statements, the statements that stalled, what they waited for, and the time that was lost.
//! - [`recorded::explain`]: the same for a load that was recorded.
//! - [`counter::explain`]: stalls from `Innodb_buffer_pool_wait_free` alone, by the ladder of sleeps of the server's version.
//! - [`Lattice`]: the lengths that stalls can have, by these sleeps.
//! - [`Explained`]: the answer, as plain data.
//! - [`watch`]: the same for a server that runs, from samples of its threads and from the server's own answers.
//!
//! Not here: reading a server's threads or asking it (`observe`); showing anything.

mod asked;
mod burst;
mod cause;
mod class;
pub mod counter;
mod dearest;
mod explained;
mod gather;
mod heads;
mod judgement;
mod ladder;
mod ladder_fit;
mod needs;
mod no_stall;
pub mod recorded;
mod server;
mod victim;
pub mod watch;

pub use asked::Asked;
pub use cause::{Cause, Evidence};
pub use explained::{Account, Band, ClassOf, Cost, Counter, Explained, OfCause, SkippedPart, Source, Stall, Victim};
pub use gather::{MOST_STATEMENT_BYTES, explain};
pub use ladder::Lattice;
pub use server::Server;
pub use sql::Dialect;
