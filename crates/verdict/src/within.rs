// SPDX-License-Identifier: Apache-2.0
//! Compares arms of one run. They are no repeats: they share a server's start or its files, and a later arm inherits caches and data. Only the work that
//! each arm did while it ran can be compared, by batches of its time.
//!
//! Neighbouring slots of a load depend on each other (a checkpoint lasts for many slots), so that many slots are not many measurements.
//! So slots are joined to batches, twice as long each time, until von Neumann's ratio no longer tells the order of the batches from a random one
//! (Fishman, "Grouping observations in digital simulation", Management Science 24, 1978). Where fewer than [`FEWEST_BATCHES`] would be left, the
//! arm was too short. A length that passes the test is doubled once more where enough batches are left: a length that passes narrowly
//! may leave some dependence.

use crate::interval::{Estimate, Part};
use crate::judged::Verdict;
use crate::sides::{mean, variance};
use serde::{Deserialize, Serialize};

/// Fishman's number: with fewer batches, the test of their order cannot show anything.
pub const FEWEST_BATCHES: usize = 8;
/// 90 % of a normal distribution lie below this value: a length of batches passes unless the order of its batches is among the 10 % most regular ones.
const REGULAR: f64 = 1.2816;
/// The probability that a difference is shown between the halves of a steady arm.
const CHANCE_OF_HALVES: f64 = 0.01;

/// The work of an arm, cut into pieces in which no dependence on each other can be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batches {
    /// Slots in each batch.
    pub slots: usize,
    /// The mean of each batch, in their order, over all turns of the arm.
    pub means: Vec<f64>,
}

/// Two arms, or two halves of one. Ratios are the second one's mean over the first one's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Within {
    pub ratio: f64,
    /// Lower end of the interval of the ratio.
    pub low: f64,
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: f64,
    pub verdict: Verdict,
    /// As [`crate::Compared::detectable_ratio`], for so many batches.
    pub detectable_ratio: f64,
}

/// Cuts the turns of one arm into batches; no batch reaches over two turns. A slot is a number for a fixed length of time, such as queries in 100 ms; a last
/// slot that is shorter must be left out. Turns that differ from each other make the batches longer, as every change does that lasts for several slots.
///
/// `None`: the time is too short for [`FEWEST_BATCHES`] batches that do not depend on each other.
pub fn batches(turns: &[&[f64]]) -> Option<Batches> {
    batched(turns, &|means| means.concat())
}

/// Compares `b` with `a`. `chance`: the probability outside of the interval, on both ends together: 0.05 for one comparison; for several, an equal part of
/// 0.05 for each.
///
/// `None`: one of the means is not above 0.
pub fn compare(a: &Batches, b: &Batches, chance: f64) -> Option<Within> {
    beside(&a.means, &b.means, chance)
}

/// Whether the two halves of an arm agree: `Some(true)` where no difference is shown with a confidence of 99 %. An arm whose halves do not is *unsteady*: it
/// was still warming up, or something changed. `None`: too short to tell.
pub fn halves_agree(slots: &[f64]) -> Option<bool> {
    Some(halves(slots)?.verdict == Verdict::NoDifferenceShown)
}

/// Compares the second half of an arm with the first. The batches are as long as each half needs around its own mean.
pub fn halves(slots: &[f64]) -> Option<Within> {
    let half = slots.len() / 2;
    let first = slots.get(..half)?;
    let second = slots.get(slots.len() - half..)?;
    let batched = batched(&[first, second], &|means| {
        let centred = means.iter().flat_map(|half| {
            let centre = mean(half);
            half.iter().map(move |value| value - centre)
        });
        centred.collect()
    })?;
    let (first, second) = batched.means.split_at(batched.means.len() / 2);
    beside(first, second, CHANCE_OF_HALVES)
}

/// `order` gives, for the batches of each turn, the values whose order is tested.
fn batched(turns: &[&[f64]], order: &dyn Fn(&[Vec<f64>]) -> Vec<f64>) -> Option<Batches> {
    let longest = turns.iter().map(|turn| turn.len()).max()?;
    let mut slots = 1;
    while slots <= longest {
        let means: Vec<Vec<f64>> = turns.iter().map(|turn| turn.chunks_exact(slots).map(mean).collect()).collect();
        if means.iter().map(Vec::len).sum::<usize>() < FEWEST_BATCHES {
            return None;
        }
        if !is_regular(&order(&means)) {
            return Some(doubled(turns, slots).unwrap_or(Batches { slots, means: means.concat() }));
        }
        slots *= 2;
    }
    None
}

/// `None`: too few batches of twice the length.
fn doubled(turns: &[&[f64]], slots: usize) -> Option<Batches> {
    let slots = slots * 2;
    let means: Vec<f64> = turns.iter().flat_map(|turn| turn.chunks_exact(slots).map(mean)).collect();
    (means.len() >= FEWEST_BATCHES).then_some(Batches { slots, means })
}

/// Whether neighbouring values are more alike than chance makes them: von Neumann's ratio, one-sided.
fn is_regular(values: &[f64]) -> bool {
    let count = values.len() as f64;
    let mean = mean(values);
    let all: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if all <= 0.0 {
        return false;
    }
    let neighbours: f64 = values.windows(2).map(|pair| pair.iter().fold(0.0, |sum, value| value - sum).powi(2)).sum();
    let alike = 1.0 - neighbours / (2.0 * all);
    alike / ((count - 2.0) / (count * count - 1.0)).sqrt() > REGULAR
}

/// Compares the means of the batches, not their logarithms, so that a batch without any work counts, too. The error of a mean's logarithm is the mean's
/// error divided by the mean.
fn beside(a: &[f64], b: &[f64], chance: f64) -> Option<Within> {
    let part = |means: &[f64]| {
        let typical = Some(mean(means)).filter(|mean| *mean > 0.0 && mean.is_finite())?;
        let square = variance(means) / means.len() as f64 / typical.powi(2);
        Some(Part { mean: typical.ln(), square, count: means.len() })
    };
    let estimate = Estimate::apart(part(a)?, part(b)?);
    let half = estimate.half_width(chance);
    let (low, high) = (estimate.difference - half, estimate.difference + half);
    Some(Within {
        ratio: estimate.difference.exp(),
        low: low.exp(),
        high: high.exp(),
        confidence: 1.0 - chance,
        verdict: match (low, high) {
            (low, _) if low > 0.0 => Verdict::Higher,
            (_, high) if high < 0.0 => Verdict::Lower,
            _ => Verdict::NoDifferenceShown,
        },
        detectable_ratio: estimate.detectable(chance).exp(),
    })
}
