// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's statements whose duration may follow. `log_statement` writes the text when a statement begins. When it ends,
//! `log_min_duration_statement` and `log_duration` do not write the text again (`check_log_duration` in `src/backend/tcop/postgres.c`, PostgreSQL 9
//! to 18): the session connects the duration with the text.

use crate::entry::Entry;
use std::collections::{BTreeMap, HashMap};

/// The most statements that are kept, and the most bytes of their texts. A log may have more sessions than fit into memory.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 8 << 20;

/// For each session, the statement that began last.
#[derive(Debug, Default)]
pub(crate) struct Untimed {
    /// By the line on which each begins.
    statements: BTreeMap<u64, Entry>,
    /// The line of each session's statement.
    lines: HashMap<String, u64>,
    bytes: usize,
}

impl Untimed {
    /// Keeps a statement. Returns those for which there is no room any more, the oldest first: one that is longer than all the room is among them. The
    /// session's statement before this one must have been taken.
    pub(crate) fn keep(&mut self, entry: Entry) -> Vec<Entry> {
        self.bytes += entry.sql.len();
        self.lines.insert(entry.session.clone(), entry.line);
        self.statements.insert(entry.line, entry);
        let mut surplus = Vec::new();
        while self.statements.len() > MOST || self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.statements.pop_first() else { break };
            self.lines.remove(&oldest.session);
            self.bytes -= oldest.sql.len();
            surplus.push(oldest);
        }
        surplus
    }

    pub(crate) fn take(&mut self, session: &str) -> Option<Entry> {
        let entry = self.statements.remove(&self.lines.remove(session)?)?;
        self.bytes -= entry.sql.len();
        Some(entry)
    }

    /// All that are left, in the log's order.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Entry> {
        std::mem::take(self).statements.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: u64, session: &str, sql: String) -> Entry {
        let session = session.to_owned();
        let (at, figures) = (crate::Moment::default(), crate::Figures::default());
        Entry { session, at, line, sql, database: None, offset: 0, figures, head: None }
    }

    #[test]
    fn the_oldest_gives_way_where_there_are_too_many_or_too_long_ones() {
        let mut untimed = Untimed::default();
        for line in 0..MOST as u64 {
            assert_eq!(untimed.keep(entry(line, &line.to_string(), "SELECT 1".to_owned())), []);
        }
        let surplus = untimed.keep(entry(MOST as u64, "new", "SELECT 2".to_owned()));
        assert_eq!((surplus.len(), surplus[0].line), (1, 0));
        assert!(untimed.take("0").is_none() && untimed.take("1").is_some() && untimed.take("1").is_none());
        let long = untimed.keep(entry(MOST as u64 + 1, "long", "x".repeat(MOST_BYTES + 1)));
        assert_eq!((long.len(), long.last().map(|it| it.line)), (MOST, Some(MOST as u64 + 1)));
        assert_eq!((untimed.bytes, untimed.take_all().count()), (0, 0));
    }
}
