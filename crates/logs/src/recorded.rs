// SPDX-License-Identifier: Apache-2.0
//! A whole log in memory: its statements by connection, each with the moment at which it began.

use crate::Log;
use crate::entry::{Entry, Skipped};
use std::collections::BTreeMap;
use std::io;

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
    /// The content of the log that was left out.
    pub skipped: Skipped,
    /// The finest step of the log's clock.
    pub resolution_us: u64,
}

impl Recorded {
    /// # Errors
    /// The log cannot be read.
    pub fn of<R: io::BufRead>(mut log: Log<R>) -> io::Result<Self> {
        let mut found = log.by_ref().collect::<io::Result<Vec<Entry>>>()?;
        // an entry is given when its statement is known to be over
        found.sort_by_key(|found| found.line);
        let seconds: Option<Vec<i64>> = found.iter().map(second).collect();
        let is_coarse = seconds.is_some();
        if let Some(seconds) = seconds {
            spread(&mut found, &seconds);
        }
        let first = found.iter().map(|found| found.at.us).min().unwrap_or(0);
        let mut sessions: BTreeMap<String, (usize, Session)> = BTreeMap::new();
        for (order, found) in found.into_iter().enumerate() {
            let at_us = u64::try_from(found.at.us - first).unwrap_or(0);
            let Entry { line, sql, database, .. } = found;
            let session = sessions.entry(found.session).or_insert_with(|| (order, Session::default()));
            session.1.statements.push(Statement { line, sql, database, at_us });
        }
        let mut sessions: Vec<(usize, Session)> = sessions.into_values().collect();
        sessions.sort_by_key(|(order, _)| *order);
        let mut sessions: Vec<Session> = sessions.into_iter().map(|(_, session)| session).collect();
        for session in &mut sessions {
            // a log is written when statements end; within a session no statement begins before the one that precedes it
            let mut latest = 0;
            for statement in &mut session.statements {
                latest = latest.max(statement.at_us);
                statement.at_us = latest;
            }
        }
        let resolution_us = if is_coarse { 1_000_000 } else { 1 };
        Ok(Self { sessions, skipped: log.skipped().clone(), resolution_us })
    }

    pub fn statements(&self) -> u64 {
        self.sessions.iter().map(|session| session.statements.len() as u64).sum()
    }

    /// From the first statement's start to the last one's.
    pub fn length_us(&self) -> u64 {
        self.sessions.iter().flat_map(|session| &session.statements).map(|it| it.at_us).max().unwrap_or(0)
    }
}

const SECOND_US: i64 = 1_000_000;

/// The whole second that the log tells of an entry: that of its begin, or that of its end. `None`: the log's clock is finer.
fn second(entry: &Entry) -> Option<i64> {
    let is_fine = (1..SECOND_US.unsigned_abs()).contains(&entry.figures.step_us);
    let ended_us = entry.at.us.saturating_add_unsigned(entry.figures.took_us.unwrap_or(0));
    [entry.at.us, ended_us].into_iter().find(|us| !is_fine && us % SECOND_US == 0)
}

/// For a log with whole seconds only: the statements of one second are spread evenly over it, in the log's order. `seconds`: of each entry.
fn spread(entries: &mut [Entry], seconds: &[i64]) {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for second in seconds {
        *counts.entry(*second).or_default() += 1;
    }
    let mut seen: BTreeMap<i64, i64> = BTreeMap::new();
    for (found, second) in entries.iter_mut().zip(seconds) {
        let index = seen.entry(*second).or_default();
        found.at.us += *index * SECOND_US / counts[second];
        *index += 1;
    }
}
