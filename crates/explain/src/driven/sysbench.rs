// SPDX-License-Identifier: Apache-2.0
//! sysbench 1.x's report. Its events are transactions in sysbench's own scripts; in another Lua script, an event is whatever the script does.

use super::{Understood, number, slots, whole};
use crate::histograms;
use evidence::{Arrivals, LatencyHistogram, Phase};
use modes::Bin;
use std::collections::BTreeMap;

/// One step of sysbench's histogram is 1.8 % wide, and our bins are 0.1 % wide: at most this many values represent a step.
const PIECES: u64 = 18;

pub(super) fn read(text: &str) -> Option<Understood> {
    let version = text.lines().rev().find_map(version)?;
    let total_time_s = value(text, "total time:").or_else(|| value(text, "time elapsed:"))?;
    let events = value(text, "total number of events:")?;
    let mut phase = Phase {
        elapsed_us: whole(total_time_s * 1e6),
        transactions: whole(value(text, "transactions:").unwrap_or(events)),
        reads: whole(value(text, "read:").unwrap_or_default()),
        writes: whole(value(text, "write:").unwrap_or_default()),
        others: whole(value(text, "other:").unwrap_or_default()),
        reconnects: whole(value(text, "reconnects:").unwrap_or_default()),
        timeline: slots::of_sysbench(text),
        ..Phase::default()
    };
    if let Some(ignored) = value(text, "ignored errors:").filter(|count| *count > 0.0) {
        phase.errors.insert("ignored by sysbench".into(), whole(ignored));
    }
    let rate = value(text, "Target transaction rate:").filter(|rate| *rate > 0.0);
    let histogram = histogram(text);
    // with a rate, sysbench's latencies begin at the time when an event was due
    if rate.is_none() {
        phase.transaction.service = histogram.clone();
    }
    phase.transaction.response = histogram;
    let threads = value(text, "Number of threads:").and_then(|count| u32::try_from(whole(count)).ok());
    Some(Understood {
        program: format!("sysbench {version}"),
        connections: threads,
        workers: threads,
        arrivals: rate.map_or(Arrivals::Closed, |per_second| Arrivals::Poisson { per_second }),
        phase,
        figures: figures(text, total_time_s, events),
    })
}

/// `sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)`.
fn version(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("sysbench ")?;
    let (version, using) = rest.split_once(' ')?;
    (using.starts_with("(using") && version.starts_with(|c: char| c.is_ascii_digit())).then_some(version)
}

/// The number in the last line that begins with `name`.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| number(line.trim_start().strip_prefix(name)?))
}

fn figures(text: &str, total_time_s: f64, events: f64) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::from([("total_time_s".to_owned(), total_time_s), ("events".to_owned(), events)]);
    let per_second = |name: &str| {
        let line = text.lines().rev().find_map(|line| line.trim_start().strip_prefix(name))?;
        number(line.split_once('(')?.1)
    };
    for (key, name) in [("transactions_per_second", "transactions:"), ("queries_per_second", "queries:")] {
        figures.extend(per_second(name).map(|rate| (key.to_owned(), rate)));
    }
    // the lines below this heading, in milliseconds
    let latency = text.rsplit_once("Latency (ms):").map_or("", |(_, below)| below);
    for line in latency.lines().map(str::trim).skip(1).take_while(|line| !line.is_empty()) {
        let Some((name, ms)) = line.split_once(':').and_then(|(name, rest)| Some((name, number(rest)?))) else {
            continue;
        };
        match name.split_once("th percentile") {
            Some((percentile, _)) => figures.insert(format!("latency_p{percentile}_us"), ms * 1e3),
            None => figures.insert(format!("latency_{}_us", name.replace(' ', "_")), ms * 1e3),
        };
    }
    figures
}

/// The histogram of `--histogram`: each step's count is spread evenly over the step. Empty without that option.
fn histogram(text: &str) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    let found = histograms::read(text).unwrap_or_default();
    let last = found.iter().rfind(|named| named.name.starts_with("sysbench"));
    last.iter().flat_map(|named| &named.bins).for_each(|bin| spread(bin, &mut histogram));
    histogram
}

fn spread(bin: &Bin, into: &mut LatencyHistogram) {
    let pieces = bin.count.min(PIECES);
    for piece in 0..pieces {
        let count = bin.count / pieces + u64::from(piece < bin.count % pieces);
        let us = bin.low_us + bin.width_us() * (piece as f64 + 0.5) / pieces as f64;
        into.record_n(whole(us * 1e3), count);
    }
}
