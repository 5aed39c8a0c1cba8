// SPDX-License-Identifier: Apache-2.0
//! The interval of a slope. Series without a trend are made that vary like the readings around their line. The slopes of these series show how far
//! the slope of the line may be from the true one. They are made in two ways, and the wider interval is used:
//!
//! - A moving-block bootstrap (Künsch 1989): the residuals of the line are cut into blocks, so that neighbours stay together, and the blocks are put
//!   in another order. It keeps every shape, such as sawteeth, but cuts variations that are slower than the length of a block.
//! - A sieve bootstrap (Bühlmann 1997) of order 1: each value is a share of the value before it, plus a step that is drawn from the observed steps.
//!   The share is corrected for the bias that it has in short series (Marriott and Pope 1954).
//!
//! The seed is fixed: the same readings have the same interval.

use super::rank::{autocorrelations, autocovariances};
use super::{Reading, sen};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The number of series that are made in each way.
const SERIES: usize = 200;
/// The number of these series that are outside of the interval that contains 95 of 100, on each side; and outside of the one that contains 99 of 100.
const TAIL: usize = SERIES / 40;
const FAR_TAIL: usize = SERIES / 200;
const SEED: u64 = 0x6c65_6467_6572;

/// The interval in which the true slope may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    /// The true slope is between these in 95 of 100 cases.
    pub(super) low: f64,
    pub(super) high: f64,
    /// The lower end of the interval that contains the true slope in 99 of 100 cases.
    pub(super) surely_above: f64,
}

pub(super) fn interval(readings: &[Reading], slope: f64, residuals: &[f64]) -> Interval {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let (length, sieve) = (block_length(residuals), Sieve::of(residuals));
    let blocks = slopes(readings, || shuffled(residuals, length, &mut random));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let steps = slopes(readings, || sieve.series(residuals.len(), &mut random));
    let highest = |tail: usize| blocks[SERIES - 1 - tail].max(steps[SERIES - 1 - tail]);
    let lowest = blocks[TAIL].min(steps[TAIL]);
    Interval { low: slope - highest(TAIL), high: slope - lowest, surely_above: slope - highest(FAR_TAIL) }
}

/// The slopes of the series, ascending.
fn slopes(readings: &[Reading], mut series: impl FnMut() -> Vec<f64>) -> Vec<f64> {
    let mut slope = || {
        let made: Vec<Reading> = readings.iter().map(|reading| reading.0).zip(series()).collect();
        sen::slope(&made)
    };
    let mut slopes: Vec<f64> = (0..SERIES).map(|_| slope()).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    slopes
}

fn shuffled(residuals: &[f64], length: usize, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let n = residuals.len();
    let mut start = 0;
    let value = |index: usize| {
        if index.is_multiple_of(length) {
            start = below(n, random);
        }
        residuals[(start + index % length) % n]
    };
    (0..n).map(value).collect()
}

/// An autoregressive process of order 1.
struct Sieve {
    share: f64,
    /// The observed steps, shifted so that their mean is 0.
    steps: Vec<f64>,
}

impl Sieve {
    fn of(residuals: &[f64]) -> Self {
        let n = residuals.len() as f64;
        let seen = autocorrelations(residuals, 1).first().copied().unwrap_or(0.0);
        // a line was removed from the readings, so the observed share is too small by (2 + 4 share) / n
        let share = ((seen + 2.0 / n) / (1.0 - 4.0 / n)).clamp(0.0, 1.0);
        let steps: Vec<f64> = residuals.windows(2).map(|pair| pair[1] - share * pair[0]).collect();
        let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
        Self { share, steps: steps.into_iter().map(|step| step - mean).collect() }
    }

    /// Before the series, as many values again are made and left out, so that the first value no longer matters.
    fn series(&self, n: usize, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut value = 0.0;
        let next = |_| {
            value = self.share * value + self.steps[below(self.steps.len(), random)];
            value
        };
        (0..2 * n).map(next).skip(n).collect()
    }
}

/// A random number from 0 to `count`, without `count`.
#[allow(clippy::cast_possible_truncation)] // below count
fn below(count: usize, random: &mut Xoshiro256PlusPlus) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}

/// The block length of Politis and White (2004), with the correction of Patton, Politis and White (2009): for blocks that wrap around.
fn block_length(residuals: &[f64]) -> usize {
    let n = residuals.len() as f64;
    let bandwidth = bandwidth(residuals);
    let covariances = autocovariances(residuals, bandwidth);
    let window = |lag: usize| (2.0 * (1.0 - lag as f64 / bandwidth.max(1) as f64)).clamp(0.0, 1.0);
    let both = |of: &dyn Fn(usize) -> f64| {
        (1..covariances.len()).map(|lag| 2.0 * window(lag) * of(lag) * covariances[lag]).sum::<f64>()
    };
    let spread = covariances[0] + both(&|_| 1.0);
    let bias = both(&|lag| lag as f64);
    let wanted = (1.5 * bias * bias / (spread * spread) * n).cbrt();
    let most = (3.0 * n.sqrt()).min(n / 3.0).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 1 and the number of readings
    if wanted.is_finite() { wanted.clamp(1.0, most).ceil() as usize } else { 1 }
}

/// Twice the lag after which several autocorrelations in a row are close to 0.
fn bandwidth(residuals: &[f64]) -> usize {
    let n = residuals.len() as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small and positive
    let (row, most) = (n.log10().sqrt().ceil().max(5.0) as usize, n.sqrt().ceil() as usize + 5);
    let limit = 2.0 * (n.log10() / n).sqrt();
    let correlations = autocorrelations(residuals, most + row);
    let is_nothing = |from: usize| correlations[from..].iter().take(row).all(|correlation| correlation.abs() < limit);
    let last = (0..most.min(correlations.len())).find(|from| is_nothing(*from)).unwrap_or(most);
    (2 * last).clamp(1, most)
}
