// SPDX-License-Identifier: Apache-2.0
//! Whether a statement that is repeated many times leaks memory: by the ledger after each block of repetitions, and by the functions of a profile.
//!
//! The arithmetic is the same as in [`crate::findings`]' `memory.growth`, with repetitions in place of hours: a part that keeps growing grows in each
//! quarter of the repetitions, and the interval of its slope is above 0. The first blocks are the warm-up: growth that is only there is no leak.

use crate::growth::{Course, Growth, LeafGrowth, UNEXPLAINED, judge};
use ledger::{Inventory, Kind, OverTime, kind, over_time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trend::slopes_of;

/// The judge's clock counts microseconds, and its rates are per hour: here one repetition is an hour.
const REPETITION_US: u64 = 3_600_000_000;
/// Smaller growth, from before the first block to the last one, is not reported: code and tables are touched for the first time.
const WARM_UP: f64 = 1_048_576.0;
const RETAINED: &str = "allocator/retained";
/// A cache without a limit that is never emptied: its growth is a leak for a client that keeps its connection (PostgreSQL's caches of its catalogue,
/// utils/cache/relcache.c).
const UNLIMITED: &[&str] = &["backends/catalogue_cache"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Memory in use grows with each repetition, until the end.
    Leak,
    /// Memory grew only at first, or it fills a part that has a size of its own.
    WarmUp,
    /// The allocator keeps free memory.
    Retention,
    /// Nothing grew.
    None,
}

/// The result of the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leak {
    pub verdict: Verdict,
    /// The growth of the leaf; `None` when nothing keeps growing.
    pub bytes_per_repetition: Option<f64>,
    /// The ends of the interval that contains the true value in 95 of 100 cases.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The growth of the server's whole memory, as the kernel counts it, and the ends of its interval. It is less than that of a leaf whose bytes are those
    /// that were asked for, where some of them fill no new page: malloc had them, or nobody has touched them. `None`: it changed by less than 64 KiB.
    #[serde(default)]
    pub server_bytes_per_repetition: Option<f64>,
    #[serde(default)]
    pub server_low: Option<f64>,
    #[serde(default)]
    pub server_high: Option<f64>,
    /// The ledger's leaf that grew most, of those that decide the verdict; `unexplained`: memory that no leaf explains.
    pub leaf: Option<String>,
    /// From a profile: the function whose allocations grew most. Its callers are in `path`.
    pub function: Option<String>,
    pub path: Vec<String>,
    /// The bytes that this function asked for.
    pub function_bytes_per_repetition: Option<f64>,
    /// Repetitions after the warm-up.
    pub repetitions: u64,
    pub readings: u64,
    /// The growth of the server from before the warm-up to the end, and the part of it during the warm-up.
    pub grown_bytes: i64,
    pub warm_up_bytes: i64,
    /// Leaves that changed after the warm-up, the fastest growing leaf first.
    pub leaves: Vec<LeafPerRepetition>,
    /// From a profile: the fastest growing function first.
    pub functions: Vec<FunctionPerRepetition>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeafPerRepetition {
    pub path: String,
    pub course: Course,
    pub bytes_per_repetition: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionPerRepetition {
    pub function: String,
    pub path: Vec<String>,
    pub bytes_per_repetition: f64,
    pub low: f64,
    pub high: f64,
}

/// The memory of a function after a number of repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    pub function: String,
    pub path: Vec<String>,
    pub bytes: u64,
}

/// What a profiler showed at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiled {
    /// Repetitions before it.
    pub repetitions: u64,
    pub holdings: Vec<Holding>,
    /// Memory of functions that are too small to be named.
    pub hidden_bytes: u64,
}

impl Leak {
    /// From inventories of one life of the server, each with the number of repetitions before it; the first `warm_up` of them belong to the warm-up.
    /// `None`: fewer than [`FEWEST`] of them are after the warm-up.
    pub fn of(readings: Vec<(u64, Inventory)>, warm_up: usize) -> Option<Self> {
        let over = over_time(readings.into_iter().map(|(repetitions, it)| (repetitions * REPETITION_US, it)));
        Self::of_accounts(over, warm_up)
    }

