// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's messages about waits for locks, with `log_lock_waits` on (`ProcSleep` in `src/backend/storage/lmgr/proc.c`, PostgreSQL 9 to 18): when
//! a wait of `deadlock_timeout` or longer goes on, and when it is over, the server writes a message. The entry of the statement may follow. Where none
//! follows, because the statement failed or durations are not logged, the wait itself is an entry.

use crate::clock::Moment;
use crate::entry::Entry;
use crate::figures::{Figures, decimal};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The most waits that are kept, and the most bytes of their texts. A log may have more sessions than fit into memory.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 8 << 20;
/// A message has three digits after the decimal point, as the statement's own duration has.
const ROUNDED_US: u64 = 1;

/// The waits whose statements have not ended yet. Each is an entry with the wait's begin and time, and the text that its message has.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    /// By the line of its message.
    waits: BTreeMap<u64, Wait>,
    /// The lines of each session's waits, the oldest first.
    lines: HashMap<String, VecDeque<u64>>,
    bytes: usize,
}

#[derive(Debug)]
struct Wait {
    entry: Entry,
    goes_on: bool,
}

impl Wait {
    fn us(&self) -> u64 {
        self.entry.figures.took_us.unwrap_or(0)
    }

    /// Whether most of it was in the time of the statement that began at this moment. Times of whole seconds may be wrong by one.
    fn is_since(&self, began: Moment) -> bool {
        let middle = self.entry.at.us.saturating_add_unsigned(self.us() / 2);
        middle.saturating_add_unsigned(self.entry.figures.step_us) >= began.us
    }
}

impl LockWaits {
    /// Keeps a wait. A message that a wait goes on gives way to the next one about the same wait. Returns the oldest ones, for which there is no room any more.
    pub(crate) fn keep(&mut self, entry: Entry, goes_on: bool) -> Vec<Entry> {
        let lines = self.lines.entry(entry.session.clone()).or_default();
        let last = lines.back().copied().filter(|line| self.waits.get(line).is_some_and(|wait| wait.goes_on));
        if let Some(before) = last.and_then(|line| self.waits.remove(&line)) {
            lines.pop_back();
            self.bytes -= before.entry.sql.len();
        }
        lines.push_back(entry.line);
        self.bytes += entry.sql.len();
        self.waits.insert(entry.line, Wait { entry, goes_on });
        let mut surplus = Vec::new();
        while self.waits.len() > MOST || self.bytes > MOST_BYTES {
            let Some((_, Wait { entry: oldest, .. })) = self.waits.pop_first() else { break };
            self.bytes -= oldest.sql.len();
            let is_last = self.lines.get_mut(&oldest.session).is_none_or(|lines| {
                lines.pop_front();
                lines.is_empty()
            });
            if is_last {
                self.lines.remove(&oldest.session);
            }
            surplus.push(oldest);
        }
        surplus
    }

    /// The session's statement has ended, with `figures.took_us`: the waits since its begin belong to it, unless it took less time than they did. Returns the
    /// other waits, which are entries of their own, and the text of its own waits.
    pub(crate) fn end(
        &mut self,
        session: &str,
        began: Option<Moment>,
        figures: &mut Figures,
    ) -> (Vec<Entry>, Option<String>) {
        let all = self.take(session);
        let is_own = |wait: &Wait| began.is_some_and(|began| wait.is_since(began));
        let (own, mut others): (Vec<Wait>, Vec<Wait>) = all.into_iter().partition(is_own);
        let sum = |of: fn(&Figures) -> Option<u64>| {
            own.iter().filter_map(|wait| of(&wait.entry.figures)).fold(0, u64::saturating_add)
        };
        let (rows, waited) = (sum(|it| it.row_lock_us), sum(|it| it.lock_us));
        let fits = figures.took_us.is_some_and(|took| waited <= took.saturating_add(ROUNDED_US));
        let mut text = None;
        if fits && !own.is_empty() {
            figures.row_lock_us = Some(rows);
            figures.lock_us = Some(waited);
            figures.has_wait_message = true;
            text = own.into_iter().map(|wait| wait.entry.sql).find(|sql| !sql.is_empty());
        } else {
            others.extend(own);
        }
        (others.into_iter().map(|wait| wait.entry).collect(), text)
    }

