// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's messages about waits for locks, with `log_lock_waits` on (`ProcSleep` in `src/backend/storage/lmgr/proc.c`, PostgreSQL 9 to 18): when
//! a wait of `deadlock_timeout` or longer is over, the server writes a message. The entry of the statement follows.

use crate::figures::{Figures, decimal};
use std::collections::HashMap;

/// Waits are remembered for at most this many sessions. A log may have more sessions than fit into memory.
const REMEMBERED: usize = 50_000;
/// A message has three digits after the decimal point, as the statement's own duration has.
const ROUNDED_US: u64 = 1;

/// For each session, its waits since its last statement ended.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    of_session: HashMap<String, Waited>,
}

/// In microseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    rows: u64,
    tables: u64,
}

impl LockWaits {
    /// Whether the text tells of a wait for a lock; a wait that is over is remembered.
    pub(crate) fn hear(&mut self, session: &str, text: &str) -> bool {
        let Some((verb, lock, us)) = wait(text) else { return false };
        // a waiting session has more messages: "still waiting for", "detected deadlock while waiting for"
        if verb == "acquired" && (self.of_session.len() < REMEMBERED || self.of_session.contains_key(session)) {
            let waited = self.of_session.entry(session.to_owned()).or_default();
            match lock {
                Lock::Row => waited.rows = waited.rows.saturating_add(us),
                Lock::Table => waited.tables = waited.tables.saturating_add(us),
                Lock::AskedFor => {}
            }
        }
        true
    }

    /// The session's statement has ended: the remembered waits belong to it, unless the statement took less time than they did.
    pub(crate) fn end(&mut self, session: &str, figures: &mut Figures) {
        let Some(Waited { rows, tables }) = self.of_session.remove(session) else { return };
        let waited = rows.saturating_add(tables);
        if figures.took_us.is_some_and(|took| waited <= took.saturating_add(ROUNDED_US)) {
            figures.row_lock_us = Some(rows);
            figures.lock_us = Some(waited);
        }
    }

    /// The session's statement failed, or a step ended that is no statement: the waits are forgotten.
    pub(crate) fn forget(&mut self, session: &str) {
        self.of_session.remove(session);
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
fn wait(text: &str) -> Option<(&str, Lock, u64)> {
    let rest = text.strip_prefix("process ")?;
    let (process, rest) = rest.split_once(' ')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let (what, after) = rest.rsplit_once(" after ")?;
    // for a statement that is being parsed, a position follows: " at character 15"
    let us = decimal(after.split_once(" ms")?.0, 3)?;
    let (verb, lock) = what.split_once("Lock on ")?;
    let verb = verb.split(' ').next().filter(|_| is_number)?;
    Some((verb, kind(lock), us))
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
        let said = |text| wait(text);
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

    #[test]
    fn a_wait_is_that_of_the_statement_that_ends_next_and_is_as_long() {
        let mut waits = LockWaits::default();
        let row = "process 81 acquired ShareLock on transaction 740 after 1500.400 ms";
        assert!(waits.hear("81", row));
        let ended = |waits: &mut LockWaits, session: &str, took_us| {
            let mut figures = Figures { took_us, ..Figures::default() };
            waits.end(session, &mut figures);
            (figures.row_lock_us, figures.lock_us)
        };
        assert_eq!(ended(&mut waits, "82", Some(2_000_000)), (None, None));
        assert_eq!(ended(&mut waits, "81", Some(1_600_000)), (Some(1_500_400), Some(1_500_400)));
        assert_eq!(ended(&mut waits, "81", Some(1_600_000)), (None, None), "it is told once");
        waits.hear("81", row);
        assert_eq!(ended(&mut waits, "81", Some(900_000)), (None, None), "it was another statement's");
        waits.hear("81", row);
        waits.forget("81");
        assert_eq!(ended(&mut waits, "81", Some(1_600_000)), (None, None));
    }
}