    /// As [`Self::of`], from the accounts.
    fn of_accounts(mut over: OverTime, warm_up: usize) -> Option<Self> {
        let total: Vec<i64> = over.kernel_total_bytes.iter().map(|it| i64::try_from(*it).unwrap_or(i64::MAX)).collect();
        let (first, warm, last) = (*total.first()?, *total.get(warm_up)?, *total.last()?);
        let before = [retained(&over, 0), used(&over, 0)];
        cut(&mut over, warm_up);
        let end = over.at_us.len().saturating_sub(1);
        let (retained_bytes, used_bytes) = (retained(&over, end) - before[0], used(&over, end) - before[1]);
        let judged = judge(&over).filter(|judged| judged.is_enough)?;
        let (grown_bytes, warm_up_bytes) = (last - first, warm - first);
        let told = judged.leaves.iter().filter(|it| verdict_of(it) == Some(Verdict::Leak));
        let heap_grows = judged.heap_used.as_ref().is_none_or(|it| it.course == Course::KeepsGrowing);
        let leaking = told.max_by(|one, other| rate(one).total_cmp(&rate(other))).filter(|_| heap_grows);
        let fastest = judged.leaves.iter().find(|it| verdict_of(it) == Some(Verdict::WarmUp));
        let (verdict, leaf) = match leaking {
            Some(leaf) => (Verdict::Leak, Some(leaf)),
            None if retained_bytes >= WARM_UP && retained_bytes >= used_bytes => {
                (Verdict::Retention, judged.leaves.iter().find(|it| it.path == RETAINED))
            }
            None if fastest.is_some() || grown_bytes as f64 >= WARM_UP => (Verdict::WarmUp, fastest),
            None => (Verdict::None, None),
        };
        let named = match verdict {
            Verdict::Retention => Some(RETAINED.to_owned()),
            _ => leaf.map(|it| it.path.clone()),
        };
        Some(Self {
            verdict,
            bytes_per_repetition: leaf.and_then(|it| it.bytes_per_hour),
            low: leaf.and_then(|it| it.low_bytes_per_hour),
            high: leaf.and_then(|it| it.high_bytes_per_hour),
            server_bytes_per_repetition: judged.total.bytes_per_hour,
            server_low: judged.total.low_bytes_per_hour,
            server_high: judged.total.high_bytes_per_hour,
            leaf: named,
            function: None,
            path: Vec::new(),
            function_bytes_per_repetition: None,
            repetitions: judged.elapsed_us / REPETITION_US,
            readings: judged.inventories as u64,
            grown_bytes,
            warm_up_bytes,
            leaves: judged.leaves.iter().map(of_leaf).collect(),
            functions: Vec::new(),
        })
    }

    /// Of a leaf that leaks faster than the server's memory grows: the leaf that shrinks most meanwhile, because the sum of all leaves is what the kernel
    /// counts. `None`: the server grows as fast. `Some(None)`: no leaf is shown to shrink.
    pub fn shrinking(&self) -> Option<Option<&LeafPerRepetition>> {
        let is_more = self.low > Some(self.server_high.unwrap_or(0.0));
        let slope = |it: &&LeafPerRepetition| it.bytes_per_repetition.unwrap_or(0.0);
        let shrinking = self.leaves.iter().filter(|it| it.course == Course::Shrank);
        let most = || shrinking.min_by(|one, other| slope(one).total_cmp(&slope(other)));
        (self.verdict == Verdict::Leak && is_more).then(most)
    }

    /// Adds the result of a profile of another life: the functions' memory after numbers of repetitions, in order.
    #[must_use]
    pub fn with_profile(mut self, marks: &[Profiled]) -> Self {
        self.functions = functions(marks);
        if let Some(most) = self.functions.first().filter(|_| self.verdict == Verdict::Leak) {
            self.function = Some(most.function.clone());
            self.path.clone_from(&most.path);
            self.function_bytes_per_repetition = Some(most.bytes_per_repetition);
        }
        self
    }
}

/// The number of inventories after the warm-up that are needed.
pub const FEWEST: usize = trend::FEWEST;

fn verdict_of(leaf: &LeafGrowth) -> Option<Verdict> {
    let grows = leaf.growth?;
    if UNLIMITED.contains(&leaf.path.as_str()) {
        return Some(Verdict::Leak);
    }
    match grows {
        Growth::Leak | Growth::Unnamed => Some(Verdict::Leak),
        Growth::Filling => Some(Verdict::WarmUp),
        Growth::Retention => Some(Verdict::Retention),
        Growth::None | Growth::TooFew => None,
    }
}

