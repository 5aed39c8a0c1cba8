// SPDX-License-Identifier: Apache-2.0
//! The answer, as plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What can be said of a figure of the second side, beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Lower,
    Higher,
    /// Not: they are the same. [`Compared::detectable_ratio`] says how large a difference would have been seen.
    NoDifferenceShown,
}

/// Why a figure has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoVerdict {
    /// A side has fewer than [`crate::FEWEST_REPEATS`] repeats.
    TooFewRepeats,
    /// Repeats of a side there are, but fewer than that have the figure.
    NotMeasured,
    /// The two sides give it in different units.
    DifferentUnits,
}

/// One figure of both sides. Ratios are the second side's value over the first side's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    pub name: String,
    pub unit: String,
    /// Repeats of the first side that it was measured in, and that are compared.
    pub repeats_a: usize,
    pub repeats_b: usize,
    /// How many blocks held both sides, and were compared within themselves. `None`: the sides were compared as two samples.
    pub pairs: Option<usize>,
    /// Typical value of the first side: the geometric mean of its repeats; the plain mean where one of them is 0. `None`: never measured.
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// `None`: one side has none, or the first side's is 0.
    pub ratio: Option<f64>,
    /// Lower end of the interval of the ratio. `None`: there is no verdict, or a value is 0 (see `told`).
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Of this one interval, so that all of them hold jointly with 0.95.
    pub confidence: Option<f64>,
    pub verdict: Option<Verdict>,
    /// `None`: there is one.
    pub no_verdict: Option<NoVerdict>,
    /// 1 or more: a true ratio of so much, or of 1 over so much, would have been shown by so many repeats with this spread in 9 of 10 comparisons.
    pub detectable_ratio: Option<f64>,
    /// What a reader should know of this figure, in sentences.
    pub told: Vec<String>,
}

/// What [`crate::judge`] says.
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

    /// Whether any figure is shown to differ.
    pub fn shows_a_difference(&self) -> bool {
        self.figures.iter().any(Compared::is_shown)
    }
}

impl Compared {
    /// A difference is shown.
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
