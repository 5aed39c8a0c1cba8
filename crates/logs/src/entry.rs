// SPDX-License-Identifier: Apache-2.0
//! What the readers of the formats give: entries, and counts of what is none.

use crate::clock::Moment;
use crate::lines::MOST_BYTES;
use std::collections::{BTreeMap, VecDeque};

/// A statement that a server ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The connection: its number, or what the log has instead.
    pub session: String,
    /// When it began, by the log's clock.
    pub at: Moment,
    /// The line of the log on which it begins.
    pub line: u64,
    pub sql: String,
    pub database: Option<String>,
}

/// How often something was left out, and where first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    pub count: u64,
    pub first_line: u64,
}

/// What a log has beside the statements, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines and entries that could not be understood.
    pub not_understood: BTreeMap<&'static str, Skip>,
    /// What was understood and ran nothing: other commands, other messages.
    pub no_statement: BTreeMap<&'static str, Skip>,
    /// The first [`Self::LINES_KEPT`] that could not be understood: line, and what about it.
    pub lines: Vec<(u64, String)>,
}

impl Skipped {
    pub const LINES_KEPT: usize = 20;

    /// Lines and entries that could not be understood.
    pub fn not_understood_count(&self) -> u64 {
        self.not_understood.values().map(|skip| skip.count).sum()
    }
}

/// Reads one format, line by line.
pub(crate) trait Reader {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered);
    /// The log is at its end.
    fn end(&mut self, gathered: &mut Gathered);
}

/// Takes what a reader finds, until it is fetched.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) skipped: Skipped,
}

impl Gathered {
    pub(crate) fn statement(&mut self, session: &str, at: Moment, line: u64, sql: String, database: Option<String>) {
        if sql.len() > MOST_BYTES {
            return self.trouble(line, "a statement longer than 64 MiB");
        }
        self.entries.push_back(Entry { session: session.to_owned(), at, line, sql, database });
    }

    pub(crate) fn trouble(&mut self, line: u64, reason: &'static str) {
        self.trouble_with(line, reason, || reason.to_owned());
    }

    /// `what` says more than the reason by which it is counted.
    pub(crate) fn trouble_with(&mut self, line: u64, reason: &'static str, what: impl FnOnce() -> String) {
        count(&mut self.skipped.not_understood, reason, line);
        if self.skipped.lines.len() < Skipped::LINES_KEPT {
            self.skipped.lines.push((line, what()));
        }
    }

    pub(crate) fn no_statement(&mut self, line: u64, reason: &'static str) {
        count(&mut self.skipped.no_statement, reason, line);
    }
}

fn count(skips: &mut BTreeMap<&'static str, Skip>, reason: &'static str, line: u64) {
    skips.entry(reason).or_insert(Skip { count: 0, first_line: line }).count += 1;
}
