// SPDX-License-Identifier: Apache-2.0
//! Zipf-distributed ranks in constant time and space, for any number of ranks.
//!
//! Rejection-inversion (W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996): a point under the continuous hat x^-s is drawn by inverting the hat's integral,
//! rounded to the next rank, and kept when it lies under that rank's bar. Fewer than one draw in five is thrown away.

use super::Draw as _;
use crate::Rng;

/// Ranks `1..=ranks`, rank k with a probability proportional to k^-exponent.
#[derive(Debug, Clone)]
pub(super) struct Zipfian {
    ranks: u64,
    exponent: f64,
    /// Integral of the hat at the left end, minus the whole bar of rank 1.
    left: f64,
    /// Integral of the hat at `ranks` + 1/2.
    right: f64,
    /// A rank at most this far right of its point is under its bar without a further look.
    squeeze: f64,
}

impl Zipfian {
    /// `exponent` >= 0; 0 is the uniform distribution.
    pub(super) fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipfian = Self { ranks: ranks.max(1), exponent, left: 0.0, right: 0.0, squeeze: 0.0 };
        zipfian.left = zipfian.integral(1.5) - 1.0;
        zipfian.right = zipfian.integral(zipfian.ranks as f64 + 0.5);
        zipfian.squeeze = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.bar(2.0));
        zipfian
    }

    pub(super) fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.right + rng.unit() * (self.left - self.right);
            let point = self.inverse(area);
            let rank = point.round().clamp(1.0, self.ranks as f64);
            if rank - point <= self.squeeze || area >= self.integral(rank + 0.5) - self.bar(rank) {
                // clamped to 1..=ranks just above
                #[allow(clippy::cast_possible_truncation)]
                return (rank as u64).clamp(1, self.ranks);
            }
        }
    }

    /// k^-s.
    fn bar(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// Integral of t^-s from 1 to x: (x^(1-s) - 1) / (1-s), and ln x at s = 1; written so that it stays exact near s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < NEAR_ZERO { log * (1.0 + power / 2.0) } else { power.exp_m1() / (1.0 - self.exponent) }
    }

    /// The x whose [`Self::integral`] is `area`.
    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        let log =
            if scaled.abs() < NEAR_ZERO { area * (1.0 - scaled / 2.0) } else { scaled.ln_1p() / (1.0 - self.exponent) };
        log.exp()
    }
}

/// Below this the second term of the series is exact to the last bit of a double.
const NEAR_ZERO: f64 = 1e-8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand_core::SeedableRng as _;

    #[test]
    fn integral_and_inverse_are_inverse() {
        for exponent in [0.0, 0.5, 0.8, 0.999_999_999, 1.0, 1.000_000_001, 1.5, 3.0] {
            let zipfian = Zipfian::new(1_000_000, exponent);
            for x in [0.6, 1.0, 1.5, 2.0, 10.5, 1_000.5] {
                let back = zipfian.inverse(zipfian.integral(x));
                assert!((back - x).abs() < x * 1e-6, "exponent {exponent}: {x} came back as {back}");
            }
        }
    }

    #[test]
    fn one_rank_is_always_one() {
        let (zipfian, mut rng) = (Zipfian::new(1, 0.8), Rng::seed_from_u64(3));
        assert!((0..1000).all(|_| zipfian.sample(&mut rng) == 1));
    }
}
