// SPDX-License-Identifier: Apache-2.0
//! Classes of statements: how often each ran, and how long it took. Their number and their memory are bounded.

use hdrhistogram::Histogram;
use logs::{Figures, cut};
use std::collections::HashMap;
use std::sync::Arc;

/// The most classes. Statements of later classes are counted in one class. Each class takes some 10 KiB.
const MOST_CLASSES: usize = 2000;
/// Statements whose normalised text has the same first bytes, so many of them, are one class.
const CLASS_BYTES: usize = 2000;
/// Significant digits of the histograms: each length is known within 1 %.
const DIGITS: u8 = 2;

/// The kind of a statement, as far as its words tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes no locks of rows.
    Read,
    LockingRead,
    Write,
    Commit,
    /// It asks the server to wait: `SLEEP`, `GET_LOCK`, `pg_sleep`.
    AskedToWait,
    /// The log's fields do not count its work: `COUNT(*)`, for which MySQL 8.0 counts no rows.
    Counting,
    /// `ALTER TABLE`, `TRUNCATE`: it waits for whole tables.
    Definition,
    /// `CALL`, `LOAD DATA`.
    Other,
    /// The log has no statements.
    NotSaid,
}

impl Kind {
    fn of(class: &str) -> Self {
        const WAITING: [&str; 8] = [
            "sleep (",
            "get_lock (",
            "benchmark (",
            "master_pos_wait (",
            "source_pos_wait (",
            "master_gtid_wait (",
            "wait_for_executed_gtid_set (",
            "wait_until_sql_thread_after_gtids (",
        ];
        const LOCKING: [&str; 4] = [" for update", " for share", " lock in share mode", " for no key update"];
        let has = |words: &[&str]| words.iter().any(|word| class.contains(word));
        if class.is_empty() {
            return Self::NotSaid;
        }
        if has(&WAITING) || has(&["pg_sleep", "pg_advisory", "waitfor"]) {
            return Self::AskedToWait;
        }
        match verb(class) {
            "select" | "with" | "table" if has(&LOCKING) => Self::LockingRead,
            "select" | "with" | "table" if has(&["count ( *", "count (*"]) => Self::Counting,
            "select" | "with" | "table" => Self::Read,
            "insert" | "update" | "delete" | "replace" => Self::Write,
            "commit" | "end" => Self::Commit,
            "alter" | "create" | "drop" | "truncate" | "rename" | "optimize" | "analyze" | "lock" => Self::Definition,
            _ => Self::Other,
        }
    }
}

/// The word that says what a statement does: of one that begins with `with`, the one behind its common table expressions.
fn verb(class: &str) -> &str {
    let first = class.split([' ', '(']).find(|word| !word.is_empty()).unwrap_or_default();
    if first != "with" {
        return first;
    }
    let mut depth = 0_usize;
    let main = class.split_ascii_whitespace().find(|word| {
        let is_main = depth == 0 && ["select", "table", "insert", "update", "delete", "replace"].contains(word);
        depth = (depth + word.matches('(').count()).saturating_sub(word.matches(')').count());
        is_main
    });
    main.unwrap_or(first)
}

#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) statement: Arc<str>,
    pub(crate) kind: Kind,
    lengths: Histogram<u32>,
    pub(crate) count: u64,
    pub(crate) sum_us: u64,
    pub(crate) max_us: u64,
    pub(crate) min_us: u64,
    /// Rows that all its statements examined.
    rows: u64,
    /// How many of its statements stalled; and the time that they lost, in microseconds.
    pub(crate) stalled: u64,
    pub(crate) lost_us: u64,
}

impl Class {
    fn new(statement: &str) -> Option<Self> {
        let lengths = Histogram::new(DIGITS).ok()?;
        let kind = Kind::of(statement);
        let (count, sum_us, max_us, min_us, rows, stalled, lost_us) = (0, 0, 0, u64::MAX, 0, 0, 0);
        Some(Self { statement: statement.into(), kind, lengths, count, sum_us, max_us, min_us, rows, stalled, lost_us })
    }

    fn record(&mut self, took_us: u64, count: u64, figures: &Figures) {
        // the histogram grows by itself: this cannot fail
        let _ = self.lengths.record_n(took_us, u32::try_from(count).unwrap_or(u32::MAX));
        self.count += count;
        self.sum_us = self.sum_us.saturating_add(took_us.saturating_mul(count));
        self.max_us = self.max_us.max(took_us);
        self.min_us = self.min_us.min(took_us);
        self.rows = self.rows.saturating_add(figures.rows_examined.unwrap_or(0));
    }

    pub(crate) fn rows_each(&self) -> u64 {
        self.rows / self.count.max(1)
    }

    /// The length, in microseconds and within 1 %, that a `share` of all lengths do not exceed.
    pub(crate) fn quantile_us(&self, share: f64) -> u64 {
        self.lengths.value_at_quantile(share).min(self.max_us).max(self.min_us.min(self.max_us))
    }

    /// The median of the lengths without the `stalled` longest ones.
    pub(crate) fn median_without_us(&self, stalled: u64) -> u64 {
        let rest = self.count.saturating_sub(stalled) as f64;
        self.quantile_us(rest / 2.0 / self.count.max(1) as f64)
    }

