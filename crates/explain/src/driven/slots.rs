// SPDX-License-Identifier: Apache-2.0
//! A timeline from the lines that sysbench and pgbench print while they run. The lines give the length of a slot and its rates; a slot's counts are
//! computed from them. Work that ended after the last line is in no slot.

use super::{number, whole};
use evidence::TimelinePoint;
use std::collections::BTreeMap;

/// A larger time in a line counts from 1970.
const EPOCH_S: f64 = 1e8;
const SECOND_US: u64 = 1_000_000;

/// `[ 3s ] thds: 4 tps: 812.3 qps: 1299.4 (r/w/o: ...) lat (ms,95%): 8.13 err/s: 0.00 reconn/s: 0.00`: the lines of the last run in the text.
pub(super) fn of_sysbench(text: &str) -> Vec<TimelinePoint> {
    let last = text.rsplit_once("Threads started!").map_or(text, |(_, rest)| rest);
    let lines = last.lines().filter_map(|line| {
        let (at, rest) = line.trim().strip_prefix("[ ")?.split_once("s ] thds:")?;
        Some((at.parse().ok()?, rest))
    });
    slots(lines, |rest, point, seconds| {
        let after = |name: &str| number(rest.split_once(name)?.1);
        let rate = |name: &str| after(name).map_or(0, |rate| whole(rate * seconds));
        point.transactions = rate(" tps: ").max(rate(" eps: "));
        point.queries = rate(" qps: ");
        point.errors = rate(" err/s: ");
        let latency = rest.split_once(" lat (ms,").and_then(|(_, rest)| rest.split_once("%): "));
        let Some((percentile, us)) = latency.and_then(|(name, ms)| Some((name, whole(number(ms)? * 1e3)))) else {
            return;
        };
        match percentile {
            "50" => point.p50_us = us,
            "95" => point.p95_us = Some(us),
            "99" => point.p99_us = us,
            "100" => point.max_us = us,
            _ => {}
        }
    })
}

/// `progress: 3.0 s, 812.3 tps, lat 1.231 ms stddev 0.412, 0 failed`.
pub(super) fn of_pgbench(text: &str) -> Vec<TimelinePoint> {
    let lines = text.lines().filter_map(|line| {
        let (at, rest) = line.trim().strip_prefix("progress: ")?.split_once(" s, ")?;
        Some((at.parse().ok()?, rest))
    });
    slots(lines, |rest, point, seconds| {
        let parts = || rest.split(", ").map(str::trim);
        let before = |unit: &str| parts().find_map(|part| number(part.strip_suffix(unit)?));
        point.transactions = before(" tps").map_or(0, |rate| whole(rate * seconds));
        point.errors = before(" failed").map_or(0, whole);
        point.mean_us = parts().find_map(|part| Some(whole(number(part.strip_prefix("lat ")?)? * 1e3)));
    })
}

/// Slots from lines with the second at which each slot ended. When times count from 1970, the first slot is assumed to be as long as the second.
fn slots<'a>(
    lines: impl Iterator<Item = (f64, &'a str)>,
    read: impl Fn(&str, &mut TimelinePoint, f64),
) -> Vec<TimelinePoint> {
    let lines: Vec<(f64, &str)> = lines.collect();
    let Some((first, _)) = lines.first() else { return Vec::new() };
    let second = lines.get(1).map_or(1.0, |(second, _)| second - first);
    let start = if *first > EPOCH_S { first - second } else { 0.0 };
    let mut points = Vec::with_capacity(lines.len());
    let mut before = start;
    for (at, rest) in lines {
        let seconds = at - before;
        // two lines for one second, or a line of another run
        if seconds <= 0.0 {
            continue;
        }
        let (at_us, length_us) = (whole((before - start) * 1e6), whole(seconds * 1e6));
        let mut point = TimelinePoint { at_us, length_us, ..TimelinePoint::default() };
        read(rest, &mut point, seconds);
        points.push(point);
        before = at;
    }
    points
}

/// Slots of one second from single transactions: the end and the latency of each, in microseconds. The start of the earliest one is at 0; the last
/// second is left out unless it is whole.
pub(super) fn of_transactions(transactions: &[(u64, u64)]) -> Vec<TimelinePoint> {
    let Some(start) = transactions.iter().map(|(ended, took)| ended.saturating_sub(*took)).min() else {
        return Vec::new();
    };
    let mut seconds: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (ended, took) in transactions {
        seconds.entry((ended - start) / SECOND_US).or_default().push(*took);
    }
    let last = seconds.keys().next_back().copied().unwrap_or_default();
    let point = |second: u64| {
        let mut took = seconds.get(&second).cloned().unwrap_or_default();
        took.sort_unstable();
        let at =
            |percent: usize| took.get((took.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
        TimelinePoint {
            at_us: second * SECOND_US,
            length_us: SECOND_US,
            transactions: took.len() as u64,
            p50_us: at(50),
            p99_us: at(99),
            max_us: at(100),
            ..TimelinePoint::default()
        }
    };
    (0..last).map(point).collect()
}
