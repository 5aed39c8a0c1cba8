// SPDX-License-Identifier: Apache-2.0
//! The measurements of each arm, from the recording: the load's own clock, its slow statements, the server's counter.

use super::article::Figures;
use super::views::{self, Views};
use evidence::{Arm, Evidence, PLANTED, SLOW_STATEMENT, Span};
use serde::Serialize;
use simulate::Range;

const COUNTER: &str = "Innodb_buffer_pool_wait_free";
/// A statement that begins later than this after an emptying is not attributed to the emptying.
const TOGETHER_US: u64 = 1_000_000;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Measurement {
    pub(super) figures: Figures,
    /// Slow statements of the load, in the order in which they began; at most the thousand longest.
    pub(super) slow_us: Vec<u64>,
    /// Slow statements that were not kept.
    pub(super) slow_dropped: u64,
    /// The time that each statement took which the run sent beside the load.
    pub(super) beside_us: Vec<u64>,
    /// The same statements as clients, slow log and watch saw them. `None`: the arm was not watched.
    pub(super) views: Option<Views>,
    /// The reason why the arm did not come to its end.
    pub(super) broke_off: Option<String>,
}

/// The measurements of all turns of one arm together. `None`: the arm did not run.
pub(super) fn of_arm(evidence: &Evidence, name: &str) -> Option<Measurement> {
    let turns: Vec<&Arm> = evidence.arms.iter().filter(|arm| arm.cell == name).collect();
    if turns.is_empty() {
        return None;
    }
    let mut loads = Vec::new();
    let (mut slow_us, mut beside_us, mut slow_dropped) = (Vec::new(), Vec::new(), 0);
    for arm in &turns {
        let Some(load) = &arm.load else { continue };
        let of_arm = |kind: &str| -> Vec<&Span> {
            evidence.spans.iter().filter(|span| span.kind == kind && span.entity == arm.name).collect()
        };
        let (slow, beside) = (of_arm(SLOW_STATEMENT), of_arm(PLANTED));
        let measured = of_arm("load.measured");
        slow_dropped +=
            measured.iter().filter_map(|it| it.attributes.get("slow_dropped")?.parse::<u64>().ok()).sum::<u64>();
        let stalled = slow.iter().filter(|span| beside.is_empty() || beside.iter().any(|it| is_near(span, it)));
        loads.push(OneLoad {
            longest_us: load.measured.transaction.service.max_ns() as f64 / 1000.0,
            by_emptying: by_emptying(&slow, &beside),
            queries_per_second: load.measured.queries_per_second(),
            stalled: stalled.count() as f64,
            wait_free: counted(arm),
        });
        slow_us.extend(slow.iter().map(|span| span.length_us()).take(1000));
        beside_us.extend(beside.iter().map(|span| span.length_us()));
    }
    let broke_off = turns.iter().find_map(|arm| arm.broke_off.clone());
    let views = views::of(evidence, &turns);
    Some(Measurement { figures: together(&loads), slow_us, slow_dropped, beside_us, views, broke_off })
}

/// The measurements of one load.
struct OneLoad {
    longest_us: f64,
    /// As [`by_emptying`] says.
    by_emptying: Option<Vec<f64>>,
    queries_per_second: Option<f64>,
    stalled: f64,
    wait_free: Option<f64>,
}

fn together(loads: &[OneLoad]) -> Figures {
    let mut figures = Figures::default();
    for (index, load) in loads.iter().enumerate() {
        match &load.by_emptying {
            Some(longest) if longest.len() > 1 => {
                figures.first_max_us = widened(figures.first_max_us, longest.first().copied());
                longest.iter().skip(1).for_each(|it| figures.later_max_us = widened(figures.later_max_us, Some(*it)));
            }
            _ if index == 0 => figures.first_max_us = widened(None, Some(load.longest_us)),
            _ => figures.later_max_us = widened(figures.later_max_us, Some(load.longest_us)),
        }
        if index == 1 && load.by_emptying.is_none() {
            // as in the prediction, the figures of the first load are replaced by those of the later loads
            figures = Figures { queries_per_second: None, stalled: None, wait_free: None, ..figures };
        }
        figures.queries_per_second = widened(figures.queries_per_second, load.queries_per_second);
        figures.stalled = widened(figures.stalled, Some(load.stalled));
        figures.wait_free = widened(figures.wait_free, load.wait_free);
    }
    figures
}

fn widened(range: Option<Range>, value: Option<f64>) -> Option<Range> {
    let Some(value) = value else { return range };
    Some(
        range
            .map_or(Range { low: value, high: value }, |it| Range { low: it.low.min(value), high: it.high.max(value) }),
    )
}

/// For each statement that was sent beside the load: the longest statement of the load around it, in microseconds, or 0 if no statement around it was
/// slow. `None`: no statement was sent beside the load.
fn by_emptying(slow: &[&Span], beside: &[&Span]) -> Option<Vec<f64>> {
    let longest = |emptying: &&Span| {
        slow.iter().filter(|span| is_near(span, emptying)).map(|span| span.length_us()).max().unwrap_or(0) as f64
    };
    (!beside.is_empty()).then(|| beside.iter().map(longest).collect())
}

/// Whether the slow statement ran while the list was emptied, or began soon after.
fn is_near(slow: &Span, emptying: &Span) -> bool {
    slow.to_us >= emptying.from_us && slow.from_us <= emptying.to_us.saturating_add(TOGETHER_US)
}

/// The rise of the counter from the beginning to the end of the measured phase, when no statement runs. `None`: the counter was not read.
fn counted(arm: &Arm) -> Option<f64> {
    Some(arm.witnesses.iter().find(|witness| witness.counter == COUNTER)?.delta() as f64)
}

#[cfg(test)]
mod tests {
    use super::{OneLoad, together};
    use simulate::Range;

    fn load(longest_us: f64, queries_per_second: f64, by_emptying: Option<Vec<f64>>) -> OneLoad {
        OneLoad {
            longest_us,
            by_emptying,
            queries_per_second: Some(queries_per_second),
            stalled: longest_us / 100_000.0,
            wait_free: Some(longest_us / 5000.0),
        }
    }

    fn range(low: f64, high: f64) -> Option<Range> {
        Some(Range { low, high })
    }

    #[test]
    fn the_figures_are_those_of_the_later_loads_where_there_are_any() {
        let loads = [load(800_000.0, 100.0, None), load(200_000.0, 500.0, None), load(300_000.0, 400.0, None)];
        let all = together(&loads);
        assert_eq!((all.first_max_us, all.later_max_us), (range(800_000.0, 800_000.0), range(200_000.0, 300_000.0)));
        assert_eq!(
            (all.queries_per_second, all.stalled, all.wait_free),
            (range(400.0, 500.0), range(2.0, 3.0), range(40.0, 60.0))
        );
        let first = together(&loads[..1]);
        assert_eq!((first.queries_per_second, first.later_max_us), (range(100.0, 100.0), None));
    }

    #[test]
    fn with_a_query_that_empties_the_list_each_load_counts() {
        let loads = [load(400.0, 100.0, Some(vec![400.0, 300.0])), load(500.0, 90.0, Some(vec![500.0, 350.0]))];
        let all = together(&loads);
        assert_eq!((all.first_max_us, all.later_max_us), (range(400.0, 500.0), range(300.0, 350.0)));
        assert_eq!(all.queries_per_second, range(90.0, 100.0));
    }
}
