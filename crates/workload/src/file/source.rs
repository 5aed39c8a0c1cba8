// SPDX-License-Identifier: Apache-2.0
//! The sources of values and waits.

use crate::Rng;
use crate::distribution::{Distribution, Draw as _};
use std::fmt;
use units::Span;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) source: Source,
    /// Drawn anew for each statement; otherwise once for each transaction.
    pub(super) each_statement: bool,
    pub(super) at: keyfile::At,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Number {
        distribution: Distribution,
        min: Bound,
        max: Bound,
    },
    /// The next number over all connections.
    Sequence {
        start: Bound,
        step: i64,
    },
    Int(i64),
    Text(String),
    /// This many characters of `of`, each drawn with the same probability.
    Characters {
        shortest: u32,
        longest: u32,
        of: Vec<char>,
    },
    /// The number of another parameter, plus `plus`.
    Copy {
        of: usize,
        plus: i64,
    },
}

/// A fixed number, or a number relative to the size of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) table_size: bool,
    pub(super) plus: i64,
}

impl Bound {
    pub(super) const fn of(number: i64) -> Self {
        Self { table_size: false, plus: number }
    }

    /// `table_size`, `table_size + 1`, `table_size - 10`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix("table_size")?.trim();
        let sign = match rest.chars().next() {
            None => return Some(Self { table_size: true, plus: 0 }),
            Some('+') => 1,
            Some('-') => -1,
            Some(_) => return None,
        };
        let number: u32 = rest[1..].trim().parse().ok()?;
        Some(Self { table_size: true, plus: sign * i64::from(number) })
    }

    pub(super) fn value(self, table_size: u64) -> i64 {
        let base = if self.table_size { i64::try_from(table_size).unwrap_or(i64::MAX) } else { 0 };
        base.saturating_add(self.plus)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.table_size, self.plus) {
            (false, number) => number.fmt(f),
            (true, 0) => f.write_str("table_size"),
            (true, plus) => write!(f, "table_size {plus:+}"),
        }
    }
}

impl Source {
    pub(super) fn uses_table_size(&self) -> bool {
        match self {
            Self::Number { min, max, .. } => min.table_size || max.table_size,
            Self::Sequence { start, .. } => start.table_size,
            _ => false,
        }
    }

    pub(super) fn describe(&self, all: &[Parameter]) -> String {
        match self {
            Self::Number { distribution, min, max } => format!("{distribution} from {min} to {max}"),
            Self::Sequence { start, step: 1 } => format!("sequence from {start}"),
            Self::Sequence { start, step } => format!("sequence from {start} by {step}"),
            Self::Int(_) | Self::Text(_) => "constant".to_owned(),
            Self::Characters { shortest, longest, .. } if shortest == longest => format!("{shortest} characters"),
            Self::Characters { shortest, longest, .. } => format!("{shortest} to {longest} characters"),
            Self::Copy { of, plus } => format!("{} {plus:+}", all[*of].name),
        }
    }
}

/// How long a client waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pause {
    None,
    Fixed(Span),
    Uniform { min: Span, max: Span },
    Exponential { mean: Span },
}

impl Pause {
    pub(super) fn draw_ns(self, rng: &mut Rng) -> u64 {
        match self {
            Self::None => 0,
            Self::Fixed(span) => span.as_ns(),
            Self::Uniform { min, max } => min.as_ns() + rng.below(max.as_ns() - min.as_ns() + 1),
            Self::Exponential { mean } => {
                // the unit draw is below 1, and at least 2^-53 away from it
                let share = -(1.0 - rng.unit()).ln();
                #[allow(clippy::cast_possible_truncation)] // at most 37 times an hour
                let ns = (mean.as_ns() as f64 * share) as u64;
                ns
            }
        }
    }
}
