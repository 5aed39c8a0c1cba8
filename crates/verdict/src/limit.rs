// SPDX-License-Identifier: Apache-2.0
//! Limits that fail a comparison: `p99>1.05x`.

use crate::judged::{Compared, Judged, Verdict};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A limit fails where a comparison shows that a figure of the second side is higher, or lower, by this factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The limit as it was written.
    text: String,
    name: String,
    verdict: Verdict,
    ratio: f64,
}

/// Why a text is not a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitError(String);

/// Whether a comparison has broken a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The difference is shown, and the typical ratio is beyond the limit.
    Shown,
    /// Not broken; a ratio as large as the limit would have been shown.
    NotShown,
    /// Not broken; but a ratio as large as the limit could be there without being shown: the detectable ratio is beyond the limit.
    Unseen,
    /// The figure has no verdict.
    CannotTell,
}

impl Limit {
    /// The figure's name.
    pub fn figure(&self) -> &str {
        &self.name
    }

    /// The limit as a ratio above 1: 1.25 for `<0.8x`.
    pub fn times(&self) -> f64 {
        self.ratio.max(1.0 / self.ratio)
    }

    pub fn check(&self, judged: &Judged) -> Held {
        judged.figure(&self.name).map_or(Held::CannotTell, |figure| self.of(figure))
    }

    fn of(&self, figure: &Compared) -> Held {
        let Some(verdict) = figure.verdict else { return Held::CannotTell };
        let is_beyond = match (self.verdict, figure.ratio) {
            (Verdict::Higher, ratio) => ratio.is_none_or(|ratio| ratio > self.ratio),
            (_, ratio) => ratio.is_some_and(|ratio| ratio < self.ratio),
        };
        if verdict == self.verdict && is_beyond {
            return Held::Shown;
        }
        let asked = self.times();
        // a ratio that the interval reaches may be the true one
        let is_excluded = match self.verdict {
            Verdict::Higher => figure.high.is_none_or(|high| high < self.ratio),
            _ => figure.low.is_none_or(|low| low > self.ratio),
        };
        match figure.detectable_ratio {
            Some(detectable) if detectable <= asked && is_excluded => Held::NotShown,
            _ => Held::Unseen,
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let wrong = |why: &str| LimitError(format!("{text:?}: {why}"));
        let at = text.find(['>', '<']).ok_or_else(|| wrong("there is no > or < in it"))?;
        let (name, rest) = text.split_at(at);
        let verdict = if rest.starts_with('>') { Verdict::Higher } else { Verdict::Lower };
        let name = name.trim();
        let number = rest.get(1..).unwrap_or_default().trim();
        let ratio =
            number.strip_suffix('x').ok_or_else(|| wrong("the limit is a ratio with an x behind it, such as 1.05x"))?;
        let ratio: f64 = ratio.trim().parse().map_err(|_| wrong("what stands before the x is no number"))?;
        let fits = match verdict {
            Verdict::Higher => ratio.is_finite() && ratio >= 1.0,
            _ => ratio > 0.0 && ratio <= 1.0,
        };
        match (name.is_empty(), fits) {
            (true, _) => Err(wrong("no figure is named")),
            (_, false) => Err(wrong("behind > stands a ratio of 1 or more, behind < one of 1 or less and above 0")),
            _ => Ok(Self { text: text.to_owned(), name: name.to_owned(), verdict, ratio }),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}\n  a limit is FIGURE>RATIOx or FIGURE<RATIOx, for example 'p99>1.05x' or 'throughput<0.95x'",
            self.0
        )
    }
}

impl std::error::Error for LimitError {}
