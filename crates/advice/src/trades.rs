// SPDX-License-Identifier: Apache-2.0
//! What other settings trade for what, by the simulator.

use crate::advised::{Basis, Simulated, Trade};
use crate::load::Load;
use crate::pool::Pool;
use capability::{Algorithm, FreeList, SCAN_DEPTH_MIN};
use simulate::{Costs, Range, Settings, Start, simulate_with_band};

/// Queries of one simulated load, about.
const QUERIES: f64 = 100_000.0;
/// How long a simulated load is, at least and at most, in seconds.
const SECONDS: (f64, f64) = (3.0, 30.0);
/// InnoDB's answer with a page that is free at once costs nothing of this.
const SLEEP_OVERHEAD_NS: u64 = 60_000;

/// Half, as now, twice, four times; where the pool has room for it.
fn depths(pool: &Pool, row: &FreeList) -> Vec<u64> {
    let Some(pages) = pool.instance_pages() else { return Vec::new() };
    let most = pages.saturating_sub(u64::from(row.least_in_use));
    let wanted = [pool.depth / 2, pool.depth, pool.depth * 2, pool.depth * 4];
    wanted.into_iter().filter(|depth| (u64::from(SCAN_DEPTH_MIN)..=most).contains(depth)).collect()
}

/// The same over all loads and starts.
struct Widened {
    stalls_per_minute: Range,
    stall_p50_us: Option<Range>,
    stall_max_us: Range,
    queries_per_second: Range,
}

pub(crate) fn trades(
    pool: &Pool,
    row: &'static FreeList,
    dirty: Option<f64>,
    (loads, load, mut unknown): (Vec<Load>, Vec<String>, Vec<String>),
    starts: u32,
) -> (Vec<Trade>, Option<Simulated>) {
    let mut rows = Vec::new();
    for depth in depths(pool, row) {
        for algorithm in row.algorithms {
            let Some(widened) = over_all(pool, row, dirty, &loads, depth, *algorithm, starts) else { continue };
            rows.push(Trade {
                lru_scan_depth: depth,
                algorithm: algorithm.name(),
                is_current: depth == pool.depth && *algorithm == pool.algorithm_or_legacy(),
                stalls_per_minute: widened.stalls_per_minute,
                stall_p50_us: widened.stall_p50_us,
                stall_max_us: widened.stall_max_us,
                queries_per_second: widened.queries_per_second,
                free_list_bytes: pool.free_bytes(depth),
            });
        }
    }
    if rows.is_empty() {
        return (rows, None);
    }
    unknown.push("how far who makes pages free is in his sleep, and whether the server was quiet before".to_owned());
    if dirty.is_none() {
        unknown.push("how many pages are dirty at the end of the LRU list: none, in the simulation".to_owned());
    }
    (rows, Some(Simulated { basis: Basis::Simulated, load, unknown }))
}

fn over_all(
    pool: &Pool,
    row: &'static FreeList,
    dirty: Option<f64>,
    loads: &[Load],
    depth: u64,
    algorithm: Algorithm,
    starts: u32,
) -> Option<Widened> {
    let mut all: Option<Widened> = None;
    for load in loads {
        let settings = settings(pool, row, dirty, load, depth, algorithm)?;
        let seconds = settings.time_ns as f64 / 1e9;
        for (load, band) in simulate_with_band(&settings, starts).ok()? {
            let one = |value: f64| Range { low: value, high: value };
            let (stalls, p50, max, speed) = match band {
                Some(band) => (band.stalls, band.stall_p50_us, band.max_us, band.queries_per_second),
                None => (
                    one(load.stalls as f64),
                    load.stall_p50_us.map(one),
                    one(load.max_us),
                    one(load.queries_per_second),
                ),
            };
            let a_minute = Range { low: stalls.low * 60.0 / seconds, high: stalls.high * 60.0 / seconds };
            let all = all.get_or_insert_with(|| Widened {
                stalls_per_minute: a_minute,
                stall_p50_us: p50,
                stall_max_us: max,
                queries_per_second: speed,
            });
            all.stalls_per_minute = union(all.stalls_per_minute, a_minute);
            all.stall_max_us = union(all.stall_max_us, max);
            all.queries_per_second = union(all.queries_per_second, speed);
            all.stall_p50_us = match (all.stall_p50_us, p50) {
                (Some(before), Some(p50)) => Some(union(before, p50)),
                (before, p50) => before.or(p50),
            };
        }
    }
    all
}

fn union(one: Range, other: Range) -> Range {
    Range { low: one.low.min(other.low), high: one.high.max(other.high) }
}

/// Two loads, one after the other: the first after a quiet time, the second in the midst of it.
#[allow(clippy::cast_possible_truncation)] // bounded
fn settings(
    pool: &Pool,
    row: &'static FreeList,
    dirty: Option<f64>,
    load: &Load,
    depth: u64,
    algorithm: Algorithm,
) -> Option<Settings> {
    let speed = load.rate_per_second.unwrap_or(f64::from(load.threads) * 1e6 / load.service_us);
    let seconds = (QUERIES / speed.max(1.0)).clamp(SECONDS.0, SECONDS.1);
    Some(Settings {
        server: row,
        algorithm,
        scan_depth: u32::try_from(depth).ok()?,
        instance_pages: pool.instance_pages()?,
        instances: u32::try_from(pool.instances).ok()?,
        threads: load.threads,
        rate_per_second: load.rate_per_second,
        time_ns: (seconds * 1e9) as u64,
        pause_ns: 0,
        repeat: 2,
        gap_ns: 0,
        reads_per_query: load.pages_per_query,
        pages_without_read: 0.0,
        service_ns: (load.service_us * 1000.0) as u64,
        // in the service time
        read_ns: 0,
        write_ns: 100_000,
        dirty: dirty.unwrap_or(0.0),
        burst: None,
        sleep_overhead_ns: SLEEP_OVERHEAD_NS,
        loop_overhead_ns: 70_000,
        initial_sleep_ms: 1000,
        initial_free: None,
        start: Start::default(),
        clock: None,
        seed: 1,
        costs: Costs::default(),
    })
}
