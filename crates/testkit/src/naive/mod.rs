// SPDX-License-Identifier: Apache-2.0
//! A second, very simple program for InnoDB's free list: every microsecond everything is looked at. It is slow. It was written from the description
//! of the server, not from `simulate`, so that a mistake in one of the two shows as a difference between them.
//!
//! It knows LRU managers and page cleaners, `backoff`, and the single page writes of MySQL; it does not know what MariaDB does differently from 10.5
//! on.
//! Times are whole microseconds. Random numbers: of client `i` the stream `seed ^ ((2 i + 1) << 32)`, of instance `i` `seed ^ ((2 i + 2) << 32)`.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use std::collections::VecDeque;

mod actions;
mod refillers;

#[derive(Debug, Clone)]
pub struct NaiveSetup {
    pub seed: u64,
    pub instances: usize,
    pub pages: usize,
    pub depth: usize,
    pub free: usize,
    pub least: usize,
    /// Only written pages count against a batch, in chunks of this many pages; `None`: all pages count.
    pub chunk: Option<usize>,
    pub is_backoff: bool,
    pub legacy: LegacySetup,
    pub managers: Vec<ManagerSetup>,
    /// The period, the time of the first wake-up, and whether a client can wake the cleaner. The cleaner works for all instances.
    pub cleaner: Option<(u64, u64, bool)>,
    pub first_wake: u64,
    pub threads: usize,
    pub mean_gap: Option<f64>,
    pub time: u64,
    pub pause: u64,
    pub gap: u64,
    /// Clients that have no page this long after the end of a load are removed.
    pub patience: u64,
    pub repeat: u32,
    pub reads: f64,
    pub without: f64,
    pub service: u64,
    pub read: u64,
    pub write: u64,
    pub dirty: f64,
    /// The number of pages, and the time from the end of one burst to the next burst.
    pub burst: Option<(u64, u64)>,
    pub overhead: u64,
    pub loop_overhead: u64,
    /// Refillers sleep by `select`, which may be late by a thousandth of the time; 50 us of the delay are in the overhead.
    pub is_select: bool,
    pub idle: u64,
    pub yields: u64,
    pub batch_first: u64,
    pub batch_page: u64,
    pub look: u64,
    pub take: u64,
    pub is_doublewrite: bool,
}

#[derive(Debug, Clone)]
pub struct LegacySetup {
    pub waits_for_batch: bool,
    pub depth: usize,
    pub wakes: bool,
    pub sleep: u64,
    pub takes_clean: bool,
}

/// One LRU manager.
#[derive(Debug, Clone)]
pub struct ManagerSetup {
    pub from: usize,
    pub until: usize,
    pub sleep_ms: u64,
    /// Whether its last batch found something to do.
    pub had_work: bool,
    pub up: u64,
    pub is_target_limited: bool,
    pub counts_evicted: bool,
    pub truncates: bool,
}

/// The counts and times of one load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NaiveCounts {
    pub wait_free: u64,
    pub searches: u64,
    pub loops: u64,
    pub sleeps: u64,
    pub scanned: u64,
    pub scans: u64,
    pub passed: u64,
    pub single_writes: u64,
    pub evicted: u64,
    pub flushed: u64,
    pub without: u64,
    pub queries: u64,
    pub max: u64,
    pub lost: u64,
    pub sleep_ms: Option<u64>,
    pub free: u64,
}

/// One buffer pool instance. A page of the list is `None` until a search has looked whether it is dirty.
struct Pool {
    rng: Xoshiro256PlusPlus,
    free: usize,
    list: VecDeque<Option<bool>>,
    writes: Vec<u64>,
    held: usize,
    try_scan: bool,
    batch: Option<Batch>,
    results: Vec<(usize, usize, usize)>,
}

struct Batch {
    refiller: usize,
    flushed: usize,
    evicted: usize,
    budget: usize,
    step: u64,
    over: Option<u64>,
    last_write: u64,
}

struct Thread {
    manager: Option<(ManagerSetup, u64, (usize, usize))>,
    period: u64,
    can_be_woken: bool,
    from: usize,
    until: usize,
    /// The time until which the thread sleeps; `None`: it works, and `work` begins with the time and the instance.
    asleep: Option<u64>,
    work: (u64, usize, (usize, usize)),
    called: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    Start,
    NextPage,
    Poll,
    Behind,
    Searched,
    Slept,
    Took,
    Wrote(bool),
}

struct Client {
    rng: Xoshiro256PlusPlus,
    burst: bool,
    doing: Doing,
    at: u64,
    intended: u64,
    started: u64,
    left: u64,
    cost: u64,
    pool: usize,
    since: u64,
    tries: u32,
}

struct All {
    before: (u64, u64),
    asked: NaiveSetup,
    now: u64,
    pools: Vec<Pool>,
    threads: Vec<Thread>,
    clients: Vec<Client>,
    load_from: u64,
    load_until: u64,
    seen: NaiveCounts,
}

fn stream(seed: u64, number: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ ((number as u64) << 32))
}

fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
}

#[allow(clippy::cast_possible_truncation)] // the numbers are small
fn count(rng: &mut Xoshiro256PlusPlus, mean: f64) -> u64 {
    let whole = mean.floor();
    if mean - whole > 0.0 && unit(rng) < mean - whole { whole as u64 + 1 } else { whole as u64 }
}

/// The wait after failed try `n`, as the server asks for it.
fn ladder(n: u32) -> Option<u64> {
    match n {
        0..=2 => None,
        3 => Some(1),
        4 => Some(2),
        5 => Some(4),
        6 | 7 => Some(16),
        8..=10 => Some(32),
        n => {
            // as compiled: a 32-bit number is shifted, widened with its sign, and limited as a number without a sign
            let shifted = 1i32.wrapping_shl(n - 5);
            Some((i64::from(shifted) as u64).min(10_000))
        }
    }
}

/// The loads, one after the other, and whether no page was missing at the end of each load. `gap` and `pause` together are above 0.
pub fn run(asked: &NaiveSetup) -> (Vec<NaiveCounts>, bool) {
    let mut all = All::new(asked);
    let mut loads = Vec::new();
    let mut is_whole = true;
    let mut begins = asked.pause;
    let mut is_running = false;
    while loads.len() < asked.repeat as usize {
        all.pages_move();
        if !is_running && all.now == begins {
            is_running = true;
            all.begin();
        }
        if is_running && all.now == all.load_until {
            all.seen.sleep_ms = all.threads.first().map(Thread::sleep_ms);
            all.seen.free = all.pools.iter().map(|it| it.free as u64).sum();
        }
        if is_running && all.now == all.load_until + asked.patience {
            all.give_up();
        }
        let mut is_over = is_running && all.now >= all.load_until && all.is_idle();
        if is_over {
            loads.push(all.end());
        }
        all.refill();
        all.clients_act();
        if is_running && !is_over && all.now >= all.load_until && all.is_idle() {
            is_over = true;
            loads.push(all.end());
        }
        if is_over {
            is_running = false;
            is_whole &= all.pools.iter().all(|it| it.count() == asked.pages);
            begins = all.now + asked.gap + asked.pause;
        }
        all.now += 1;
    }
    (loads, is_whole)
}

impl Thread {
    fn sleep_ms(&self) -> u64 {
        self.manager.as_ref().map_or(self.period / 1000, |it| it.1)
    }
}
