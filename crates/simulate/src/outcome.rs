// SPDX-License-Identifier: Apache-2.0
//! The outcome of one load.

use serde::Serialize;

/// A shorter wait for a free page is counted separately (`micro_stalls`): most people do not notice it.
pub const STALL_NS: u64 = 5_000_000;
/// The most stalls that are listed one by one; later stalls are only counted.
const EVENTS_MAX: usize = 1000;
/// Parts of a timeline.
const PARTS: u64 = 120;

/// Status counters and metrics of the server, by their own meaning in the version simulated; sums over one load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// `Innodb_buffer_pool_wait_free`.
    pub wait_free: u64,
    pub get_free_search: u64,
    pub get_free_loops: u64,
    pub get_free_waits: u64,
    pub search_scanned: u64,
    pub search_num_scan: u64,
    /// Pages that clients passed over in search of one to write.
    pub single_flush_scanned: u64,
    /// Dirty pages that clients wrote themselves.
    pub single_flushes: u64,
    /// Clean pages that batches took away.
    pub lru_evicted: u64,
    /// Dirty pages that batches wrote.
    pub lru_flushed: u64,
    /// Pages that queries needed without reading anything.
    pub pages_without_read: u64,
}

impl Counters {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            wait_free: self.wait_free - before.wait_free,
            get_free_search: self.get_free_search - before.get_free_search,
            get_free_loops: self.get_free_loops - before.get_free_loops,
            get_free_waits: self.get_free_waits - before.get_free_waits,
            search_scanned: self.search_scanned - before.search_scanned,
            search_num_scan: self.search_num_scan - before.search_num_scan,
            single_flush_scanned: self.single_flush_scanned - before.single_flush_scanned,
            single_flushes: self.single_flushes - before.single_flushes,
            lru_evicted: self.lru_evicted - before.lru_evicted,
            lru_flushed: self.lru_flushed - before.lru_flushed,
            pages_without_read: self.pages_without_read - before.pages_without_read,
        }
    }
}

/// One client that waited for a page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// From the beginning of the load, in microseconds.
    pub started_us: f64,
    pub length_us: f64,
    /// Counted from 0.
    pub client: usize,
    /// It is the client of the bursts.
    pub is_burst: bool,
}

/// A part of a load, by the times at which its queries ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Part {
    /// From the beginning of the load, in microseconds.
    pub from_us: f64,
    pub queries: u64,
    /// The longest query that ended, bursts left out.
    pub max_us: f64,
    pub stalls: u64,
    pub lost_query_us: f64,
    /// Rounds of all refillers.
    pub refills: u64,
    /// The sleep that the first refiller had chosen at its last round up to the end of this part; `None`: no round yet.
    pub refiller_sleep_us: Option<u64>,
    /// The fewest free pages that a refiller found; `None`: no round.
    pub free_pages_min: Option<u64>,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Counted from 1.
    pub repeat: u32,
    /// Queries that ended within the time of the load, bursts left out.
    pub queries: u64,
    pub queries_per_second: f64,
    /// The longest query from its own beginning, bursts left out; one that is unfinished is as long as it has lasted.
    pub max_us: f64,
    /// The longest from the time at which it should have begun, bursts left out.
    pub response_max_us: f64,
    /// Waits of 5 ms and more for a free page, those of bursts included.
    pub stalls: u64,
    pub stall_p50_us: Option<f64>,
    pub stall_max_us: Option<f64>,
    /// Shorter waits.
    pub micro_stalls: u64,
    /// All waits together, those of bursts included.
    pub lost_query_us: f64,
    pub wait_free: u64,
    /// Sleep of the refiller at the end of the load; `None`: there is no refiller.
    pub refiller_sleep_us: Option<u64>,
    pub free_pages_at_end: u64,
    /// Queries that were still without a page ten seconds after the end of the load, because no thread made a page free. They count as stalls.
    pub unfinished: u64,
    pub counters: Counters,
    /// The first thousand stalls, by when they ended.
    pub events: Vec<Stall>,
    pub events_left_out: u64,
    pub timeline: Vec<Part>,
}

