// SPDX-License-Identifier: Apache-2.0
//! The result of a watch, as plain data: the shape of the JSON. Stalls, account and classes have the names that `stalls explain` gives them.

use super::probed::Probe;
use super::sample::{Counters, Missing};
use crate::cause::{Cause, ms};
use crate::explained::{Account, SkippedPart, Source, Stall};
use serde::Serialize;

/// Times in microseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Watched {
    /// The version of this shape.
    pub schema: u32,
    pub source: Source,
    /// The stalls in the order in which they were settled, as many as memory allowed. The account counts all stalls.
    pub stalls: Vec<Stall>,
    pub stalls_left_out: u64,
    /// The cost of the stalls. A victim loses the time for which it waited.
    pub account: Account,
    /// Classes of the statements that stalled; the class that lost the most time stands first.
    pub classes: Vec<ClassSeen>,
    pub cost: WatchCost,
    /// Shorter stalls may not be seen: four times the median distance of two samples; and not less than the caller asked for.
    pub resolution_us: u64,
    /// The ways of looking that were used, and what each can see.
    pub tiers: Vec<Tier>,
    /// The fewest free pages that were read, for each instance of the buffer pool. Empty: the instances were not asked for.
    pub least_free_by_instance: Vec<u64>,
    /// The counters at the first and the last reading.
    pub counters: Option<[Counters; 2]>,
    /// How long some of the host's tasks waited meanwhile, and for what (`/proc/pressure`).
    pub pressure: Option<Pressure>,
    pub missing: Vec<Missing>,
    /// Parts of the server's slow log that could not be understood, by place in that file; the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPart>,
    /// Notes that a reader of this result should know.
    pub notes: Vec<String>,
}

/// One way of looking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tier {
    /// `default`, `deep` or `probes`.
    pub tier: &'static str,
    /// Shorter stalls of the causes that this way sees may not be seen.
    pub resolution_us: u64,
    /// The causes that only this way of looking names with certainty. Empty: it is for all causes.
    pub causes: Vec<&'static str>,
    /// Records that the kernel wrote, one at the begin and one at the return of each call; and records for which it had no room.
    pub hits: u64,
    pub hits_lost: u64,
    /// CPU time that this process used for it, in microseconds; a part of `cost.cpu_us`. The time that the server's threads lose at each hit is not in it.
    pub cpu_us: Option<u64>,
}

impl Tier {
    /// The ways of looking of a watch.
    pub(super) fn of(is_deep: bool, probe: Option<Probe>, resolution_us: u64, cost: &WatchCost) -> Vec<Self> {
        let tier = if is_deep { "deep" } else { "default" };
        let samples = Self { tier, resolution_us, causes: Vec::new(), hits: 0, hits_lost: 0, cpu_us: None };
        let probes = probe.map(|probe| Self {
            tier: "probes",
            resolution_us: probe.least_us,
            causes: [Cause::FreeListBackoff, Cause::FreeListLegacy, Cause::FreeListWait].map(Cause::name).to_vec(),
            hits: cost.hits,
            hits_lost: cost.hits_lost,
            cpu_us: Some(cost.hits_cpu_us),
        });
        std::iter::once(samples).chain(probes).collect()
    }
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

/// The cost of watching itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WatchCost {
    pub elapsed_us: u64,
    /// CPU time of this process, on all CPUs together.
    pub cpu_us: u64,
    /// The same as a share of one CPU.
    pub cpu_share: f64,
    /// How often all threads were looked at; and how often that was a whole interval or more too late.
    pub sweeps: u64,
    pub sweeps_late: u64,
    /// The time from one sweep to the next: the intended one, the median, and the longest.
    pub interval_us: u64,
    pub interval_p50_us: u64,
    pub interval_max_us: u64,
    /// The most threads that were looked at in one sweep.
    pub threads: u64,
    /// Statements that were sent to the server, and how long it took to answer all of them.
    pub statements: u64,
    pub statements_us: u64,
    /// Records of the probed function (one for each begin and each return), records for which the kernel had no room, and the CPU time of reading them.
    pub hits: u64,
    pub hits_lost: u64,
    pub hits_cpu_us: u64,
}

impl WatchCost {
    /// What a reader should know of looks that came late.
    pub(super) fn note(&self, resolution_us: u64) -> Option<String> {
        let longest = ms(self.interval_max_us);
        (self.interval_max_us > resolution_us).then(|| {
            format!("two looks at the threads were {longest} apart: between them a stall may not have been seen, and a length may be wrong by as much")
        })
    }
}

/// Microseconds in which some task waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pressure {
    pub cpu_us: u64,
    pub io_us: u64,
    pub memory_us: u64,
}