fn rate(leaf: &LeafGrowth) -> f64 {
    leaf.bytes_per_hour.unwrap_or(0.0)
}

fn of_leaf(leaf: &LeafGrowth) -> LeafPerRepetition {
    LeafPerRepetition {
        path: leaf.path.clone(),
        course: leaf.course,
        bytes_per_repetition: leaf.bytes_per_hour,
        low: leaf.low_bytes_per_hour,
        high: leaf.high_bytes_per_hour,
    }
}

/// Bytes that are free in the allocator, in this inventory.
fn retained(over: &OverTime, at: usize) -> f64 {
    let leaves = over.leaves.iter().filter(|it| kind(&it.path) == Kind::Retained);
    let in_leaves: u64 = leaves.filter_map(|it| *it.resident_bytes.get(at)?).sum();
    let walked = over.heap_retained_bytes.get(at).copied().flatten();
    walked.unwrap_or(in_leaves) as f64
}

/// Bytes in chunks that malloc has handed out; 0 when they were not walked.
fn used(over: &OverTime, at: usize) -> f64 {
    over.heap_used_bytes.get(at).copied().flatten().unwrap_or(0) as f64
}

/// Removes the first `first` inventories.
fn cut(over: &mut OverTime, first: usize) {
    fn behind<T>(column: &mut Vec<T>, first: usize) {
        column.drain(..first.min(column.len()));
    }
    behind(&mut over.at_us, first);
    behind(&mut over.kernel_total_bytes, first);
    behind(&mut over.uncertainty_bytes, first);
    behind(&mut over.estimate_uncertainty_bytes, first);
    behind(&mut over.unexplained_bytes, first);
    behind(&mut over.page_tables_bytes, first);
    behind(&mut over.vsz_bytes, first);
    behind(&mut over.reserved_bytes, first);
    behind(&mut over.rss_bytes, first);
    behind(&mut over.swap_bytes, first);
    behind(&mut over.host_available_bytes, first);
    behind(&mut over.host_swap_bytes, first);
    behind(&mut over.heap_retained_bytes, first);
    behind(&mut over.heap_used_bytes, first);
    behind(&mut over.sessions, first);
    behind(&mut over.starts, first);
    for leaf in &mut over.leaves {
        behind(&mut leaf.resident_bytes, first);
        behind(&mut leaf.allocated_bytes, first);
    }
}

/// Where a mark does not name a function and hides memory of small ones, the function may have had as much as the profiler's threshold: such a mark tells nothing
/// of it. Where nothing is hidden, the function had nothing.
fn functions(marks: &[Profiled]) -> Vec<FunctionPerRepetition> {
    let mut named: BTreeMap<&str, &Holding> = BTreeMap::new();
    for holding in marks.iter().flat_map(|mark| &mark.holdings) {
        named.insert(&holding.function, holding);
    }
    let held = |mark: &Profiled, name: &str| {
        let named = mark.holdings.iter().find(|it| it.function == name).map(|it| it.bytes as f64);
        let bytes = named.or_else(|| (mark.hidden_bytes == 0).then_some(0.0))?;
        Some((mark.repetitions as f64, bytes))
    };
    let mut all: Vec<FunctionPerRepetition> = named
        .into_iter()
        .filter_map(|(name, last)| {
            let series: Vec<(f64, f64)> = marks.iter().filter_map(|mark| held(mark, name)).collect();
            let (slope, low, high) = slopes_of(&series)?;
            let path = last.path.clone();
            (slope > 0.0).then(|| FunctionPerRepetition {
                function: name.to_owned(),
                path,
                bytes_per_repetition: slope,
                low,
                high,
            })
        })
        .collect();
    all.sort_by(|one, other| other.bytes_per_repetition.total_cmp(&one.bytes_per_repetition));
    all
}

