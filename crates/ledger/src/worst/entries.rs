// SPDX-License-Identifier: Apache-2.0
//! The parts of a worst case: the shape of the JSON.

use crate::{Missing, StatementMark};
use serde::{Deserialize, Serialize};

/// Numbers that the caller sets instead of the server's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Assumed {
    /// Connections at once, for the realistic size. `None`: the server's own count.
    pub connections: Option<u64>,
    /// Sorts, joins and temporary tables of one statement at once. `None`: the number that follows from the server's limits.
    pub operations: Option<u64>,
}

/// Three sizes, and how they are computed. In bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorstCase {
    pub schema: u32,
    /// When reading began, in microseconds since 1970, UTC.
    pub at_unix_us: u64,
    /// The kernel's total, as of the account.
    pub now_bytes: u64,
    /// The sum of those lines of `realistic` that count.
    pub realistic_bytes: u64,
    /// The sum of those lines of `bound` that count. `None`: the server's settings are not known.
    pub bound_bytes: Option<u64>,
    /// The memory that one connection may hold at once, by the settings. `None` as above.
    pub per_connection_bytes: Option<u64>,
    pub concurrency: Concurrency,
    pub realistic: Vec<Line>,
    pub bound: Vec<Line>,
    /// Memory that no setting limits.
    pub unbounded: Vec<Unbounded>,
    pub accounts: Vec<AccountClaim>,
    /// Statements that have held the most, as far as the server keeps it.
    pub statements: Vec<StatementMark>,
    /// The results of other tools; they are not part of any sum.
    pub comparison: Vec<Line>,
    pub missing: Vec<Missing>,
}

/// How many at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concurrency {
    /// Clients that are connected.
    pub connections_now: u64,
    /// For the realistic size.
    pub connections_peak: u64,
    pub connections_peak_source: String,
    /// What the server admits, with its reserves. `None`: its settings are not known.
    pub connections_max: Option<u64>,
    pub connections_max_source: String,
    /// Processes or threads beside the connections that run parts of statements: parallel workers, replication.
    pub workers_max: u64,
    /// Sorts, joins, temporary tables of one statement at once.
    pub operations: u64,
    pub operations_source: String,
}

impl Concurrency {
    /// The connections of the peak that are not there now.
    pub(crate) fn more(&self) -> u64 {
        self.connections_peak.saturating_sub(self.connections_now)
    }

    /// For the source of the peak, where the peak has more connections than the server admits.
    pub(crate) fn refused(&self) -> Option<String> {
        let admitted = self.connections_max.filter(|most| *most < self.connections_peak)?;
        Some(format!("; the server admits only {admitted} connections ({})", self.connections_max_source))
    }
}

/// One line of the arithmetic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub count: u64,
    pub size_bytes: u64,
    /// `count` x `size_bytes`; below zero where it is subtracted.
    pub bytes: i64,
    pub source: String,
    /// Whether it is part of the sum: of two lines that cannot happen at once, only the larger one is.
    pub counts: bool,
}

impl Line {
    pub(crate) fn new(name: impl Into<String>, count: u64, size_bytes: u64, source: impl Into<String>) -> Self {
        let bytes = i64::try_from(count.saturating_mul(size_bytes)).unwrap_or(i64::MAX);
        Self { name: name.into(), count, size_bytes, bytes, source: source.into(), counts: true }
    }

    /// Takes so much off.
    pub(crate) fn less(name: impl Into<String>, size_bytes: u64, source: impl Into<String>) -> Self {
        let line = Self::new(name, 1, size_bytes, source);
        Self { bytes: -line.bytes, ..line }
    }
}

/// What is counted of the lines; never below zero.
pub(crate) fn sum(lines: &[Line]) -> u64 {
    let counted = lines.iter().filter(|line| line.counts).map(|line| line.bytes);
    u64::try_from(counted.fold(0_i64, i64::saturating_add)).unwrap_or(0)
}

/// What has no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unbounded {
    pub name: String,
    pub why: String,
    /// How `bound_bytes` counts it.
    pub counted: String,
    /// A setting that would limit it, or its number.
    pub remedy: Option<String>,
}

/// What the sessions of one account hold and may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountClaim {
    pub account: String,
    pub connections: u64,
    /// All its sessions together; `None`: the server does not say it.
    pub now_bytes: Option<u64>,
    /// The most that one session of it has held.
    pub session_max_bytes: Option<u64>,
    /// As many connections as now, each at that mark.
    pub at_marks_bytes: Option<u64>,
    /// All connections that it may have, each with all that one connection may hold.
    pub bound_bytes: Option<u64>,
}
