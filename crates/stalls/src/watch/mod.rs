// SPDX-License-Identifier: Apache-2.0
//! Stalls of a server that runs, as they happen: what its threads do is sampled, the server is asked what its connections wait for, and both are
//! put together here. No I/O, no clock: who calls brings samples and answers, with their times.
//!
//! - [`Watching`]: takes [`Sample`]s and [`Answer`]s, says what should be asked ([`Wants`]), gives back stalls as they are settled, and at the end all
//!   that was [`Watched`].
//! - [`Tracker`]: the waits of one thread.
//! - [`judge`]: what one wait was for.

mod around;
mod beside;
mod books;
mod free_page;
mod group;
mod known;
mod meanwhile;
mod parts;
mod probed;
mod sample;
mod track;
mod verdict;
mod watched;
mod watching;

pub use around::{Around, Verdict};
pub use beside::{Canary, Logged};
pub use meanwhile::{DiskTimes, HostReading, Meanwhile};
pub use parts::{Part, Parts};
pub use probed::{Hit, Probe};
pub use sample::{Answer, Counters, Doing, Missing, Sample, Says, Sched, Session};
pub use track::{LEAST_SAMPLES, Tracker, Wait, Way};
pub use verdict::judge;
pub use watched::{ClassSeen, Pressure, Tier, WatchCost, Watched};
pub use watching::{Wants, Watch, Watching};
