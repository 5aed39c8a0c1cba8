// SPDX-License-Identifier: Apache-2.0
//! The parts of a server's memory that keep growing, and the meaning of growth: a leak, memory that the allocator keeps, or a cache that fills up.

use ledger::{Kind, OverTime, kind};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use trend::{Reading, Trend, median, trend};

/// The name of memory that no leaf explains, beside the paths of leaves.
pub(crate) const UNEXPLAINED: &str = "unexplained";
/// The leaf of memory that is free in the allocator.
const RETAINED: &str = "allocator/retained";
/// The kernel gives memory in pages, and malloc in larger pieces: a series that changed by less than 16 pages of 4 KiB is not judged.
const SMALLEST: f64 = 65536.0;
/// How often chance alone may cause a claim in a recording, over all its leaves together.
const ERROR: f64 = 0.05;
const HOUR_US: f64 = 3.6e9;

/// The meaning of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// Memory in use: the server's own meter, or the walk of malloc's chunks, shows that it is used.
    Leak,
    /// It is not known whether the memory is used or free.
    Unnamed,
    /// Memory that is free in the allocator.
    Retention,
    /// A cache, or another part with a size of its own.
    Filling,
    /// Nothing keeps growing.
    None,
    /// Too few inventories.
    TooFew,
}

/// The course of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// It grew in each quarter of the time.
    KeepsGrowing,
    /// It has a trend upwards, or all of its last quarter is above all of its first; but it stood still for a part of the time: it grew in steps, or
    /// less and less.
    Grew,
    Shrank,
    /// No trend is shown.
    Steady,
    /// There are too few inventories, it hardly changed, or it changed by less than the processes that were not read may be off.
    Unjudged,
}

/// One leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeafGrowth {
    /// The path as in the account; `unexplained`: memory of no leaf; `total`, `heap_used`: sums that are shown beside the leaves.
    pub path: String,
    pub course: Course,
    /// The meaning of the growth, if the leaf keeps growing.
    pub growth: Option<Growth>,
    pub first_bytes: f64,
    pub last_bytes: f64,
    /// `None`: not judged; then the three fields below are `None`, too.
    pub bytes_per_hour: Option<f64>,
    /// The ends of the interval that contains the true rate in 95 of 100 cases.
    pub low_bytes_per_hour: Option<f64>,
    pub high_bytes_per_hour: Option<f64>,
    /// The probability that a series without a trend looks like this one; for a leaf after Holm's correction for the number of leaves.
    pub p_value: Option<f64>,
    /// The size up to which a cache may grow, by its meter.
    pub limit_bytes: Option<u64>,
}

/// All judged series of one start of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    pub(crate) inventories: usize,
    pub(crate) elapsed_us: u64,
    pub(crate) total: LeafGrowth,
    pub(crate) heap_used: Option<LeafGrowth>,
    /// The leaves that changed, the fastest growing leaf first.
    pub(crate) leaves: Vec<LeafGrowth>,
    pub(crate) sessions: LeafGrowth,
    pub(crate) is_enough: bool,
    /// How many leaves would keep growing if the processes that were not read were as they are estimated.
    pub(crate) uncertain: usize,
    /// How far the total of one inventory may be off because processes were estimated; the largest.
    pub(crate) off: u64,
}

/// Judges the last start that has inventories. `None`: there are none.
pub(crate) fn judge(over: &OverTime) -> Option<Judged> {
    let last = *over.starts.last()?;
    let from = over.starts.iter().position(|start| *start == last)?;
    let series = |values: &dyn Fn(usize) -> Option<f64>| -> Vec<Reading> {
        let known = (from..over.at_us.len()).filter_map(|at| Some((over.at_us[at] as f64 / HOUR_US, values(at)?)));
        known.collect()
    };
    let alone = |path: &str, readings: Vec<Reading>| Tried::of(path, &readings, None).judged();
    let heap = alone("heap_used", series(&|at| as_f64(over.heap_used_bytes[at])));
    let is_walked = over.heap_used_bytes[from..].iter().any(Option::is_some);
    let mut tried = vec![Tried::of(UNEXPLAINED, &series(&|at| Some(over.unexplained_bytes[at]? as f64)), None)];
    tried.extend(over.leaves.iter().map(|leaf| {
        let limit = leaf.allocated_bytes.iter().rev().find_map(|bytes| *bytes);
        Tried::of(&leaf.path, &series(&|at| as_f64(leaf.resident_bytes[at])), limit)
    }));
    // when few inventories have a walk, its result is not a leaf
    if over.leaves.iter().all(|leaf| leaf.path != RETAINED) {
        tried.push(Tried::of(RETAINED, &series(&|at| as_f64(over.heap_retained_bytes[at])), None));
    }
    let is_enough = tried.iter().any(|tried| tried.count >= trend::FEWEST);
    // inventories of an earlier version have the others only
    let offs = over.estimate_uncertainty_bytes.get(from..).unwrap_or_default();
    let usual = median(offs.iter().map(|bytes| *bytes as f64).collect());
    let (leaves, uncertain) = leaves(tried, is_walked.then_some(&heap), usual);
    Some(Judged {
        inventories: over.at_us.len() - from,
        elapsed_us: over.at_us.last()?.saturating_sub(over.at_us[from]),
        total: alone("total", series(&|at| Some(over.kernel_total_bytes[at] as f64))),
        leaves,
        uncertain,
        off: offs.iter().copied().max().unwrap_or(0),
        heap_used: is_walked.then_some(heap),
        sessions: alone("sessions", series(&|at| Some(as_f64(over.sessions[at])? * SMALLEST))),
        is_enough,
    })
}