    /// The session's statement is over, and no duration of it follows. `failed_at`: the moment of its error; a wait that went on ended then.
    pub(crate) fn over(&mut self, session: &str, failed_at: Option<Moment>) -> Vec<Entry> {
        let entry = |Wait { mut entry, goes_on }: Wait| {
            let until = failed_at.filter(|_| goes_on).and_then(|at| u64::try_from(at.us - entry.at.us).ok());
            if let Some(us) = until.filter(|us| Some(*us) > entry.figures.took_us) {
                let Figures { took_us, lock_us, row_lock_us, .. } = &mut entry.figures;
                *row_lock_us = row_lock_us.map(|rows| if rows > 0 { us } else { 0 });
                (*took_us, *lock_us) = (Some(us), Some(us));
            }
            entry
        };
        self.take(session).into_iter().map(entry).collect()
    }

    /// All that are left, in the log's order.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Entry> {
        std::mem::take(self).waits.into_values().map(|wait| wait.entry)
    }

    fn take(&mut self, session: &str) -> Vec<Wait> {
        let lines = self.lines.remove(session).unwrap_or_default();
        let waits: Vec<Wait> = lines.iter().filter_map(|line| self.waits.remove(line)).collect();
        self.bytes -= waits.iter().map(|wait| wait.entry.sql.len()).sum::<usize>();
        waits
    }
}

/// What a message tells of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard<'a> {
    pub(crate) process: &'a str,
    verb: &'a str,
    lock: Lock,
    pub(crate) us: u64,
}

