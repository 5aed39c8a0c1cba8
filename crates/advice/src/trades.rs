// SPDX-License-Identifier: Apache-2.0
//! What other settings gain and cost, by the simulator.

use crate::advised::{Basis, Simulated, Trade};
use crate::load::Load;
use crate::pool::Pool;
use capability::{Algorithm, FreeList, SCAN_DEPTH_MIN};
use simulate::{Costs, Range, Settings, Start, simulate, starts};

/// About how many queries one simulated load has.
const QUERIES: f64 = 100_000.0;
/// The shortest and the longest simulated load, in seconds.
const SECONDS: (f64, f64) = (3.0, 30.0);
/// The overhead of a sleep on a quiet host.
const SLEEP_OVERHEAD_NS: u64 = 60_000;

/// The depths: half of the depth now, the depth now, twice and four times as much, as far as the pool has room for them.
fn depths(pool: &Pool) -> Vec<u64> {
    let Some(most) = pool.most_free_pages() else { return Vec::new() };
    let wanted = [pool.depth / 2, pool.depth, pool.depth.saturating_mul(2), pool.depth.saturating_mul(4)];
    wanted.into_iter().filter(|depth| (u64::from(SCAN_DEPTH_MIN)..=most).contains(depth)).collect()
}

/// One load from one start.
#[derive(Debug, Clone, Copy)]
struct Once {
    stalls_per_minute: f64,
    stall_p50_us: Option<f64>,
    max_us: f64,
    queries_per_second: f64,
}

/// What a reading tells about writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writes {
    /// The share of dirty pages at the end of the LRU list. `None`: not known.
    pub dirty: Option<f64>,
    /// Whether clients write.
    pub active: bool,
}

pub(crate) fn trades(
    pool: &Pool,
    row: &'static FreeList,
    writes: Writes,
    (loads, load, mut unknown): (Vec<Load>, Vec<String>, Vec<String>),
    starts: u32,
) -> (Vec<Trade>, Option<Simulated>) {
    let arm = |depth, algorithm| over_all(pool, row, writes, &loads, depth, algorithm, starts);
    let now = arm(pool.depth, pool.algorithm_or_legacy()).unwrap_or_default();
    let mut rows = Vec::new();
    for depth in depths(pool) {
        for algorithm in row.algorithms {
            let is_current = depth == pool.depth && *algorithm == pool.algorithm_or_legacy();
            let all = if is_current { Some(now.clone()) } else { arm(depth, *algorithm) };
            let range = |of: fn(&Once) -> f64| range(all.iter().flatten().map(of));
            let (Some(stalls_per_minute), Some(stall_max_us), Some(queries_per_second)) =
                (range(|it| it.stalls_per_minute), range(|it| it.max_us), range(|it| it.queries_per_second))
            else {
                continue;
            };
            let all = all.unwrap_or_default();
            // from the same start, with the same load
            let times = all.iter().zip(&now).filter(|(_, now)| now.queries_per_second > 0.0);
            rows.push(Trade {
                lru_scan_depth: depth,
                algorithm: algorithm.name(),
                is_current,
                stalls_per_minute,
                stall_p50_us: self::range(all.iter().filter_map(|it| it.stall_p50_us)),
                stall_max_us,
                queries_per_second,
                queries_times: self::range(times.map(|(then, now)| then.queries_per_second / now.queries_per_second)),
                free_list_bytes: pool.free_bytes(depth),
            });
        }
    }
    if rows.is_empty() {
        return (rows, None);
    }
    unknown.push(
        "how much of its sleep the thread that makes pages free has left, and whether the server was quiet before"
            .to_owned(),
    );
    if writes.dirty.is_none() {
        unknown.push("how many pages are dirty at the end of the LRU list: none, in the simulation".to_owned());
    }
    (rows, Some(Simulated { basis: Basis::Simulated, load, unknown }))
}

fn range(values: impl Iterator<Item = f64>) -> Option<Range> {
    values.fold(None, |range: Option<Range>, value| {
        let one = Range { low: value, high: value };
        Some(range.map_or(one, |it| Range { low: it.low.min(value), high: it.high.max(value) }))
    })
}

/// The simulations in the same order for each depth and algorithm. `None`: the server does not have this setting.
fn over_all(
    pool: &Pool,
    row: &'static FreeList,
    writes: Writes,
    loads: &[Load],
    depth: u64,
    algorithm: Algorithm,
    count: u32,
) -> Option<Vec<Once>> {
    let mut all = Vec::new();
    for load in loads {
        let settings = settings(pool, row, writes, load, depth, algorithm)?;
        let seconds = settings.time_ns as f64 / 1e9;
        let others = starts(&settings, count).1;
        for settings in std::iter::once(settings).chain(others) {
            all.extend(simulate(&settings).ok()?.into_iter().map(|load| Once {
                stalls_per_minute: load.stalls as f64 * 60.0 / seconds,
                stall_p50_us: load.stall_p50_us,
                max_us: load.max_us,
                queries_per_second: load.queries_per_second,
            }));
        }
    }
    Some(all)
}

/// Two loads, one after the other: the first after a quiet time, the second right after the first.
#[allow(clippy::cast_possible_truncation)] // bounded
fn settings(
    pool: &Pool,
    row: &'static FreeList,
    writes: Writes,
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
        // reads are part of the service time
        read_ns: 0,
        write_ns: 100_000,
        dirty: writes.dirty.unwrap_or(0.0),
        active: writes.active,
        burst: None,
        sleep_overhead_ns: SLEEP_OVERHEAD_NS,
        loop_overhead_ns: 70_000,
        initial_sleep_ms: 1000,
        initial_free: None,
        start: Start::default(),
        clock: None,
        seed: 1,
        costs: Costs { is_doublewrite: pool.is_doublewrite, ..Costs::default() },
    })
}
