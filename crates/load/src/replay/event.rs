// SPDX-License-Identifier: Apache-2.0
//! What a log says: statements, each of a session, with the moment at which it began.

use super::clock::Moment;
use std::collections::BTreeMap;

/// One statement of the log, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The line of the log on which it begins.
    pub line: u64,
    pub sql: String,
    pub database: Option<String>,
    /// Microseconds since the log's first statement.
    pub at_us: u64,
}

/// The statements of one connection, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    pub statements: Vec<Statement>,
}

/// A whole log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    pub sessions: Vec<Session>,
    /// What was not understood, with its line; at most [`TROUBLES_KEPT`].
    pub troubles: Vec<(u64, String)>,
    pub troubles_count: u64,
    /// The finest step of the log's clock.
    pub resolution_us: u64,
}

impl Recorded {
    pub fn statements(&self) -> u64 {
        self.sessions.iter().map(|session| session.statements.len() as u64).sum()
    }

    /// From the first statement's start to the last one's.
    pub fn length_us(&self) -> u64 {
        self.sessions.iter().flat_map(|session| &session.statements).map(|it| it.at_us).max().unwrap_or(0)
    }
}

const TROUBLES_KEPT: usize = 20;
const SECOND_US: i64 = 1_000_000;

/// Gathers what the readers of the formats find, in the log's order.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    found: Vec<Found>,
    troubles: Vec<(u64, String)>,
    troubles_count: u64,
}

#[derive(Debug)]
struct Found {
    session: String,
    at: Moment,
    line: u64,
    sql: String,
    database: Option<String>,
}

impl Gathered {
    pub(super) fn statement(&mut self, session: &str, at: Moment, line: u64, sql: String, database: Option<String>) {
        self.found.push(Found { session: session.to_owned(), at, line, sql, database });
    }

    pub(super) fn trouble(&mut self, line: u64, what: impl Into<String>) {
        self.troubles_count += 1;
        if self.troubles.len() < TROUBLES_KEPT {
            self.troubles.push((line, what.into()));
        }
    }

    pub(super) fn finish(mut self) -> Recorded {
        let is_coarse = self.found.iter().all(|found| found.at.us % SECOND_US == 0);
        if is_coarse {
            self.spread();
        }
        let first = self.found.iter().map(|found| found.at.us).min().unwrap_or(0);
        let mut sessions: BTreeMap<String, (usize, Session)> = BTreeMap::new();
        for (order, found) in self.found.into_iter().enumerate() {
            let at_us = u64::try_from(found.at.us - first).unwrap_or(0);
            let Found { line, sql, database, .. } = found;
            let session = sessions.entry(found.session).or_insert_with(|| (order, Session::default()));
            session.1.statements.push(Statement { line, sql, database, at_us });
        }
        let mut sessions: Vec<(usize, Session)> = sessions.into_values().collect();
        sessions.sort_by_key(|(order, _)| *order);
        let mut sessions: Vec<Session> = sessions.into_iter().map(|(_, session)| session).collect();
        for session in &mut sessions {
            // a log is written at the ends of statements; within a session none begins before the one ahead of it
            let mut latest = 0;
            for statement in &mut session.statements {
                latest = latest.max(statement.at_us);
                statement.at_us = latest;
            }
        }
        let (troubles, troubles_count) = (self.troubles, self.troubles_count);
        Recorded { sessions, troubles, troubles_count, resolution_us: if is_coarse { 1_000_000 } else { 1 } }
    }

    /// A log that knows seconds alone: what happened in one second is spread evenly over it, in the log's order.
    fn spread(&mut self) {
        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        for found in &self.found {
            *counts.entry(found.at.us).or_default() += 1;
        }
        let mut seen: BTreeMap<i64, i64> = BTreeMap::new();
        for found in &mut self.found {
            let (second, count) = (found.at.us, counts[&found.at.us]);
            let index = seen.entry(second).or_default();
            found.at.us += *index * SECOND_US / count;
            *index += 1;
        }
    }
}