impl Heard<'_> {
    /// Whether another message about the same wait, or the error of its statement, follows: "still waiting for", "detected deadlock while waiting for",
    /// "avoided deadlock for".
    pub(crate) fn goes_on(&self) -> bool {
        !matches!(self.verb, "acquired" | "failed")
    }

    /// `None`: the statement asked for nothing but that lock.
    pub(crate) fn figures(&self) -> Option<Figures> {
        let us = Some(self.us);
        let row_lock_us = match self.lock {
            Lock::Row => us,
            Lock::Table => Some(0),
            Lock::AskedFor => return None,
        };
        Some(Figures { took_us: us, lock_us: us, row_lock_us, has_wait_message: true, ..Figures::default() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// A wait for a row is a wait for the transaction that holds the row, or for the turn at the row.
    Row,
    /// The lock of a table, or of another object that a statement uses.
    Table,
    /// An advisory lock: the statement asks for nothing else.
    AskedFor,
}

/// `process 81 acquired ShareLock on transaction 740 after 1500.400 ms`: the outcome, the kind of lock, and the time in us.
pub(crate) fn heard(text: &str) -> Option<Heard<'_>> {
    let rest = text.strip_prefix("process ")?;
    let (process, rest) = rest.split_once(' ')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let (what, after) = rest.rsplit_once(" after ")?;
    // for a statement that is being parsed, a position follows: " at character 15"
    let us = decimal(after.split_once(" ms")?.0, 3)?;
    let (verb, lock) = what.split_once("Lock on ")?;
    let verb = verb.split(' ').next().filter(|_| is_number)?;
    Some(Heard { process, verb, lock: kind(lock), us })
}

/// The kind, by the words of `DescribeLockTag` in `src/backend/storage/lmgr/lmgr.c`.
fn kind(lock: &str) -> Lock {
    let begins = |words: &[&str]| words.iter().any(|word| lock.starts_with(word));
    if begins(&["transaction ", "tuple ", "speculative token "]) {
        Lock::Row
    } else if begins(&["advisory lock ", "user lock "]) {
        Lock::AskedFor
    } else {
        Lock::Table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_the_server() {
        let said = |text| heard(text).map(|it| (it.verb, it.lock, it.us));
        assert_eq!(
            said("process 81 acquired ShareLock on transaction 740 after 1500.400 ms"),
            Some(("acquired", Lock::Row, 1_500_400))
        );
        assert_eq!(
            said(
                "process 81 still waiting for AccessShareLock on relation 16384 of database 5 after 1000.085 ms at character 15"
            ),
            Some(("still", Lock::Table, 1_000_085))
        );
        let tuple = "process 81 acquired ExclusiveLock on tuple (0,1) of relation 16384 of database 5 after 2.000 ms";
        assert_eq!(said(tuple), Some(("acquired", Lock::Row, 2000)));
        let advisory = "process 81 acquired ExclusiveLock on advisory lock [5,0,7,1] after 2.000 ms";
        assert_eq!(said(advisory), Some(("acquired", Lock::AskedFor, 2000)));
        assert_eq!(said("process 81 was terminated after 2.000 ms"), None);
        assert_eq!(said("duration: 2.000 ms  statement: SELECT 1"), None);
    }

    /// A wait for a row that began at this moment, in milliseconds, and took so long.
    fn wait(line: u64, session: &str, at_ms: i64, ms: u64) -> Entry {
        let us = Some(ms * 1000);
        Entry {
            session: session.to_owned(),
            at: Moment { us: at_ms * 1000 },
            line,
            sql: "SELECT 1".to_owned(),
            database: None,
            offset: 0,
            figures: Figures { took_us: us, lock_us: us, row_lock_us: us, step_us: 1000, ..Figures::default() },
            head: None,
        }
    }

    /// The waits for rows of a statement of this session, and the entries that are given beside it.
    fn ended(waits: &mut LockWaits, session: &str, began_ms: i64, took_ms: u64) -> (Option<u64>, usize) {
        let mut figures = Figures { took_us: Some(took_ms * 1000), ..Figures::default() };
        let (others, _) = waits.end(session, Some(Moment { us: began_ms * 1000 }), &mut figures);
        (figures.row_lock_us, others.len())
    }

    #[test]
    fn a_wait_is_that_of_the_statement_in_whose_time_it_was() {
        let mut waits = LockWaits::default();
        waits.keep(wait(1, "81", 500, 1500), false);
        assert_eq!(ended(&mut waits, "82", 450, 1600), (None, 0));
        assert_eq!(ended(&mut waits, "81", 450, 1600), (Some(1_500_000), 0));
        assert_eq!(ended(&mut waits, "81", 450, 1600), (None, 0), "it is told once");
        waits.keep(wait(2, "81", 500, 1500), false);
        assert_eq!(ended(&mut waits, "81", 450, 900), (None, 1), "it was longer than the statement");
        waits.keep(wait(3, "81", 500, 1500), false);
        waits.keep(wait(4, "81", 3000, 1000), false);
        assert_eq!(ended(&mut waits, "81", 2990, 5000), (Some(1_000_000), 1), "the first was before the statement");
        waits.keep(wait(5, "81", 500, 1500), false);
        assert_eq!((waits.over("81", None).len(), waits.over("81", None).len()), (1, 0));
        assert_eq!(waits.bytes, 0);
    }

    #[test]
    fn a_wait_that_goes_on_ends_with_the_error_or_with_its_own_next_message() {
        let mut waits = LockWaits::default();
        waits.keep(wait(1, "81", 500, 1000), true);
        waits.keep(wait(2, "81", 500, 1700), false);
        assert_eq!(waits.take_all().map(|it| it.line).collect::<Vec<_>>(), [2]);
        waits.keep(wait(3, "81", 500, 1000), true);
        let [failed] = &waits.over("81", Some(Moment { us: 3_500_000 }))[..] else { panic!("one") };
        assert_eq!((failed.figures.took_us, failed.figures.row_lock_us), (Some(3_000_000), Some(3_000_000)));
    }

    #[test]
    fn the_oldest_gives_way_where_there_are_too_many() {
        let mut waits = LockWaits::default();
        for line in 0..MOST as u64 {
            assert_eq!(waits.keep(wait(line, &(line / 2).to_string(), 0, 1), false), []);
        }
        let surplus = waits.keep(wait(MOST as u64, "new", 0, 1), false);
        assert_eq!(surplus.iter().map(|it| it.line).collect::<Vec<_>>(), [0]);
        assert_eq!(waits.over("0", None).iter().map(|it| it.line).collect::<Vec<_>>(), [1]);
    }
}
