// SPDX-License-Identifier: Apache-2.0
//! InnoDB's handling of an empty free list: the steps of a query that needs a page, the threads that make pages free, and the sleeps of these
//! threads.
//!
//! - [`free_list`]: the row of one version; `None` for a version that was not examined. A row is never taken from a neighbouring version.
//! - [`FreeList`]: one row, with its source and the kind of its evidence ([`Evidence`]).
//! - [`waiting_function`]: the function in which a query waits, for a probe.
//! - [`bugs`]: the faults of a version's counters; [`setting`]: its variables, and whether they can be set while the server runs; [`watches`]: the
//!   signs of trouble in a version that has nothing to set.
//! - [`instances`]: into how many instances a server parts its buffer pool, by its variables.
//! - [`Ladder`]: how long a query waits before each of its tries, under Percona Server's `backoff`.
//!
//! Not here: the effects on a load. `simulate` computes them.

mod bug;
mod counters;
mod function;
mod instances;
mod ladder;
mod mariadb;
mod mysql;
mod percona;
mod setting;
mod watch;

pub use bug::{Bug, bugs};
pub use function::{Function, waiting_function};
pub use instances::{ONE_INSTANCE_BELOW, instances};
pub use ladder::{LADDER, Ladder};
pub use setting::{Setting, setting};
pub use watch::{Watch, watches};

use crate::{Flavour, Version};
use serde::Serialize;

/// A value of `innodb_empty_free_list_algorithm`. Servers without that variable have only one algorithm: it is called `legacy` here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// A query only waits, and looks at the free list again and again.
    Backoff,
    /// A query makes a page free itself.
    Legacy,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Backoff => "backoff",
            Self::Legacy => "legacy",
        }
    }
}

/// How the content of a row is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// A server of these versions was run, and its behaviour was measured.
    Measured,
    /// The source of one of these versions was read.
    Read,
    /// The sources of an earlier and of a later version were read, and agree.
    Between,
    /// A part of the row, or a version at which the row begins or ends, is concluded from something that was read elsewhere.
    Assumed,
}

impl Evidence {
    pub fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Read => "read in its source",
            Self::Between => "between sources that were read",
            Self::Assumed => "assumed in part",
        }
    }
}

/// What the versions from `since` (included) to `until` (excluded) do.
#[derive(Debug, Clone, Copy)]
pub struct FreeList {
    pub flavour: Flavour,
    pub since: &'static [u32],
    pub until: &'static [u32],
    /// The algorithms that can be set; the first is the default.
    pub algorithms: &'static [Algorithm],
    /// Whether each failed try under `backoff` wakes the thread that refills.
    pub backoff_wakes: bool,
    pub legacy: OnEmpty,
    pub refillers: &'static [Refiller],
    /// The system call by which the refillers sleep.
    pub sleep: SleepCall,
    pub batch: BatchLimit,
    /// Default of `innodb_lru_scan_depth`: the free list of an instance is filled up to this many pages.
    pub scan_depth: u32,
    /// An instance always has at least this many pages in use: with fewer, no batch takes a page away.
    pub least_in_use: u32,
    /// The most buffer pool instances.
    pub instances_max: u32,
    pub counters: &'static [Counter],
    pub evidence: Evidence,
    /// Files and versions that were read, or servers that were run.
    pub source: &'static str,
}

/// What a query does, unless the algorithm is `backoff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEmpty {
    /// Looks for a clean page at the end of the LRU list, then writes one dirty page itself.
    Searches(Search),
    /// As [`OnEmpty::Searches`], but the query itself makes a batch of this many pages free, or waits for a running batch.
    OwnBatch { depth: u32, pages: u32 },
    /// Looks for a clean page, wakes the page cleaner, and waits on a condition for `longest_ms` at most, again and again.
    WaitsForCleaner { depth: u32, longest_ms: u32 },
}

/// MySQL's way, step by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// First waits for a running LRU batch, when the doublewrite buffer is on. No counter counts this wait.
    pub waits_for_batch: bool,
    /// The number of pages of the LRU list that the first look inspects; `None`: `innodb_lru_scan_depth`. Later looks inspect all pages.
    pub depth: Option<u32>,
    /// Each round without a page wakes the page cleaner.
    pub wakes_cleaner: bool,
    /// Sleep before each round from the third on, in microseconds.
    pub sleep_us: u32,
    /// The flush of a single page takes a clean page instead, if it meets a clean page first.
    pub single_flush_takes_clean: bool,
}

