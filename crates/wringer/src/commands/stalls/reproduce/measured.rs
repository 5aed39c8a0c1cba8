// SPDX-License-Identifier: Apache-2.0
//! The measurements of each arm, from the recording: the load's own clock, its slow statements, the server's counter.

use super::article::Figures;
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
    /// The reason why the arm did not come to its end.
    pub(super) broke_off: Option<String>,
}

/// The measurements of all turns of one arm together. `None`: the arm did not run.
pub(super) fn of_arm(evidence: &Evidence, name: &str) -> Option<Measurement> {
    let turns: Vec<&Arm> = evidence.arms.iter().filter(|arm| arm.cell == name).collect();
    if turns.is_empty() {
        return None;
    }
    let mut figures = Figures::default();
    let (mut slow_us, mut beside_us, mut slow_dropped) = (Vec::new(), Vec::new(), 0);
    for (index, arm) in turns.iter().enumerate() {
        let Some(load) = &arm.load else { continue };
        let of_arm = |kind: &str| -> Vec<&Span> {
            evidence.spans.iter().filter(|span| span.kind == kind && span.entity == arm.name).collect()
        };
        let (slow, beside) = (of_arm(SLOW_STATEMENT), of_arm(PLANTED));
        let measured = of_arm("load.measured");
        slow_dropped +=
            measured.iter().filter_map(|it| it.attributes.get("slow_dropped")?.parse::<u64>().ok()).sum::<u64>();
        let longest_us = load.measured.transaction.service.max_ns() as f64 / 1000.0;
        match by_emptying(&slow, &beside) {
            Some(longest) if beside.len() > 1 => {
                figures.first_max_us = widened(figures.first_max_us, longest.first().copied());
                longest.iter().skip(1).for_each(|it| figures.later_max_us = widened(figures.later_max_us, Some(*it)));
            }
            _ if index == 0 => figures.first_max_us = widened(None, Some(longest_us)),
            _ => figures.later_max_us = widened(figures.later_max_us, Some(longest_us)),
        }
        let rate = load.measured.queries_per_second();
        figures.queries_per_second = widened(figures.queries_per_second, rate);
        let stalled = slow.iter().filter(|span| beside.is_empty() || beside.iter().any(|it| is_near(span, it)));
        figures.stalled = widened(figures.stalled, Some(stalled.count() as f64));
        figures.wait_free = widened(figures.wait_free, counted(arm));
        slow_us.extend(slow.iter().map(|span| span.length_us()).take(1000));
        beside_us.extend(beside.iter().map(|span| span.length_us()));
    }
    let broke_off = turns.iter().find_map(|arm| arm.broke_off.clone());
    Some(Measurement { figures, slow_us, slow_dropped, beside_us, broke_off })
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
