// SPDX-License-Identifier: Apache-2.0
//! Whether the lengths of stalls are lengths of the ladder of `backoff`. How much longer a sleep takes on that host is not known: the value that fits best
//! is searched for. The test takes into account that many values were tried.

use crate::burst::Burst;
use crate::ladder::Lattice;
use capability::Ladder;

/// How far a length may be from one of the ladder: the statement does other work, too.
const TOLERANCE_US: f64 = 200.0;
/// By how much one sleep may be longer than the server asked for: from the kernel's timer slack to a busy virtual machine.
const OVERHEAD_US: std::ops::RangeInclusive<u32> = 50..=220;
/// Values that are tried in each microsecond.
const STEPS: u32 = 4;
/// The most lengths that are used: so many are enough to see the ladder.
const MOST_LENGTHS: usize = 300;
/// Within one burst, lengths that are nearer to each other than this count as one.
const SAME_US: u64 = 400;
/// The lengths fit the ladder if the probability that they fit by chance, with all overheads that were tried, is below this.
const CHANCE: f64 = 0.01;

/// What the lengths of many stalls say about the ladder.
#[derive(Debug, Clone)]
pub(crate) enum Lengths {
    /// They are too few to tell, or no ladder is possible.
    Silent,
    /// No length of a sleep makes so many lengths the ladder's.
    OffLadder(usize),
    OnLadder(Fit),
}

impl Lengths {
    pub(crate) fn fit(&self) -> Option<&Fit> {
        match self {
            Self::OnLadder(fit) => Some(fit),
            Self::Silent | Self::OffLadder(_) => None,
        }
    }
}

/// The ladder that the lengths of many stalls show.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    pub(crate) lattice: Lattice,
    /// How many lengths were looked at, and how many of them fit.
    pub(crate) lengths: usize,
    pub(crate) fitting: usize,
}

impl Fit {
    /// Whether this length is one of the ladder's.
    pub(crate) fn has(&self, length_us: u64) -> bool {
        self.lattice.nearest(length_us as f64).1 <= TOLERANCE_US
    }
}

/// Compares the lengths with the ladder, at the overhead that fits best.
pub(crate) fn compare(bursts: &[Burst], ladder: &Ladder) -> Lengths {
    let lengths = lengths(bursts);
    let mut lattice = Lattice::new(ladder, Lattice::USUAL_OVERHEAD_US);
    // of waits on the ladder at least three quarters fit it, even where some are longer because of other work
    let can_tell = chance(&lattice, &lengths, (3 * lengths.len()).div_ceil(4)) < CHANCE;
    let (mut best, mut best_chance, mut best_distance) = (None, 1.0, f64::MAX);
    let overheads = OVERHEAD_US.start() * STEPS..=OVERHEAD_US.end() * STEPS;
    for overhead in overheads {
        let overhead_us = f64::from(overhead) / f64::from(STEPS);
        lattice = lattice.with_overhead(overhead_us);
        let distances: Vec<f64> =
            lengths.iter().map(|length| lattice.nearest(*length).1.min(TOLERANCE_US * 2.0)).collect();
        let fitting = distances.iter().filter(|distance| **distance <= TOLERANCE_US).count();
        if fitting * 2 < lengths.len() {
            continue;
        }
        let chance = chance(&lattice, &lengths, fitting);
        // among overheads at which as many fit, the one at which they fit best
        let distance: f64 = distances.iter().sum();
        if chance < best_chance * 0.5 || (chance < best_chance * 2.0 && distance < best_distance) {
            (best, best_chance, best_distance) = (Some((overhead_us, fitting)), chance, distance);
        }
    }
    match best.filter(|_| best_chance < CHANCE) {
        Some((overhead_us, fitting)) => {
            let lattice = lattice.with_overhead(overhead_us);
            Lengths::OnLadder(Fit { lattice, lengths: lengths.len(), fitting })
        }
        None if can_tell => Lengths::OffLadder(lengths.len()),
        None => Lengths::Silent,
    }
}

/// The probability that at least so many of the lengths fit by chance, at any of the overheads that are tried.
fn chance(lattice: &Lattice, lengths: &[f64], fitting: usize) -> f64 {
    let tried = f64::from((OVERHEAD_US.end() - OVERHEAD_US.start()) * STEPS + 1);
    let chances = lengths.iter().map(|length| lattice.chance(*length, TOLERANCE_US));
    let mean = chances.sum::<f64>() / lengths.len().max(1) as f64;
    at_least(fitting, lengths.len(), mean) * tried
}

/// The parts of the lengths that nothing else explains, in microseconds.
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

/// The probability that at least `count` of `all` events happen, when each has the probability `p`.
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
