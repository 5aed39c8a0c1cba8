// SPDX-License-Identifier: Apache-2.0
//! Selects the statements of a log to send, and the class of each.

use super::classify::{Class, classify};
use crate::Protocol;
use logs::Recorded;
use sql::{fingerprint, tokens, tokens_the_other_way};
use std::collections::BTreeMap;

/// A statement to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Work {
    pub at_us: u64,
    pub sql: String,
    pub database: Option<String>,
    /// Index into [`Plan::classes`].
    pub class: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Other,
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub(super) sessions: Vec<Vec<Work>>,
    /// Classes of statements: their text without values.
    pub classes: Vec<String>,
    /// Statements that are not sent, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The log line of the first such statement, by reason.
    pub first_skipped: BTreeMap<String, u64>,
    /// By class: how many statements are sent.
    pub counts: BTreeMap<String, u64>,
    pub protocol: Option<Protocol>,
}

impl Plan {
    pub fn statements(&self) -> u64 {
        self.sessions.iter().map(|session| session.len() as u64).sum()
    }

    /// From the beginning of the log to the last statement that is sent.
    pub fn length_us(&self) -> u64 {
        self.sessions.iter().filter_map(|session| Some(session.last()?.at_us)).max().unwrap_or(0)
    }

    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The most sessions that were open at the same time; a session lasts from its first statement to its last.
    pub fn most_at_once(&self) -> usize {
        let spans = self.sessions.iter().filter_map(|session| Some((session.first()?.at_us, session.last()?.at_us)));
        let mut changes: Vec<(u64, i32)> = spans.flat_map(|(from, to)| [(from, 1), (to + 1, -1)]).collect();
        changes.sort_unstable();
        let (mut open, mut most) = (0, 0);
        for (_, change) in changes {
            open += change;
            most = most.max(open);
        }
        usize::try_from(most).unwrap_or(0)
    }
}

const BY_BACKSLASHES: &str = "may be more than a read, by how a server takes its backslashes";

/// A statement is a read only if it is one by both rules for backslashes in texts: the log does not tell the server's setting.
fn is_more_the_other_way(sql: &str, protocol: Protocol) -> bool {
    let other = tokens_the_other_way(sql, protocol.dialect());
    other.is_some_and(|tokens| matches!(classify(&tokens), Class::Not(_)))
}

/// `writes`: send everything; else only statements that provably read, or change only the session. `database`: the database of
/// PostgreSQL's connections; statements for others are left out.
pub fn plan(recorded: &Recorded, protocol: Protocol, writes: bool, database: Option<&str>) -> Plan {
    let mut plan = Plan { protocol: Some(protocol), ..Plan::default() };
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for session in &recorded.sessions {
        let mut works = Vec::new();
        for statement in &session.statements {
            let tokens = tokens(&statement.sql, protocol.dialect());
            let class = classify(&tokens);
            let elsewhere = protocol == Protocol::Postgresql
                && statement.database.as_deref().is_some_and(|name| database.is_some_and(|database| database != name));
            let reason = match class {
                _ if elsewhere => Some(format!("of database {}", statement.database.as_deref().unwrap_or_default())),
                Class::Not("is empty") => Some("is empty".to_owned()),
                Class::Not(reason) if !writes => Some(reason.to_owned()),
                _ if !writes && is_more_the_other_way(&statement.sql, protocol) => Some(BY_BACKSLASHES.to_owned()),
                _ => None,
            };
            if let Some(reason) = reason {
                *plan.skipped.entry(reason.clone()).or_default() += 1;
                plan.first_skipped.entry(reason).or_insert(statement.line);
                continue;
            }
            let name = fingerprint(&tokens);
            *plan.counts.entry(name.clone()).or_default() += 1;
            let next = plan.classes.len();
            let class_index = *known.entry(name.clone()).or_insert(next);
            if class_index == next {
                plan.classes.push(name);
            }
            works.push(Work {
                at_us: statement.at_us,
                sql: statement.sql.clone(),
                database: statement.database.clone(),
                class: class_index,
                kind: match class {
                    Class::Read => Kind::Read,
                    Class::Session => Kind::Other,
                    Class::Not("writes rows") => Kind::Write,
                    Class::Not(_) => Kind::Other,
                },
            });
        }
        if !works.is_empty() {
            plan.sessions.push(works);
        }
    }
    plan.sessions.sort_by_key(|session| session.first().map(|work| work.at_us));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use logs::read;

    const LOG: &str = "261121 22:49:33\t     3 Query\tSELECT 1\n\t\t     4 Query\tSELECT 2\n\t\t     4 Query\tDELETE FROM t\n\
                       \t\t     3 Query\tSELECT f(1)\n261121 22:49:35\t     5 Query\tSELECT 3\n";

    #[test]
    fn only_what_is_provably_a_read_is_sent() {
        let (_, recorded) = read(LOG.as_bytes()).expect("reads").expect("is known");
        let reads = plan(&recorded, Protocol::Mysql, false, None);
        assert_eq!((reads.statements(), reads.sessions(), reads.most_at_once()), (3, 3, 1));
        let skipped: Vec<(&str, u64)> = reads.skipped.iter().map(|(why, count)| (why.as_str(), *count)).collect();
        assert_eq!(skipped, [("calls a function that is not known to only read", 1), ("writes rows", 1)]);
        assert_eq!(reads.first_skipped["writes rows"], 3);
        assert_eq!(reads.counts["select ?"], 3);
        let all = plan(&recorded, Protocol::Mysql, true, None);
        assert_eq!((all.statements(), all.most_at_once(), all.skipped.len()), (5, 2, 0));
        assert!((1_000_000..=3_000_000).contains(&all.length_us()), "{} us", all.length_us());
    }

    /// A server with `NO_BACKSLASH_ESCAPES` ends the text at the backslash, and writes a file.
    #[test]
    fn a_read_by_one_rule_for_backslashes_alone_is_not_sent() {
        let log = "261121 22:49:33\t     3 Query\tSELECT 'a\\' INTO OUTFILE '/tmp/x' -- '\n\t\t     3 Query\tSELECT 'it\\'s'\n";
        let (_, recorded) = read(log.as_bytes()).expect("reads").expect("is known");
        let reads = plan(&recorded, Protocol::Mysql, false, None);
        let skipped: Vec<&str> = reads.skipped.keys().map(String::as_str).collect();
        assert_eq!(skipped, [BY_BACKSLASHES]);
        assert_eq!(reads.statements(), 1, "{:?}", reads.counts);
    }
}
