// SPDX-License-Identifier: Apache-2.0
//! What a server's settings and two readings of its counters tell about its free list, and what other settings would gain and cost.
//!
//! - [`Reading`]: variables, and status counters at two moments or more. [`read`] takes one from text: JSON, or what the `mysql` client prints.
//! - [`advise`]: from a reading to an [`Advised`]: the algorithm in force, what each counter means there, advice with its price and its
//!   source, and the simulated effect of other settings.
//!
//! Every fact of a version is a row of `capability`; a version without a row gets no advice. Unknown inputs make a band; they are never chosen so
//! that a result fits.
//!
//! Not here: asking a server. No I/O, no clock; the simulator's random numbers have a fixed seed.

mod advise;
mod advised;
mod change;
mod counted;
mod input;
mod load;
mod names;
mod pool;
mod reading;
mod rules;
mod server;
mod tail;
mod trades;

pub use advise::{AdviceRequest, advise, without_innodb};
pub use advised::{Advice, Advised, Basis, Counted, Demand, FreeRatio, Missing, Share, Simulated, Tail, Trade, Watch};
pub use input::{Problem, read};
pub use names::{METRICS, STATUS, VARIABLES};
pub use reading::{Reading, Snapshot};
pub use server::Server;
