// SPDX-License-Identifier: Apache-2.0
//! The limits of the numbers that skewed distributions are made of: the same on a command line, in an experiment file, and in a
//! workload's file.

use std::ops::RangeInclusive;

/// How many draws one gaussian value is the mean of: `--rand-spec-iter`.
pub const ITERATIONS: RangeInclusive<u32> = 1..=1000;
/// `--rand-spec-pct`, the width of special's hot range, and `--rand-spec-res`, the share of the draws that fall on it.
pub const PERCENT: RangeInclusive<f64> = 0.0..=100.0;
/// `--rand-pareto-h`.
pub const PARETO_H: RangeInclusive<f64> = 0.001..=0.999;
/// `--rand-zipfian-exp`.
pub const ZIPFIAN_EXPONENT: RangeInclusive<f64> = 0.0..=100.0;
