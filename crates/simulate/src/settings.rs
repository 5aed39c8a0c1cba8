// SPDX-License-Identifier: Apache-2.0
//! The settings of a simulation. Times are whole nanoseconds.

use capability::{Algorithm, BACKOFF_PAGES_MIN, Clock, FreeList, SCAN_DEPTH_MIN};

/// Larger values add nothing, and such a run would not end.
const LONGEST_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;
pub(crate) const THREADS_MAX: u32 = 4096;
const REPEAT_MAX: u32 = 10_000;
const PAGES_PER_QUERY_MAX: f64 = 100_000.0;
const RATE_MAX: f64 = 1e7;

/// A server, a load, and how the server was when the first load began.
#[derive(Debug, Clone)]
pub struct Settings {
    pub server: &'static FreeList,
    pub algorithm: Algorithm,
    /// `innodb_lru_scan_depth`: free pages that each instance is filled up to.
    pub scan_depth: u32,
    /// Pages of one buffer pool instance.
    pub instance_pages: u64,
    pub instances: u32,
    /// Clients; 0: no client asks for pages, and only the refillers run.
    pub threads: u32,
    /// Queries a second of all clients together, at random times; `None`: each client sends its next query at once.
    pub rate_per_second: Option<f64>,
    /// How long each load is.
    pub time_ns: u64,
    /// The pause before each load.
    pub pause_ns: u64,
    /// Loads, one after the other, on the same server.
    pub repeat: u32,
    /// The time between two loads in addition to the pause: the time that a load program takes to end and to start.
    pub gap_ns: u64,
    /// Pages that a query reads and that are not in the pool, on average.
    pub reads_per_query: f64,
    /// Pages that a query needs without reading anything, on average: frames for compressed pages.
    pub pages_without_read: f64,
    /// The time of a query without reads and without waits; at least 1 us.
    pub service_ns: u64,
    /// The additional time of one read.
    pub read_ns: u64,
    pub write_ns: u64,
    /// Chance that a page is dirty when it comes to the end of the LRU list, 0 to 1.
    pub dirty: f64,
    /// Clients write, so that a page cleaner counts the server as active. The pages at the end of the LRU list may be clean all the same.
    pub active: bool,
    pub burst: Option<Burst>,
    /// The time that a sleep takes beyond the time that was asked for.
    pub sleep_overhead_ns: u64,
    /// The time that a round of a refiller takes in addition to its sleep and its batch.
    pub loop_overhead_ns: u64,
    /// Sleep of the LRU managers when the simulation begins.
    pub initial_sleep_ms: u64,
    /// Free pages of each instance when the simulation begins; `None`: `scan_depth`, as in a pool that is full.
    pub initial_free: Option<u64>,
    pub start: Start,
    /// A clock instead of the row's clock.
    pub clock: Option<Clock>,
    pub seed: u64,
    pub costs: Costs,
}

/// Another client, which takes many pages one after the other: one page in the time of a query's service and one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    pub pages: u64,
    /// The time from the end of one burst to the beginning of the next; the first burst begins after half of this time.
    pub every_ns: u64,
}

/// Facts about a running server that cannot be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// From the beginning of the first load to the next refill; `None`: the refiller falls asleep when the simulation begins.
    pub wake_offset_ns: Option<u64>,
    /// From the beginning of the simulation to the first refill, where `wake_offset_ns` is not given; `None`: as there.
    pub first_wake_ns: Option<u64>,
    /// From a refill of the first refiller to one of the second; `None`: as at a server's start.
    pub phase_ns: Option<u64>,
    /// Whether the last batch of each LRU manager before the simulation found something to do. On a server that no client used, it did not.
    pub had_work: bool,
}

/// Costs that the command line does not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Giving the CPU up, under `backoff`.
    pub yield_ns: u64,
    /// From the start of a batch to its first page.
    pub batch_first_ns: u64,
    /// From page to page of a batch.
    pub batch_page_ns: u64,
    /// Looking at one page of the LRU list.
    pub look_ns: u64,
    /// Taking a clean page away.
    pub take_ns: u64,
    /// The doublewrite buffer is on: a single page is written twice.
    pub is_doublewrite: bool,
    /// Part of the loop's overhead that lies before the clock is read for the sleep, at most.
    pub idle_ns: u64,
}

