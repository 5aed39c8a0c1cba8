// SPDX-License-Identifier: Apache-2.0
//! Reads the output of other load programs, sysbench 1.x and pgbench, into the figures of a load. Their lines of progress become a timeline.
//!
//! Nothing is guessed: a figure that the program does not print is missing, and an output in another form gives `None`.

mod pgbench;
mod slots;
mod sysbench;

#[cfg(test)]
mod tests;

use evidence::{Arrivals, Phase};
use std::collections::BTreeMap;

/// A program's report of its own run. The times of its phase start at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Understood {
    /// `sysbench 1.0.20`, `pgbench 15.14`.
    pub program: String,
    pub connections: Option<u32>,
    /// Operating-system threads.
    pub workers: Option<u32>,
    pub arrivals: Arrivals,
    pub phase: Phase,
    /// The figures as printed, with the unit in the name.
    pub figures: BTreeMap<String, f64>,
}

/// The last report in an output. `None`: the form of the output is not known.
pub fn read(text: &str) -> Option<Understood> {
    sysbench::read(text).or_else(|| pgbench::read(text))
}

pub use pgbench::{add_logs, add_progress};

/// The number that a text begins with: `12 ms`, `3 (0.1%)`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts and times of a run, never negative
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}