/// The name of memory that no leaf explains.
pub const NO_LEAF: &str = UNEXPLAINED;

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(repetitions: u64, leaking: u64, steady: u64) -> Profiled {
        let holding = |function: &str, bytes| Holding { function: function.into(), path: vec!["main".into()], bytes };
        let holdings = vec![holding("steady", steady), holding("leaking", leaking)];
        Profiled { repetitions, holdings, hidden_bytes: 0 }
    }

    fn leaking(named: i64, counted: i64) -> Leak {
        Leak::of_accounts(growing(named, counted), 4).unwrap()
    }

    /// Two leaves, and the kernel's sum, over the repetitions; all grow by so many bytes in each.
    fn growing(named: i64, counted: i64) -> OverTime {
        let count = 36;
        let after =
            |bytes: i64| (0..count).map(|at| u64::try_from(100_000_000 + bytes * 20 * at).unwrap()).collect::<Vec<_>>();
        let columns = usize::try_from(count).unwrap();
        let leaf = |path: &str, bytes: i64| ledger::LeafOverTime {
            path: path.into(),
            basis: ledger::Basis::Server,
            resident_bytes: after(bytes).into_iter().map(Some).collect(),
            allocated_bytes: vec![None; columns],
        };
        OverTime {
            at_us: (0..count).map(|at| u64::try_from(at * 20).unwrap() * REPETITION_US).collect(),
            kernel_total_bytes: after(named + counted),
            estimate_uncertainty_bytes: vec![0; columns],
            unexplained_bytes: vec![Some(0); columns],
            leaves: vec![leaf("sessions/idle", named), leaf("server/counted", counted)],
            heap_used_bytes: vec![None; columns],
            heap_retained_bytes: vec![None; columns],
            sessions: vec![Some(1); columns],
            starts: vec![0; columns],
            ..OverTime::default()
        }
    }

    /// When a server of the same program ends between the two looks of one reading, that reading's sum is some MiB too low.
    #[test]
    fn one_low_reading_at_the_end_hides_no_leak() {
        let mut over = growing(1040, 0);
        let sessions = &mut over.leaves[0].resident_bytes;
        *sessions.last_mut().unwrap() = Some(99_000_000);
        let told = Leak::of_accounts(over, 4).unwrap();
        assert_eq!((told.verdict, told.leaf.as_deref()), (Verdict::Leak, Some("sessions/idle")), "{told:?}");
    }

    /// A statement that is prepared again and again in MariaDB 10.11: the session's meter counts 32,760 bytes, half of which fill no new page.
    #[test]
    fn what_a_leaf_has_more_than_the_server_is_told() {
        let told = leaking(32_760, -16_075);
        assert_eq!((told.verdict, told.leaf.as_deref()), (Verdict::Leak, Some("sessions/idle")), "{told:?}");
        assert_eq!((told.bytes_per_repetition, told.server_bytes_per_repetition), (Some(32_760.0), Some(16_685.0)));
        assert_eq!(told.shrinking().flatten().map(|it| it.path.as_str()), Some("server/counted"));
        assert_eq!(leaking(32_760, 0).shrinking(), None, "the server grows as fast");
        let steady = leaking(32_760, -32_760);
        assert_eq!(steady.server_bytes_per_repetition, None, "none of it fills a new page");
        assert!(steady.shrinking().is_some());
    }

    #[test]
    fn the_function_that_grows_by_repetition_is_first() {
        let marks: Vec<_> = (0..10).map(|at| mark(at * 100, 5000 + at * 102_400, 9_000_000)).collect();
        let told = functions(&marks);
        assert_eq!((told.len(), told[0].function.as_str()), (1, "leaking"));
        assert!((told[0].bytes_per_repetition - 1024.0).abs() < 1e-6, "{told:?}");
        assert!(told[0].low <= 1024.0 && told[0].high >= 1024.0);
        assert!(functions(&marks[..1]).is_empty() && functions(&[]).is_empty());
    }

    /// With a heap of 46 MiB and a threshold of 0.1 %, Massif names a function from 48 KiB on.
    #[test]
    fn a_mark_at_which_a_function_is_too_small_to_be_named_does_not_count_as_nothing() {
        let marks: Vec<_> = (0..11)
            .map(|at| {
                let (repetitions, leaking) = (40 + at * 10, (40 + at * 10) * 600);
                let mut mark = mark(repetitions, leaking, 46 << 20);
                if leaking < 48 << 10 {
                    mark.holdings.retain(|it| it.function != "leaking");
                    mark.hidden_bytes = leaking;
                }
                mark
            })
            .collect();
        assert!(marks.iter().any(|mark| mark.hidden_bytes > 0) && marks[10].hidden_bytes == 0);
        let told = functions(&marks);
        assert!((told[0].bytes_per_repetition - 600.0).abs() < 1.0, "{told:?}");
    }
}
