// SPDX-License-Identifier: Apache-2.0
//! Which rows a load touches: sysbench's `--rand-type` distributions over the keys of a table.
//!
//! In: a [`Distribution`] (asked for by name, checked once) and a range of keys. Out: a [`Sampler`] that draws keys without
//! allocating. Randomness comes in as a generator; nothing here reads a clock or the system's entropy.
//!
//! The distributions follow sysbench's documented options. sysbench 1.0.20 uses `special` when nothing is said, later
//! sources `uniform`. We use `uniform`, and every result names the distribution in force.

mod options;
mod rng;
mod zipfian;

pub use options::{Error, Kind, NUMBERS, Number, Options, Slot};
pub use rng::Draw;

use crate::Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use zipfian::Zipfian;

/// A distribution over a range of keys; the numbers are those of sysbench's options of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Distribution {
    /// Every key with the same probability.
    #[default]
    Uniform,
    /// The mean of `iterations` uniform draws (Bates distribution): most keys near the middle of the range.
    Gaussian { iterations: u32 },
    /// `special_percent` of the draws fall evenly on the middle `range_percent` of the keys, the others are gaussian.
    Special { iterations: u32, range_percent: f64, special_percent: f64 },
    /// Self-similar: a share of 1 - `h` of the draws falls on the first share `h` of the keys, and so on within it.
    Pareto { h: f64 },
    /// The k-th key with a probability proportional to k^-exponent.
    Zipfian { exponent: f64 },
}

/// Draws keys from `low..=high`. Made once, used by one connection; cheap to clone.
#[derive(Debug, Clone)]
pub struct Sampler {
    low: u64,
    /// Keys in the range, at least 1.
    count: u64,
    shape: Shape,
}

#[derive(Debug, Clone)]
enum Shape {
    Uniform,
    Gaussian { iterations: u32 },
    Special { iterations: u32, special_share: f64, hot_first: u64, hot_count: u64 },
    Pareto { power: f64 },
    Zipfian(Zipfian),
}

impl Distribution {
    /// `low..=high`; a range that is upside down counts as the single key `low`.
    pub fn sampler(&self, low: u64, high: u64) -> Sampler {
        let count = high.saturating_sub(low).saturating_add(1);
        let shape = match *self {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Gaussian { iterations } => Shape::Gaussian { iterations },
            Distribution::Special { iterations, range_percent, special_percent } => {
                let (hot_first, hot_count) = hot_range(count, range_percent);
                Shape::Special { iterations, special_share: special_percent / 100.0, hot_first, hot_count }
            }
            Distribution::Pareto { h } => Shape::Pareto { power: h.ln() / (1.0 - h).ln() },
            Distribution::Zipfian { exponent } => Shape::Zipfian(Zipfian::new(count, exponent)),
        };
        Sampler { low, count, shape }
    }
}

impl Sampler {
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let offset = match &self.shape {
            Shape::Uniform => rng.below(self.count),
            Shape::Gaussian { iterations } => scale(self.count, bates(rng, *iterations)),
            Shape::Special { iterations, special_share, hot_first, hot_count } => {
                if rng.unit() < *special_share {
                    hot_first + rng.below(*hot_count)
                } else {
                    scale(self.count, bates(rng, *iterations))
                }
            }
            Shape::Pareto { power } => scale(self.count, rng.unit().powf(*power)),
            Shape::Zipfian(zipfian) => zipfian.sample(rng) - 1,
        };
        self.low + offset
    }
}

/// In words, as results name it: `special (res 75 %, pct 1 %, iter 12)`.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Gaussian { iterations } => write!(f, "gaussian (iter {iterations})"),
            Distribution::Special { iterations, range_percent, special_percent } => {
                write!(f, "special (res {special_percent} %, pct {range_percent} %, iter {iterations})")
            }
            Distribution::Pareto { h } => write!(f, "pareto (h {h})"),
            Distribution::Zipfian { exponent } => write!(f, "zipfian (exp {exponent})"),
        }
    }
}

/// First key (from 0) and number of keys of the middle `percent` of `count` keys; at least one key.
fn hot_range(count: u64, percent: f64) -> (u64, u64) {
    let wanted = scale_to(count, percent / 100.0);
    let hot = wanted.clamp(1, count);
    ((count - hot) / 2, hot)
}

/// The mean of `iterations` uniform draws.
fn bates(rng: &mut Rng, iterations: u32) -> f64 {
    let sum: f64 = (0..iterations).map(|_| rng.unit()).sum();
    sum / f64::from(iterations)
}

/// `share` in 0..1 of `count`, in `0..count`.
fn scale(count: u64, share: f64) -> u64 {
    scale_to(count, share).min(count - 1)
}

fn scale_to(count: u64, share: f64) -> u64 {
    // a share of a 64-bit count is a 64-bit count; the fraction is meant to be cut
    #[allow(clippy::cast_possible_truncation)]
    let scaled = (count as f64 * share) as u64;
    scaled
}

#[cfg(test)]
mod tests;
