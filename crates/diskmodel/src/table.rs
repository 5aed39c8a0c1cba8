// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// A distribution given by points of its inverse. Between two points the logarithm of the time is linear; before the first and
/// after the last point the time is constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Fraction of operations, and the microseconds that they do not exceed. Both ascend.
    points: Vec<(f64, f64)>,
}

/// `count` operations that took between `low_us` and `high_us`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    pub low_us: f64,
    pub high_us: f64,
    pub count: u64,
}

/// The shortest time, because 0 has no logarithm.
const LEAST_US: f64 = 0.001;

impl Table {
    /// # Errors
    /// Names the points that make no distribution.
    pub fn of(points: Vec<(f64, f64)>) -> Result<Self, String> {
        if points.is_empty() {
            return Err("there are no quantiles".into());
        }
        if let Some((p, us)) = points.iter().find(|(p, us)| !(0.0..=1.0).contains(p) || !us.is_finite() || *us < 0.0) {
            return Err(format!("p{} = {us} us is no quantile", p * 100.0));
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[1].0 < pair[0].0 || pair[1].1 < pair[0].1) {
            return Err(format!("p{} is not above p{}", pair[1].0 * 100.0, pair[0].0 * 100.0));
        }
        Ok(Self { points: points.into_iter().map(|(p, us)| (p, us.max(LEAST_US))).collect() })
    }

    /// The distribution of a measured histogram. Within a bin the logarithm of the time is linear; between bins there are no operations.
    ///
    /// # Errors
    /// The bins are empty, or overlap.
    pub fn of_histogram(bins: &[Bin]) -> Result<Self, String> {
        let mut bins: Vec<Bin> = bins.iter().filter(|bin| bin.count > 0).copied().collect();
        bins.sort_by(|a, b| a.high_us.total_cmp(&b.high_us));
        let total: u64 = bins.iter().map(|bin| bin.count).sum();
        if total == 0 {
            return Err("the histogram holds no operation".into());
        }
        let mut below = 0;
        let mut points = Vec::with_capacity(2 * bins.len());
        for bin in &bins {
            points.push((below as f64 / total as f64, bin.low_us));
            below += bin.count;
            points.push((below as f64 / total as f64, bin.high_us));
        }
        Self::of(points).map_err(|_| "the bins of the histogram overlap".into())
    }

    pub(crate) fn quantile(&self, p: f64) -> f64 {
        let after = self.points.partition_point(|(at, _)| *at < p);
        let Some((right_p, right)) = self.points.get(after) else { return self.points[self.points.len() - 1].1 };
        let Some((left_p, left)) = after.checked_sub(1).map(|before| self.points[before]) else { return *right };
        let part = (p - left_p) / (right_p - left_p);
        left * (right / left).powf(part)
    }
}