/// Notes what happens in one load.
#[derive(Debug)]
pub(crate) struct Recorder {
    from: u64,
    time_ns: u64,
    queries: u64,
    max_ns: u64,
    response_max_ns: u64,
    lengths: Vec<u64>,
    micro_stalls: u64,
    lost_ns: u64,
    events: Vec<Stall>,
    unfinished: u64,
    parts: Vec<Part>,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Recorder {
    pub(crate) fn new(from: u64, time_ns: u64) -> Self {
        // no part is shorter than a millisecond
        let count = (time_ns / 1_000_000).clamp(1, PARTS);
        let part = |index: u64| Part { from_us: us(time_ns) * index as f64 / count as f64, ..Part::default() };
        Self {
            from,
            time_ns,
            queries: 0,
            max_ns: 0,
            response_max_ns: 0,
            lengths: Vec::new(),
            micro_stalls: 0,
            lost_ns: 0,
            events: Vec::new(),
            unfinished: 0,
            parts: (0..count).map(part).collect(),
        }
    }

    /// What happens after the load belongs to its last part.
    fn part(&mut self, at: u64) -> Option<&mut Part> {
        let count = self.parts.len();
        let share = at.saturating_sub(self.from) as f64 / self.time_ns as f64;
        #[allow(clippy::cast_possible_truncation)] // saturates
        let index = (share * count as f64) as usize;
        self.parts.get_mut(index.min(count.saturating_sub(1)))
    }

    pub(crate) fn query(&mut self, intended: u64, started: u64, ended: u64) {
        if ended <= self.from + self.time_ns {
            self.queries += 1;
        }
        let length = ended - started;
        self.max_ns = self.max_ns.max(length);
        self.response_max_ns = self.response_max_ns.max(ended - intended);
        if let Some(part) = self.part(ended) {
            part.queries += 1;
            part.max_us = part.max_us.max(us(length));
        }
    }

    /// A query that was given up: it counts as no query, but it is as long as it has lasted.
    pub(crate) fn given_up(&mut self, intended: u64, started: u64, now: u64) {
        self.unfinished += 1;
        self.max_ns = self.max_ns.max(now.saturating_sub(started));
        self.response_max_ns = self.response_max_ns.max(now.saturating_sub(intended));
        if let Some(part) = self.part(now) {
            part.max_us = part.max_us.max(us(now.saturating_sub(started)));
        }
    }

    pub(crate) fn wait(&mut self, since: u64, until: u64, client: usize, is_burst: bool) {
        let length = until - since;
        self.lost_ns += length;
        let is_stall = length >= STALL_NS;
        if let Some(part) = self.part(until) {
            part.lost_query_us += us(length);
            part.stalls += u64::from(is_stall);
        }
        if !is_stall {
            self.micro_stalls += 1;
            return;
        }
        self.lengths.push(length);
        if self.events.len() < EVENTS_MAX {
            let started_us = us(since.saturating_sub(self.from));
            self.events.push(Stall { started_us, length_us: us(length), client, is_burst });
        }
    }

    pub(crate) fn refill(&mut self, at: u64, free: u64, sleep_us: Option<u64>) {
        if at < self.from {
            return;
        }
        let Some(part) = self.part(at) else { return };
        part.refills += 1;
        part.refiller_sleep_us = sleep_us.or(part.refiller_sleep_us);
        part.free_pages_min = Some(part.free_pages_min.map_or(free, |least| least.min(free)));
    }

    pub(crate) fn load(
        mut self,
        repeat: u32,
        refiller_sleep_us: Option<u64>,
        free_pages_at_end: u64,
        counters: Counters,
    ) -> Load {
        self.lengths.sort_unstable();
        let middle = self.lengths.get(self.lengths.len() / 2).copied().map(us);
        let mut sleep = None;
        for part in &mut self.parts {
            part.refiller_sleep_us = part.refiller_sleep_us.or(sleep);
            sleep = part.refiller_sleep_us;
        }
        Load {
            repeat,
            queries: self.queries,
            queries_per_second: self.queries as f64 * 1e9 / self.time_ns as f64,
            max_us: us(self.max_ns),
            response_max_us: us(self.response_max_ns),
            stalls: self.lengths.len() as u64,
            stall_p50_us: middle,
            stall_max_us: self.lengths.last().copied().map(us),
            micro_stalls: self.micro_stalls,
            lost_query_us: us(self.lost_ns),
            wait_free: counters.wait_free,
            refiller_sleep_us,
            free_pages_at_end,
            unfinished: self.unfinished,
            counters,
            events_left_out: self.lengths.len() as u64 - self.events.len() as u64,
            events: self.events,
            timeline: self.parts,
        }
    }
}