impl Default for Costs {
    /// On the article's host: see `parameters.rs` for the sources.
    fn default() -> Self {
        Self {
            yield_ns: 2_000,
            batch_first_ns: 30_000,
            batch_page_ns: 600,
            look_ns: 50,
            take_ns: 2_000,
            is_doublewrite: true,
            idle_ns: 10_000,
        }
    }
}

/// Why settings are refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("{what} is {given}: {range}")]
    Range { what: &'static str, given: String, range: String },
    #[error("this server has no algorithm '{0}'")]
    NoSuchAlgorithm(&'static str),
    #[error(
        "an instance has {0} pages, and the server takes 'backoff' only from {BACKOFF_PAGES_MIN} on: a larger pool, or fewer instances"
    )]
    PoolTooSmallForBackoff(u64),
    #[error(
        "an instance has {pages} pages, of which {most} can be free at once, and the scan depth is {depth}: a larger pool, fewer instances, or a smaller scan depth"
    )]
    PoolTooSmallForDepth { pages: u64, most: u64, depth: u32 },
    #[error("a query takes no time at all: a service time above 0, or a rate")]
    NoServiceTime,
}

fn within<T: PartialOrd + std::fmt::Display>(what: &'static str, given: T, least: T, most: T) -> Result<(), Error> {
    if given >= least && given <= most {
        return Ok(());
    }
    Err(Error::Range { what, given: given.to_string(), range: format!("from {least} to {most}") })
}

impl Settings {
    /// # Errors
    /// The first setting that cannot be simulated.
    pub fn check(&self) -> Result<(), Error> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let longest = seconds(LONGEST_NS);
        if !self.server.algorithms.contains(&self.algorithm) {
            return Err(Error::NoSuchAlgorithm(self.algorithm.name()));
        }
        within("the number of instances", self.instances, 1, self.server.instances_max)?;
        within("the scan depth", self.scan_depth, SCAN_DEPTH_MIN, u32::MAX)?;
        if self.algorithm == Algorithm::Backoff && self.instance_pages < BACKOFF_PAGES_MIN {
            return Err(Error::PoolTooSmallForBackoff(self.instance_pages));
        }
        let most = self.instance_pages.saturating_sub(u64::from(self.server.least_in_use));
        if u64::from(self.scan_depth) > most {
            return Err(Error::PoolTooSmallForDepth { pages: self.instance_pages, most, depth: self.scan_depth });
        }
        within("the initial free pages", self.initial_free.unwrap_or(0), 0, self.instance_pages)?;
        within("the number of threads", self.threads, 0, THREADS_MAX)?;
        within("the number of repeats", self.repeat, 1, REPEAT_MAX)?;
        if let Some(rate) = self.rate_per_second {
            within("the rate", rate, 1e-6, RATE_MAX)?;
        }
        within("the time of a load in seconds", seconds(self.time_ns), 1e-3, longest)?;
        within("the pause in seconds", seconds(self.pause_ns), 0.0, longest)?;
        let whole = self.time_ns.checked_add(self.pause_ns).and_then(|one| one.checked_mul(u64::from(self.repeat)));
        within("the time of all loads in seconds", whole.map_or(f64::INFINITY, seconds), 0.0, longest)?;
        within("the pages that a query reads", self.reads_per_query, 0.0, PAGES_PER_QUERY_MAX)?;
        within("the pages without a read", self.pages_without_read, 0.0, PAGES_PER_QUERY_MAX)?;
        within("the share of dirty pages", self.dirty, 0.0, 1.0)?;
        within("the initial sleep in milliseconds", self.initial_sleep_ms, 0, 1000)?;
        let times = [
            ("the read time", self.read_ns),
            ("the write time", self.write_ns),
            ("the sleep overhead", self.sleep_overhead_ns),
            ("the loop overhead", self.loop_overhead_ns),
            ("the wake offset", self.start.wake_offset_ns.unwrap_or(0)),
            ("the phase", self.start.phase_ns.unwrap_or(0)),
            ("the service time", self.service_ns),
        ];
        for (what, ns) in times {
            within(what, seconds(ns), 0.0, 3600.0)?;
        }
        if self.service_ns < 1000 {
            return Err(Error::NoServiceTime);
        }
        if let Some(burst) = self.burst {
            within("the pages of a burst", burst.pages, 1, 1_000_000_000)?;
            within("the time between bursts in seconds", seconds(burst.every_ns), 1e-3, longest)?;
        }
        Ok(())
    }
}
