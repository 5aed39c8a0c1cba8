// SPDX-License-Identifier: Apache-2.0
//! The throughput of an arm over time, in slots, and whether its two halves agree.

use evidence::{Arm, LoadResult, TimelinePoint};
use verdict::within::{self, Within};

/// Transactions a second in each slot.
pub(crate) fn slots(load: &LoadResult) -> Vec<f64> {
    let rate = |point: &TimelinePoint| point.transactions as f64 * 1e6 / point.length_us.max(1) as f64;
    load.measured.whole_slots().iter().map(rate).collect()
}

/// The lowest and the highest of the slots' means over whole seconds, over all turns; `None`: fewer than [`FEWEST_SECONDS`].
pub(crate) fn slowest_and_fastest_second<'a>(turns: impl Iterator<Item = &'a LoadResult>) -> Option<(f64, f64)> {
    let seconds: Vec<f64> = turns.flat_map(seconds).collect();
    let (slowest, fastest) =
        seconds.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    (seconds.len() >= FEWEST_SECONDS).then_some((slowest, fastest))
}

/// With fewer seconds, the slowest and the fastest one say little.
const FEWEST_SECONDS: usize = 5;

fn seconds(load: &LoadResult) -> Vec<f64> {
    let length_us = load.measured.timeline.iter().map(|point| point.length_us).max().unwrap_or(1).max(1);
    let each = usize::try_from(1_000_000_u64.div_ceil(length_us)).unwrap_or(1);
    slots(load).chunks_exact(each).map(|slots| slots.iter().sum::<f64>() / each as f64).collect()
}

/// The half of an arm's measured phase in which no transaction ended, where some ended in the other half.
pub fn idle_half(arm: &Arm) -> Option<&'static str> {
    let slots = slots(arm.load.as_ref()?);
    let half = slots.len() / 2;
    let (first, second) = (slots.get(..half)?, slots.get(slots.len() - half..)?);
    let is_idle = |slots: &[f64]| slots.iter().all(|rate| *rate <= 0.0);
    match (is_idle(first), is_idle(second)) {
        _ if half < within::FEWEST_BATCHES => None,
        (true, false) => Some("first"),
        (false, true) => Some("second"),
        _ => None,
    }
}

/// The second half of an arm's measured phase compared with the first, by batches. `None`: there was no load, or it was too short.
pub fn halves(arm: &Arm) -> Option<Within> {
    within::halves(&slots(arm.load.as_ref()?))
}
