// SPDX-License-Identifier: Apache-2.0
//! The throughput of an arm over time, in slots, and whether its two halves agree.

use evidence::{Arm, LoadResult};
use verdict::within::{self, Within};

/// Transactions a second in each slot. A last slot that the end of the phase cut short is left out.
pub(crate) fn slots(load: &LoadResult) -> Vec<f64> {
    let points = &load.measured.timeline;
    let length_us = points.iter().map(|point| point.length_us).max().unwrap_or(1);
    let mut whole = points.as_slice();
    if let [all_but_last @ .., last] = whole
        && last.length_us < length_us
    {
        whole = all_but_last;
    }
    whole.iter().map(|point| point.transactions as f64 * 1e6 / point.length_us.max(1) as f64).collect()
}

/// The second half of an arm's measured phase compared with the first, by batches. `None`: there was no load, or it was too short.
pub fn halves(arm: &Arm) -> Option<Within> {
    within::halves(&slots(arm.load.as_ref()?))
}
