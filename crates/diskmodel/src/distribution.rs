// SPDX-License-Identifier: Apache-2.0
use crate::table::Table;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, Normal};
use std::fmt;
use units::Span;

/// How long an operation takes, in microseconds. A distribution is defined by the inverse of its cumulative function, so a sample
/// is [`Distribution::quantile`] of a uniform number, and printed quantiles are those that are drawn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    Constant {
        us: f64,
    },
    /// Negative times become 0. The parser refuses deviations for which that would matter.
    Normal {
        mean_us: f64,
        sd_us: f64,
    },
    Lognormal {
        p50_us: f64,
        p99_us: f64,
    },
    Table(Table),
    /// One constant time for most operations, and longer ones for a few.
    Tail {
        us: f64,
        /// Ascending in `us`.
        rare: Vec<Rare>,
    },
}

/// One in `one_in` operations takes `us`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rare {
    pub one_in: f64,
    pub us: f64,
}

impl Distribution {
    pub const NONE: Self = Self::Constant { us: 0.0 };

    /// The time in microseconds that the fraction `p` of all operations does not exceed.
    pub fn quantile(&self, p: f64) -> f64 {
        match self {
            Self::Constant { us } => *us,
            Self::Normal { mean_us, sd_us } => (mean_us + sd_us * standard_normal(p)).max(0.0),
            Self::Lognormal { p50_us, p99_us } => p50_us * (sigma(*p50_us, *p99_us) * standard_normal(p)).exp(),
            Self::Table(table) => table.quantile(p),
            Self::Tail { us, rare } => {
                let mut above = 1.0;
                for rare in rare.iter().rev() {
                    above -= 1.0 / rare.one_in;
                    if p > above {
                        return rare.us;
                    }
                }
                *us
            }
        }
    }

    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant { .. })
    }

    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The mean, from the midpoints of ten thousand equal slices.
    pub fn mean(&self) -> f64 {
        if let Self::Constant { us } = self {
            return *us;
        }
        const SLICES: u32 = 10_000;
        (0..SLICES).map(|slice| self.quantile((f64::from(slice) + 0.5) / f64::from(SLICES))).sum::<f64>()
            / f64::from(SLICES)
    }
}

/// Standard deviation of the logarithm.
fn sigma(p50_us: f64, p99_us: f64) -> f64 {
    (p99_us / p50_us).ln() / standard_normal(0.99)
}

/// The quantile function of the standard normal distribution, without its infinite ends.
fn standard_normal(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(1e-12, 1.0 - 1e-12))
}

/// `580 us`, with three digits.
pub(crate) fn time(us: f64) -> Span {
    #[allow(clippy::cast_possible_truncation)] // times are not negative, and below an hour
    Span(std::time::Duration::from_nanos((us * 1000.0).round() as u64))
}

/// This text is for people, not for a parser.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant { us } => write!(f, "{}", time(*us)),
            Self::Normal { mean_us, sd_us } => write!(f, "normal, mean {}, deviation {}", time(*mean_us), time(*sd_us)),
            Self::Lognormal { p50_us, p99_us } => write!(f, "lognormal, p50 {}, p99 {}", time(*p50_us), time(*p99_us)),
            Self::Table(_) => {
                let [p50, p99, most] = [0.5, 0.99, 1.0].map(|p| time(self.quantile(p)));
                write!(f, "p50 {p50}, p99 {p99}, at most {most}")
            }
            Self::Tail { us, rare } => {
                write!(f, "{}", time(*us))?;
                rare.iter().try_for_each(|rare| write!(f, ", 1 in {} {}", rare.one_in, time(rare.us)))
            }
        }
    }
}
