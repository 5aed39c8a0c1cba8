// SPDX-License-Identifier: Apache-2.0
//! A difference and its error, by Student's t or Welch's, and the smallest difference that they would have shown.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};
use statrs::function::gamma::ln_gamma;

/// The share of comparisons in which a difference that is there must be shown.
pub(crate) const POWER: f64 = 0.9;
/// Parts into which the distribution of a spread is cut to sum over it.
const PARTS: u32 = 96;
/// Halvings of the range in which the noncentrality is looked for: less than a hundred thousandth of it is left.
const HALVINGS: u32 = 20;

/// An estimated difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) difference: f64,
    /// Standard error of the difference.
    pub(crate) error: f64,
    /// Degrees of freedom of that error.
    pub(crate) freedom: f64,
}

/// One side of a difference: its mean, the square of the mean's standard error, and the number of its values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) mean: f64,
    /// Variance of the values over their number.
    pub(crate) square: f64,
    pub(crate) count: usize,
}

impl Estimate {
    /// By Student's t: `count` differences within pairs.
    pub(crate) fn paired(mean: f64, variance: f64, count: usize) -> Self {
        let count = count as f64;
        Self { difference: mean, error: (variance / count).sqrt(), freedom: count - 1.0 }
    }

    /// By Welch's t: the second part minus the first.
    pub(crate) fn apart(a: Part, b: Part) -> Self {
        let square = a.square + b.square;
        let weight = |part: Part| part.square.powi(2) / (part.count.max(2) - 1) as f64;
        let together = weight(a) + weight(b);
        // no spread on either side: any number of degrees gives the same
        let freedom = if together > 0.0 { square.powi(2) / together } else { (a.count + b.count) as f64 - 2.0 };
        Self { difference: b.mean - a.mean, error: square.sqrt(), freedom: freedom.max(1.0) }
    }

    /// Half the width of the interval outside of which `chance` lies, on both ends together.
    pub(crate) fn half_width(&self, chance: f64) -> f64 {
        if self.error > 0.0 { quantile(self.freedom, chance) * self.error } else { 0.0 }
    }

    /// The smallest difference that is shown with [`POWER`], if the true spread is the one that was seen.
    pub(crate) fn detectable(&self, chance: f64) -> f64 {
        if self.error > 0.0 { noncentrality(self.freedom, quantile(self.freedom, chance)) * self.error } else { 0.0 }
    }
}

/// The value of Student's t beyond which `chance` lies, on both ends together.
fn quantile(freedom: f64, chance: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - chance / 2.0))
}

/// How many standard errors a difference must have, so that t is beyond `critical` with [`POWER`]: the noncentral t distribution, as the sum over all
/// spreads that a sample may have (chi with `freedom` degrees) of the normal distribution's chance at that spread.
fn noncentrality(freedom: f64, critical: f64) -> f64 {
    if !critical.is_finite() {
        return f64::INFINITY;
    }
    let Ok(normal) = Normal::new(0.0, 1.0) else { return f64::INFINITY };
    let spreads = spreads(freedom);
    let power =
        |shift: f64| spreads.iter().map(|(spread, part)| part * normal.cdf(shift - critical * spread)).sum::<f64>();
    let (mut low, mut high) = (0.0, 4.0 * critical + 8.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if power(middle) < POWER { low = middle } else { high = middle }
    }
    high
}

/// Seen spread over true spread, each with its part of all samples.
fn spreads(freedom: f64) -> Vec<(f64, f64)> {
    // chi over the root of its degrees: from its density, summed up to six deviations
    let end = 1.0 + 6.0 / (2.0 * freedom).sqrt();
    let half = freedom / 2.0;
    let scale = 2.0_f64.ln() + half * half.ln() - ln_gamma(half);
    let width = end / f64::from(PARTS);
    let of = |part: u32| {
        let spread = (f64::from(part) + 0.5) * width;
        (spread, (scale + (freedom - 1.0) * spread.ln() - half * spread * spread).exp() * width)
    };
    let parts: Vec<(f64, f64)> = (0..PARTS).map(of).collect();
    let all: f64 = parts.iter().map(|(_, part)| part).sum();
    parts.into_iter().map(|(spread, part)| (spread, part / all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's table, as in each textbook.
    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        for (freedom, chance, printed) in
            [(4.0, 0.05, 2.776), (9.0, 0.05, 2.262), (2.0, 0.01, 9.925), (4.0, 0.002, 7.173)]
        {
            let own = quantile(freedom, chance);
            assert!((own - printed).abs() < 0.001, "{freedom} {chance}: {own}, printed {printed}");
        }
    }

    /// scipy 1.17.1: `brentq(lambda d: nct.sf(t.ppf(1 - chance / 2, freedom), freedom, d) - 0.9, 0, 160)`.
    #[test]
    fn noncentrality_is_that_of_the_noncentral_t() {
        let of_scipy = [
            (2.0, 0.05, 6.7956),
            (4.0, 0.05, 4.3959),
            (9.0, 0.05, 3.6511),
            (9.0, 0.0025, 5.8246),
            (4.0, 0.0025, 9.6704),
        ];
        for (freedom, chance, other) in of_scipy {
            let own = noncentrality(freedom, quantile(freedom, chance));
            assert!((own / other - 1.0).abs() < 0.001, "{freedom} {chance}: {own}, scipy {other}");
        }
    }
}
