// SPDX-License-Identifier: Apache-2.0
//! Sizes of which a profiler has seen a sample: how far the true size may be from the estimated one.
//!
//! A block of s bytes is seen with the probability p, and then stands for s / p bytes (Horvitz and Thompson 1952). The estimate from n seen blocks has the
//! variance (its square) · (1 - p) / n. Of small blocks, p is about s / every: each stands for `every` bytes, and their number is a Poisson variable. For
//! this, √n - z/2 and √(n + z²/4) + z/2 are the roots of bounds a little wider than the exact ones (Garwood 1936).

/// A size, and the variance of the sampling. The variance is 0 where the profiler looked at all blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) bytes: u64,
    pub(crate) variance: u128,
}

impl From<u64> for Estimate {
    fn from(bytes: u64) -> Self {
        Self { bytes, variance: 0 }
    }
}

impl Estimate {
    /// Of samples that were chosen independently.
    pub(crate) fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.variance = self.variance.saturating_add(other.variance);
    }
}

/// How far the true size may lie below an estimate, and how far above it; in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) below: f64,
    pub(crate) above: f64,
}

/// The multiple of the standard error for which the bounds of so many sizes hold together in 95 of 100 cases: 2 for one size, 3.2 for 20, 4.2 for 1000. It
/// is a little more than the quantile of the normal distribution (Bonferroni's).
pub(crate) fn multiple(sizes: usize) -> f64 {
    (4.0 + 2.0 * (sizes.max(1) as f64).ln()).sqrt()
}

impl Spread {
    /// `every`: the profiler saw one allocation in so many bytes; `None`: all of them. `multiple`: of the standard error.
    ///
    /// Small blocks may be there of which none was seen: k bytes of them with the probability exp(-k / every). So even an estimate of 0, or of one large
    /// block, which is always seen, has a distance upwards.
    pub(crate) fn of(bytes: u64, variance: f64, every: Option<u64>, multiple: f64) -> Self {
        let Some(every) = every else { return Self::default() };
        let unseen = multiple / 2.0 * every as f64;
        Self {
            below: (multiple * variance.sqrt()).min(bytes as f64),
            above: multiple * (unseen + (variance + unseen * unseen).sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact bounds of a Poisson variable: of 0, 1, 4, 10, 23 seen, at most 3.69, 5.57, 10.24, 18.39, 34.51, and at least 0, 0.025, 1.09, 4.8, 14.58.
    #[test]
    fn the_bounds_are_a_little_wider_than_the_exact_ones() {
        let every: u32 = 1 << 19;
        for (seen, least, most) in
            [(0_u32, 0.0, 3.69), (1, 0.025, 5.57), (4, 1.09, 10.24), (10, 4.8, 18.39), (23, 14.58, 34.51)]
        {
            let (one, bytes, seen) = (f64::from(every), u64::from(every) * u64::from(seen), f64::from(seen));
            let spread = Spread::of(bytes, seen * one * one, Some(every.into()), multiple(1));
            let [low, high] = [seen - spread.below / one, seen + spread.above / one];
            assert!(
                (low..=low + 1.2).contains(&least) && (high - 0.5..=high).contains(&most),
                "{seen}: {low} to {high}"
            );
        }
        assert_eq!(Spread::of(1000, 0.0, None, 2.0), Spread::default());
    }

    /// The normal distribution is beyond these multiples in 2.5 %, 0.125 % and 0.0025 % of the cases on each side.
    #[test]
    fn more_sizes_need_a_larger_multiple() {
        for (sizes, exact) in [(1, 1.96), (20, 3.02), (1000, 4.06)] {
            assert!((exact..exact + 0.2).contains(&multiple(sizes)), "{sizes}: {}", multiple(sizes));
        }
    }
}
