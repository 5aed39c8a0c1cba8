// SPDX-License-Identifier: Apache-2.0
//! Whether the lengths of stalls lie where the ladder of `backoff` puts them. What a sleep takes on that host is not known and is looked for; that
//! it was looked for is paid for in the test.

use crate::burst::Burst;
use crate::ladder::Lattice;
use capability::Ladder;

/// A length may be so far from the ladder's, for what the statement does beside.
const TOLERANCE_US: f64 = 200.0;
/// What one sleep takes beyond what was asked: from the kernel's timer slack to a busy virtual machine.
const OVERHEAD_US: std::ops::RangeInclusive<u32> = 50..=220;
/// In parts of a microsecond.
const STEPS: u32 = 4;
/// Lengths are not all taken: these are enough to see it.
const MOST_LENGTHS: usize = 300;
/// Within one burst, lengths that are nearer to each other are one.
const SAME_US: u64 = 400;
/// So unlikely by chance, all overheads tried together, is no chance.
const CHANCE: f64 = 0.01;

/// The ladder as the lengths of many stalls show it.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    pub(crate) lattice: Lattice,
    /// Lengths that were looked at, and those of them that fit.
    pub(crate) lengths: usize,
    pub(crate) fitting: usize,
}

impl Fit {
    /// Whether this length is one of the ladder's.
    pub(crate) fn has(&self, length_us: u64) -> bool {
        self.lattice.nearest(length_us as f64).1 <= TOLERANCE_US
    }
}

/// `None`: they may as well lie there by chance.
pub(crate) fn fit(bursts: &[Burst], ladder: &Ladder) -> Option<Fit> {
    let lengths = lengths(bursts);
    let mut lattice = Lattice::new(ladder, Lattice::USUAL_OVERHEAD_US);
    let (mut best, mut best_chance, mut best_distance) = (None, 1.0, f64::MAX);
    let overheads = OVERHEAD_US.start() * STEPS..=OVERHEAD_US.end() * STEPS;
    let tried = f64::from(overheads.end() - overheads.start() + 1);
    for overhead in overheads {
        let overhead_us = f64::from(overhead) / f64::from(STEPS);
        lattice = lattice.with_overhead(overhead_us);
        let distances: Vec<f64> =
            lengths.iter().map(|length| lattice.nearest(*length).1.min(TOLERANCE_US * 2.0)).collect();
        let fitting = distances.iter().filter(|distance| **distance <= TOLERANCE_US).count();
        if fitting * 2 < lengths.len() {
            continue;
        }
        let chances = lengths.iter().map(|length| lattice.chance(*length, TOLERANCE_US));
        let mean = chances.sum::<f64>() / lengths.len().max(1) as f64;
        let chance = at_least(fitting, lengths.len(), mean) * tried;
        // among overheads at which as many fit, the one at which they fit best
        let distance: f64 = distances.iter().sum();
        if chance < best_chance * 0.5 || (chance < best_chance * 2.0 && distance < best_distance) {
            (best, best_chance, best_distance) = (Some((overhead_us, fitting)), chance, distance);
        }
    }
    let (overhead_us, fitting) = best.filter(|_| best_chance < CHANCE)?;
    Some(Fit { lattice: lattice.with_overhead(overhead_us), lengths: lengths.len(), fitting })
}

/// What nothing else explains, in microseconds.
fn lengths(bursts: &[Burst]) -> Vec<f64> {
    let mut found = Vec::new();
    for burst in bursts {
        let unexplained = burst.victims.iter().filter(|it| it.parts.rest >= it.lost_us / 10 * 9);
        let mut here: Vec<u64> = unexplained.map(|it| it.parts.rest).collect();
        here.sort_unstable();
        here.dedup_by(|later, earlier| later.abs_diff(*earlier) < SAME_US);
        found.extend(here.into_iter().map(|length| length as f64));
        if found.len() >= MOST_LENGTHS {
            break;
        }
    }
    found.truncate(MOST_LENGTHS);
    found
}

/// How likely at least so many of `all` are, each with the chance `p`.
fn at_least(count: usize, all: usize, p: f64) -> f64 {
    if p <= 0.0 || count == 0 {
        return if count == 0 { 1.0 } else { 0.0 };
    }
    if p >= 1.0 {
        return 1.0;
    }
    // logarithms of the factorials
    let mut factorials = vec![0.0];
    factorials.extend((1..=all).scan(0.0, |sum, it| {
        *sum += (it as f64).ln();
        Some(*sum)
    }));
    let choose = |k: usize| factorials[all] - factorials[k] - factorials[all - k];
    let each = |k: usize| (choose(k) + k as f64 * p.ln() + (all - k) as f64 * (1.0 - p).ln()).exp();
    (count..=all).map(each).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binomial_tail() {
        assert!((at_least(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_least(3, 3, 0.1) - 0.001).abs() < 1e-12);
        assert!((at_least(0, 3, 0.1) - 1.0).abs() < 1e-12);
    }
}
