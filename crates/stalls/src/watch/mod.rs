// SPDX-License-Identifier: Apache-2.0
//! Stalls of a server that runs, as they happen: the caller samples what its threads do, and asks the server what its connections wait for. Both are
//! put together here. No I/O, no clock: the caller brings samples and answers, with their times.
//!
//! - [`Watching`]: takes [`Sample`]s and [`Answer`]s, says which questions the server should be asked ([`Wants`]), returns stalls when they are settled, and at the
//!   end the whole result, [`Watched`].
//! - [`Tracker`]: the waits of one thread.
//! - [`judge`]: the cause of one wait.

mod account;
mod changes;
mod free_page;
mod group;
mod joining;
mod kept;
mod kept_parts;
mod meanwhile;
mod page_writes;
mod parts;
mod probed;
mod sample;
mod seen;
mod server_answers;
mod server_stalls;
mod side_evidence;
#[cfg(test)]
mod testing;
mod track;
mod verdict;
mod wait_context;
mod watched;
mod watching;

pub use kept::{Kept, Recorded, again};
pub use kept_parts::{KeptParts, of_wait};
pub use meanwhile::{DiskTimes, HostReading, Meanwhile};
pub use parts::{Part, Parts};
pub use probed::{Hit, Probe};
pub use sample::{Answer, Counters, Doing, Missing, Sample, Says, Sched, Session, Stop, Written};
pub use seen::{Seen, SeenWaits};
pub use server_stalls::Whole;
pub use side_evidence::{Canary, Logged, Sung};
pub use track::{LEAST_SAMPLES, Tracker, Wait, Way};
pub use verdict::judge;
pub use wait_context::{Around, Verdict};
pub use watched::{ClassSeen, Pressure, Tier, WatchCost, Watched};
pub use watching::{Wants, Watch, Watching};
