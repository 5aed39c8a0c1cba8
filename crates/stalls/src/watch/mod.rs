// SPDX-License-Identifier: Apache-2.0
//! Stalls of a server that runs, as they happen: the caller samples what its threads do, and asks the server what its connections wait for. Both are
//! put together here. No I/O, no clock: the caller brings samples and answers, with their times.
//!
//! - [`Watching`]: takes [`Sample`]s and [`Answer`]s, says which questions the server should be asked ([`Wants`]), returns stalls when they are settled, and at the
//!   end the whole result, [`Watched`].
//! - [`Tracker`]: the waits of one thread.
//! - [`judge`]: the cause of one wait.

mod around;
mod beside;
mod books;
mod changes;
mod free_page;
mod group;
mod joining;
mod known;
mod meanwhile;
mod parts;
mod probed;
mod sample;
#[cfg(test)]
mod testing;
mod track;
mod verdict;
mod watched;
mod watching;
mod whole;

pub use around::{Around, Verdict};
pub use beside::{Canary, Logged};
pub use meanwhile::{DiskTimes, HostReading, Meanwhile};
pub use parts::{Part, Parts};
pub use probed::{Hit, Probe};
pub use sample::{Answer, Counters, Doing, Missing, Sample, Says, Sched, Session, Stop};
pub use track::{LEAST_SAMPLES, Tracker, Wait, Way};
pub use verdict::judge;
pub use watched::{ClassSeen, Pressure, Tier, WatchCost, Watched};
pub use watching::{Wants, Watch, Watching};
