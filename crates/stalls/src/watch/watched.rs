// SPDX-License-Identifier: Apache-2.0
//! What was watched, as plain data: the shape of the JSON. Stalls, account and classes have the names that `stalls explain` gives them.

use super::sample::{Counters, Missing};
use crate::explained::{Account, SkippedPart, Source, Stall};
use serde::Serialize;

/// Times in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Watched {
    /// Of this shape.
    pub schema: u32,
    pub source: Source,
    /// In the order in which they were settled, as far as memory allowed; the account has all.
    pub stalls: Vec<Stall>,
    pub stalls_left_out: u64,
    /// A victim loses the time for which it waited.
    pub account: Account,
    /// Of the statements that stalled; those that lost most first.
    pub classes: Vec<ClassSeen>,
    pub cost: WatchCost,
    /// Shorter stalls may not be seen: four samples, as far apart as half of them were at most; and no less than was asked for.
    pub resolution_us: u64,
    /// In which ways was looked, and what each can see.
    pub tiers: Vec<Tier>,
    /// Of each instance of the buffer pool, the fewest free pages that were read; empty: they were not asked for one by one.
    pub least_free_by_instance: Vec<u64>,
    /// At the first and the last reading.
    pub counters: Option<[Counters; 2]>,
    /// What the host's tasks waited for meanwhile (`/proc/pressure`), some of them at least.
    pub pressure: Option<Pressure>,
    pub missing: Vec<Missing>,
    /// Parts of the server's slow log that could not be understood, by place in that file; the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPart>,
    /// What one should know to read this.
    pub notes: Vec<String>,
}

/// One way of looking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tier {
    /// `default`, `deep` or `probes`.
    pub tier: &'static str,
    /// Shorter stalls may not be seen, of the causes that it sees.
    pub resolution_us: u64,
    /// Causes that it alone tells with certainty; empty: all that are told.
    pub causes: Vec<&'static str>,
    /// Records that the kernel wrote at the begin and the return of each call, and those that it had no room for.
    pub hits: u64,
    pub hits_lost: u64,
    /// CPU time of this process for it, in microseconds: within `cost.cpu_us`. What the server's threads lose by each hit is not in it.
    pub cpu_us: Option<u64>,
}

/// A class of statements that had victims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassSeen {
    /// Without values.
    pub statement: String,
    pub victims: u64,
    pub lost_query_us: u64,
    pub max_us: u64,
}

/// What watching itself took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WatchCost {
    pub elapsed_us: u64,
    /// Of all CPUs together, by this process.
    pub cpu_us: u64,
    /// Of one CPU.
    pub cpu_share: f64,
    /// How often all threads were looked at, and how often that was a whole interval or more too late.
    pub sweeps: u64,
    pub sweeps_late: u64,
    /// From one sweep to the next: as it was meant, and as half of them were at most.
    pub interval_us: u64,
    pub interval_p50_us: u64,
    /// Looked at in one sweep, at most.
    pub threads: u64,
    /// Sent to the server, and how long it took to answer all of them.
    pub statements: u64,
    pub statements_us: u64,
    /// Calls of the probed function that began or returned, those that the kernel had no room for, and what reading them took.
    pub hits: u64,
    pub hits_lost: u64,
    pub hits_cpu_us: u64,
}

/// Microseconds in which some task waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pressure {
    pub cpu_us: u64,
    pub io_us: u64,
    pub memory_us: u64,
}