    /// The lengths below the last gap that ends at `us` or below. `is_gap`: whether two lengths are far apart; no length lies between them.
    pub(crate) fn below_gap(&self, us: u64, is_gap: impl Fn(u64, u64) -> bool) -> Option<Lower> {
        let (mut count, mut before, mut found) = (0, None, None);
        for it in self.lengths.iter_recorded() {
            let length = self.lengths.lowest_equivalent(it.value_iterated_to());
            if length > us {
                break;
            }
            if before.is_some_and(|before| is_gap(before, length)) {
                found = Some(count);
            }
            count += u64::from(it.count_at_value());
            before = Some(it.value_iterated_to());
        }
        let count = found?;
        Some(Lower { median_us: self.median_without_us(self.count.saturating_sub(count)), count })
    }
}

/// The lower one of two groups of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lower {
    pub(crate) median_us: u64,
    pub(crate) count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Classes {
    names: sql::Classes,
    ids: HashMap<Arc<str>, usize>,
    all: Vec<Class>,
    /// The class for all statements that came when there were too many classes.
    others: Option<usize>,
}

impl Classes {
    /// The number of the statement's class, in which it is counted.
    pub(crate) fn record(&mut self, sql: &str, dialect: sql::Dialect, took_us: u64, figures: &Figures) -> usize {
        self.record_n(sql, dialect, took_us, 1, figures)
    }

    /// The same, `count` times.
    pub(crate) fn record_n(
        &mut self,
        sql: &str,
        dialect: sql::Dialect,
        took_us: u64,
        count: u64,
        figures: &Figures,
    ) -> usize {
        let name = cut(self.names.of(sql, dialect), CLASS_BYTES);
        let id = match (self.ids.get(name).copied(), self.others) {
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => {
                let is_last = self.all.len() + 1 == MOST_CLASSES;
                let name = if is_last { "(statements of further classes)" } else { name };
                let id = self.all.len();
                if let Some(class) = Class::new(name) {
                    self.ids.insert(Arc::clone(&class.statement), id);
                    self.all.push(class);
                    self.others = is_last.then_some(id);
                }
                id
            }
        };
        if let Some(class) = self.all.get_mut(id) {
            class.record(took_us, count, figures);
        }
        id
    }

    /// The number of a class in which something was counted before.
    pub(crate) fn id_of(&mut self, sql: &str, dialect: sql::Dialect) -> Option<usize> {
        let name = cut(self.names.of(sql, dialect), CLASS_BYTES);
        self.ids.get(name).copied().or(self.others)
    }

    pub(crate) fn get(&self, id: usize) -> Option<&Class> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: usize) -> Option<&mut Class> {
        self.all.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Class> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::Dialect;

    #[test]
    fn a_statement_is_known_by_its_words() {
        let kind = |sql| Kind::of(sql::Classes::default().of(sql, Dialect::Mysql));
        assert_eq!(kind("SELECT c FROM sbtest1 WHERE id=1"), Kind::Read);
        assert_eq!(kind("(SELECT 1) UNION (SELECT 2)"), Kind::Read);
        assert_eq!(kind("SELECT c FROM sbtest1 WHERE id=1 FOR UPDATE"), Kind::LockingRead);
        assert_eq!(kind("SELECT COUNT(*) FROM sbtest1"), Kind::Counting);
        assert_eq!(kind("DO SLEEP(5)"), Kind::AskedToWait);
        assert_eq!(kind("select get_lock('x', 10)"), Kind::AskedToWait);
        assert_eq!(kind("/* x */ UPDATE t SET a=1"), Kind::Write);
        assert_eq!(kind("commit"), Kind::Commit);
        assert_eq!(kind("ALTER TABLE t ENGINE=InnoDB"), Kind::Definition);
        assert_eq!(kind("CALL pay(7)"), Kind::Other);
        assert_eq!(kind("WITH c AS (SELECT id FROM t) UPDATE t JOIN c USING (id) SET a=1"), Kind::Write);
        assert_eq!(kind("WITH RECURSIVE c (n) AS (SELECT 1 UNION SELECT n FROM c) SELECT * FROM c"), Kind::Read);
        assert_eq!(kind(""), Kind::NotSaid);
    }

    #[test]
    fn further_classes_are_one_and_nothing_is_lost() {
        let mut classes = Classes::default();
        for number in 0..3000_u64 {
            classes.record(&format!("select c{number} from t"), Dialect::Mysql, number, &Figures::default());
        }
        assert_eq!(classes.iter().count(), MOST_CLASSES);
        assert_eq!(classes.iter().map(|class| class.count).sum::<u64>(), 3000);
        assert_eq!(classes.iter().map(|class| class.sum_us).sum::<u64>(), 2999 * 1500);
    }

    #[test]
    fn the_median_leaves_the_longest_out() {
        let mut classes = Classes::default();
        for took in (1..=100).chain([500_000; 20]) {
            classes.record("select 1", Dialect::Mysql, took, &Figures::default());
        }
        let class = classes.get(0).expect("a class");
        assert_eq!(
            (class.median_without_us(20), class.median_without_us(0), class.quantile_us(0.99)),
            (50, 60, 500_000)
        );
    }
}
