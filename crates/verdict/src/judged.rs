// SPDX-License-Identifier: Apache-2.0
//! The answer, as plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is shown of a figure: the second side compared with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Lower,
    Higher,
    /// This does not mean that the two sides are the same. [`Compared::detectable_ratio`] says how large a difference would have been seen.
    NoDifferenceShown,
}

/// Why a figure has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoVerdict {
    /// A side has fewer than [`crate::FEWEST_REPEATS`] repeats.
    TooFewRepeats,
    /// A side has enough repeats, but fewer than [`crate::FEWEST_REPEATS`] of them have the figure.
    NotMeasured,
    /// A percentile that some repeats know only as a lower bound: the others are those that kept up, and say nothing of all.
    LowerBounds,
    /// The two sides give it in different units.
    DifferentUnits,
}

/// One figure of both sides. Ratios are the second side's value over the first side's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    pub name: String,
    pub unit: String,
    /// The number of compared repeats of the first side in which it was measured.
    pub repeats_a: usize,
    pub repeats_b: usize,
    /// The number of blocks with repeats of both sides; the sides were compared within each block. `None`: the sides were compared as two samples.
    pub pairs: Option<usize>,
    /// Typical value of the first side: the geometric mean of its repeats; the plain mean where one of them is 0. `None`: never measured.
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// `None`: one side has no value, or the value of the first side is 0.
    pub ratio: Option<f64>,
    /// Lower end of the interval of the ratio. `None`: there is no verdict, or a value is 0 (see `told`).
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The confidence of this one interval. It is chosen so that all intervals hold jointly with 0.95.
    pub confidence: Option<f64>,
    pub verdict: Option<Verdict>,
    /// Why there is no verdict. `None`: there is one.
    pub no_verdict: Option<NoVerdict>,
    /// 1 or more. In 9 of 10 comparisons with as many repeats and the same spread, a true ratio of this number, or of 1 divided by it, would be shown.
    pub detectable_ratio: Option<f64>,
    /// What a reader should know of this figure, in sentences.
    pub told: Vec<String>,
}

/// The answer of [`crate::judge`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Repeats of the first side.
    pub repeats_a: usize,
    pub repeats_b: usize,
    /// [`crate::THROUGHPUT`] first, then in the order in which the repeats have them.
    pub figures: Vec<Compared>,
}

impl Judged {
    pub fn figure(&self, name: &str) -> Option<&Compared> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Whether a difference is shown for any figure.
    pub fn shows_a_difference(&self) -> bool {
        self.figures.iter().any(Compared::is_shown)
    }
}

impl Compared {
    /// Whether a difference is shown.
    pub fn is_shown(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Lower | Verdict::Higher))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::NoDifferenceShown => "no difference shown",
        })
    }
}