fn as_f64(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64)
}

/// The leaves with the meaning of their growth, without those that did not change; and how many grew by less than `off`.
fn leaves(mut tried: Vec<Tried>, heap: Option<&LeafGrowth>, off: f64) -> (Vec<LeafGrowth>, usize) {
    tried.retain(|tried| tried.changed);
    holm(&mut tried);
    let mut leaves: Vec<LeafGrowth> = tried.into_iter().map(Tried::judged).collect();
    let mut uncertain = 0;
    for leaf in &mut leaves {
        // where all processes were read, one low reading at the end hides no growth
        if off > 0.0 && leaf.course == Course::KeepsGrowing && leaf.last_bytes - leaf.first_bytes < off {
            leaf.course = Course::Unjudged;
            uncertain += 1;
        }
        leaf.growth = (leaf.course == Course::KeepsGrowing).then(|| meaning(leaf, heap));
    }
    leaves.sort_by(|one, other| {
        let rate = |leaf: &LeafGrowth| leaf.bytes_per_hour.unwrap_or(leaf.last_bytes - leaf.first_bytes);
        rate(other).total_cmp(&rate(one))
    });
    (leaves, uncertain)
}

/// Unexplained memory is in use when malloc's chunks in use grow as well.
fn meaning(leaf: &LeafGrowth, heap: Option<&LeafGrowth>) -> Growth {
    let is_used = heap.is_some_and(|heap| heap.course == Course::KeepsGrowing);
    match kind(&leaf.path) {
        _ if leaf.path == UNEXPLAINED => {
            if is_used {
                Growth::Leak
            } else {
                Growth::Unnamed
            }
        }
        Kind::Used => Growth::Leak,
        Kind::Cache => Growth::Filling,
        Kind::Retained => Growth::Retention,
    }
}

/// Holm (1979): of n values, the smallest p is multiplied by n, the next by n - 1 and so on, and none may be smaller than the one before.
fn holm(tried: &mut [Tried]) {
    tried.sort_by(|one, other| one.p().total_cmp(&other.p()));
    let mut least: f64 = 0.0;
    let mut left = tried.iter().filter(|tried| tried.trend.is_some()).count();
    for trend in tried.iter_mut().filter_map(|tried| tried.trend.as_mut()) {
        least = least.max((trend.p * left as f64).min(1.0));
        trend.p = least;
        left -= 1;
    }
}

/// A series, and its trend when it can be computed.
struct Tried {
    path: String,
    first: f64,
    last: f64,
    count: usize,
    changed: bool,
    /// Whether all of the last quarter is above, or below, all of the first.
    rose: Ordering,
    trend: Option<Trend>,
    limit: Option<u64>,
}

impl Tried {
    fn of(path: &str, readings: &[Reading], limit: Option<u64>) -> Self {
        let values = || readings.iter().map(|reading| reading.1);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let changed = most - least >= SMALLEST;
        let last = readings.last().map_or(0.0, |reading| reading.1);
        // a single high or low reading is not taken for the beginning
        let near = readings.iter().take((readings.len() / 10).max(1)).map(|reading| reading.1);
        Self {
            path: path.to_owned(),
            first: median(near.collect()),
            last,
            count: readings.len(),
            changed,
            rose: rose(readings),
            trend: changed.then(|| trend(readings)).flatten(),
            limit: limit.filter(|limit| *limit as f64 > last),
        }
    }

    fn p(&self) -> f64 {
        self.trend.map_or(f64::INFINITY, |trend| trend.p)
    }

    fn course(&self) -> Course {
        match self.trend {
            None => Course::Unjudged,
            Some(trend) if trend.p <= ERROR && trend.low > 0.0 && trend.keeps_on => Course::KeepsGrowing,
            Some(trend) if (trend.p <= ERROR && trend.low > 0.0) || self.rose.is_gt() => Course::Grew,
            Some(trend) if (trend.p <= ERROR && trend.high < 0.0) || self.rose.is_lt() => Course::Shrank,
            Some(_) => Course::Steady,
        }
    }

    fn judged(self) -> LeafGrowth {
        LeafGrowth {
            course: self.course(),
            growth: None,
            first_bytes: self.first,
            last_bytes: self.last,
            bytes_per_hour: self.trend.map(|trend| trend.slope),
            low_bytes_per_hour: self.trend.map(|trend| trend.low),
            high_bytes_per_hour: self.trend.map(|trend| trend.high),
            p_value: self.trend.map(|trend| trend.p),
            limit_bytes: self.limit,
            path: self.path,
        }
    }
}

fn rose(readings: &[Reading]) -> Ordering {
    let quarter = readings.len() / 4;
    let ends = |part: &[Reading]| {
        let values = || part.iter().map(|reading| reading.1);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (first, last) = (ends(&readings[..quarter]), ends(&readings[readings.len() - quarter..]));
    match () {
        () if last.0 > first.1 => Ordering::Greater,
        () if last.1 < first.0 => Ordering::Less,
        () => Ordering::Equal,
    }
}