/// A thread that makes pages free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refiller {
    /// Percona Server's LRU manager: it sleeps as long as its own rule says.
    Manager {
        /// One thread for each buffer pool instance, or one thread for all instances.
        per_instance: bool,
        adapt: Adapt,
    },
    /// The page cleaner: once a period.
    Cleaner {
        period_ms: u32,
        /// A query without a page can wake it.
        can_be_woken: bool,
        /// The page cleaner does nothing while no client writes.
        only_if_active: bool,
        /// The page cleaner is woken as soon as fewer than half of `innodb_lru_scan_depth` pages are free; it does not fill a list with more.
        keeps_half: bool,
    },
}

/// How an LRU manager changes its sleep S each time that it wakes up, with a target of M pages. If fewer than M / 100 pages are free and the last
/// batch made progress: S = 0. If more than M / 5 pages are free, or fewer than M / 100 without progress: S + step up, up to the longest. If fewer
/// than M / 20 are free: S - step down. All divisions are of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapt {
    pub step_up_ms: u32,
    pub step_down_ms: u32,
    pub longest_ms: u32,
    pub target: Target,
    pub progress: Progress,
    pub clock: Clock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `innodb_lru_scan_depth` of each instance that the thread fills.
    Depth,
    /// The same, but at most the length of the LRU list.
    DepthOrLength,
}

/// Which pages of a batch count as progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Flushed,
    FlushedAndEvicted,
}

/// How the thread computes the rest of its sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Time is read in whole milliseconds.
    IntegerMs,
    /// Time is read in nanoseconds, and the rest is cut to whole milliseconds: mostly one millisecond less.
    TruncatedMs,
}

/// The system call by which a server's threads sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepCall {
    /// `select` without files: `os_thread_sleep`, os/os0thread.cc of InnoDB 5.6.
    Select,
    /// `nanosleep`, or a wait for an event with a time limit.
    Timed,
}

impl SleepCall {
    /// The additional slack of a sleep of `asked_us` microseconds: the time by which the kernel may wake the thread late, beyond the 50 us of slack
    /// that every sleep has. Linux lets a `select` be late by a thousandth of its time (`select_estimate_accuracy`, fs/select.c), so that it can put
    /// several timers into one interrupt.
    pub fn more_slack_us(self, asked_us: u64) -> u64 {
        match self {
            Self::Select => (asked_us / 1000).saturating_sub(TIMER_SLACK_US),
            Self::Timed => 0,
        }
    }
}

/// The slack of a thread that sets none: Linux, `init_task.timer_slack_ns`.
const TIMER_SLACK_US: u64 = 50;

/// The limit of one LRU batch of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchLimit {
    /// As many pages in all as `innodb_lru_scan_depth` says.
    Pages,
    /// Only written pages count, in chunks of this many.
    ChunksOfWrites(u32),
}

/// The meaning of a status counter in these versions, under each algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counter {
    pub name: &'static str,
    pub backoff: &'static str,
    pub legacy: &'static str,
}

/// With fewer pages than this in an instance, a server does not accept `backoff`: XtraDB 5.6.36, and percona/percona-server pull requests 281, 1262.
pub const BACKOFF_PAGES_MIN: u64 = 5 * 256;
/// The least `innodb_lru_scan_depth`: manuals of MySQL, Percona Server and MariaDB.
pub const SCAN_DEPTH_MIN: u32 = 100;

fn between(version: &Version, since: &[u32], until: &[u32]) -> bool {
    *version >= Version::of(since) && *version < Version::of(until)
}

const TABLES: [&[FreeList]; 3] = [mariadb::ROWS, mysql::ROWS, percona::ROWS];

/// Every row, flavour by flavour.
pub fn free_lists() -> impl Iterator<Item = &'static FreeList> {
    TABLES.into_iter().flatten()
}

/// The row of this version; `None` for a version that was not examined. An incomplete version (`10.11`) means the newest known version of that
/// series.
pub fn free_list(flavour: Flavour, version: &Version) -> Option<&'static FreeList> {
    let mut rows: Vec<&FreeList> = free_lists().filter(|row| row.flavour == flavour).collect();
    rows.sort_by_key(|row| row.since);
    // 8.0 is less than 8.0.32 and covered by an older row, but means any 8.0.x
    let newest = rows.iter().rev().find(|row| version.count() < 3 && Version::of(row.since).meets(version));
    newest.or_else(|| rows.iter().rev().find(|row| row.covers(version))).copied()
}

impl FreeList {
    fn covers(&self, version: &Version) -> bool {
        between(version, self.since, self.until)
    }

    /// `8.0 to before 8.1`.
    pub fn versions(&self) -> String {
        format!("{} to before {}", Version::of(self.since), Version::of(self.until))
    }
}

#[cfg(test)]
mod tests;
