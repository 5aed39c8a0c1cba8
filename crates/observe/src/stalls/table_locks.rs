// SPDX-License-Identifier: Apache-2.0
//! MySQL, MariaDB: which connections hold the locks of tables that others wait for; where the server does not tell it, why, and what would help.

use super::asking::{Asking, Source, told_of};
use ::stalls::watch::{Says, Session};

/// The session that waits for a metadata lock, and a session that has one on the same object which does not go with it: of table locks, the shared ones
/// go with each other (sql/mdl.cc, `MDL_object_lock::m_granted_incompatible`, of MySQL 5.7 to 9.7). With MariaDB, the instrument
/// `wait/lock/metadata/sql/mdl` is off by default, and there are no rows.
const METADATA_LOCKS: [Source; 1] = [Source {
    sql: "SELECT rt.PROCESSLIST_ID, bt.PROCESSLIST_ID FROM performance_schema.metadata_locks r \
          JOIN performance_schema.metadata_locks b ON b.OBJECT_TYPE = r.OBJECT_TYPE AND b.OBJECT_SCHEMA <=> r.OBJECT_SCHEMA \
          AND b.OBJECT_NAME <=> r.OBJECT_NAME AND b.LOCK_STATUS = 'GRANTED' AND b.OWNER_THREAD_ID <> r.OWNER_THREAD_ID \
          AND NOT (r.LOCK_TYPE IN ('SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_WRITE', 'SHARED_WRITE_LOW_PRIO', 'SHARED_UPGRADABLE', 'INTENTION_EXCLUSIVE') \
          AND b.LOCK_TYPE IN ('SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_WRITE', 'SHARED_WRITE_LOW_PRIO', 'SHARED_UPGRADABLE', 'INTENTION_EXCLUSIVE')) \
          JOIN performance_schema.threads rt ON rt.THREAD_ID = r.OWNER_THREAD_ID \
          JOIN performance_schema.threads bt ON bt.THREAD_ID = b.OWNER_THREAD_ID WHERE r.LOCK_STATUS = 'PENDING'",
    is_enough: true,
}];

/// The session that waits until others have closed tables (`FLUSH TABLES`), and a session that has such a table open: a statement that began before, or
/// `LOCK TABLES ... READ`. A statement that is no `FLUSH` waits for the tables of its own alone. Where no exact time of a statement is kept (consumer
/// `events_statements_current`), whole seconds decide.
const OPEN_TABLES: [Source; 1] = [Source {
    sql: "SELECT DISTINCT r.PROCESSLIST_ID, b.PROCESSLIST_ID FROM performance_schema.threads r \
          JOIN performance_schema.table_handles h ON h.OWNER_THREAD_ID <> r.THREAD_ID \
          JOIN performance_schema.threads b ON b.THREAD_ID = h.OWNER_THREAD_ID AND b.PROCESSLIST_ID <> CONNECTION_ID() \
          LEFT JOIN performance_schema.events_statements_current rs ON rs.THREAD_ID = r.THREAD_ID AND rs.NESTING_EVENT_LEVEL = 0 \
          LEFT JOIN performance_schema.events_statements_current bs ON bs.THREAD_ID = b.THREAD_ID AND bs.NESTING_EVENT_LEVEL = 0 \
          WHERE r.PROCESSLIST_STATE = 'Waiting for table flush' AND IF(UPPER(r.PROCESSLIST_INFO) LIKE 'FLUSH%', \
          IF(rs.TIMER_START IS NULL OR bs.TIMER_START IS NULL, b.PROCESSLIST_TIME > r.PROCESSLIST_TIME, bs.TIMER_START < rs.TIMER_START) \
          AND (UPPER(r.PROCESSLIST_INFO) REGEXP 'TABLES?( +WITH +READ +LOCK)? *;? *$' OR LOCATE(h.OBJECT_NAME, r.PROCESSLIST_INFO) > 0), \
          EXISTS (SELECT 1 FROM performance_schema.metadata_locks m WHERE m.OWNER_THREAD_ID = r.THREAD_ID AND m.OBJECT_TYPE = 'TABLE' \
          AND m.OBJECT_SCHEMA = h.OBJECT_SCHEMA AND m.OBJECT_NAME = h.OBJECT_NAME))",
    is_enough: true,
}];

const FLUSH: &str = "Waiting for table flush";
const WHAT: &str = "which connections hold the locks of tables that others wait for";
/// No row: the instrument is unknown, or performance_schema is off.
const INSTRUMENT: &str = "SELECT @@performance_schema, \
                          (SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl')";

/// Tells the sessions that wait for locks of tables for whom they wait.
pub(super) fn tell(asking: &mut Asking<'_>, sessions: &mut [Session]) {
    if !sessions.iter().any(|it| it.says == Says::MetadataLock) {
        return;
    }
    let holds = |session: &mut Session, holder: Option<u64>| {
        if session.says == Says::MetadataLock {
            session.blocked_by.extend(holder);
        }
    };
    let remedy = "performance_schema.metadata_locks of MySQL 5.7 and of MariaDB 10.5, or later";
    let locks = asking.first_of(WHAT, &METADATA_LOCKS, remedy);
    let has_table = locks.is_some();
    told_of(locks, sessions, holds);
    if has_table && sessions.iter().any(|it| it.words == FLUSH) {
        let what = "which connections have the tables open that others wait to flush";
        told_of(asking.first_of(what, &OPEN_TABLES, remedy), sessions, holds);
    }
    if has_table && sessions.iter().any(is_unexplained) {
        ask_for_the_instrument(asking);
    }
    guess(sessions);
}

/// Whether it waits for a lock that the server should name, and has not.
fn is_unexplained(session: &Session) -> bool {
    let names = ["metadata lock", "backup lock", "global read lock", "commit lock", "table flush"];
    let is_named = names.iter().any(|it| session.words.contains(it));
    session.says == Says::MetadataLock && session.blocked_by.is_empty() && is_named
}

/// Asks once why the table of locks has no row. A wait behind another one in the queue has none either, where all is on.
fn ask_for_the_instrument(asking: &mut Asking<'_>) {
    if std::mem::replace(&mut asking.memory.has_asked_for_instrument, true) {
        return;
    }
    let Some(rows) = asking.rows(WHAT, INSTRUMENT) else { return };
    let Some(row) = rows.first() else { return };
    let is_on = row.number(0) == Some(1) || row.text(0).eq_ignore_ascii_case("ON");
    if !is_on {
        let remedy = "performance_schema=ON and performance-schema-instrument='wait/lock/metadata/sql/mdl=ON' at the server's start";
        asking.missing(WHAT, "performance_schema is off".to_owned(), Some(remedy));
    } else if row.text(1) != "YES" {
        let why = "performance_schema's instrument wait/lock/metadata/sql/mdl is off, and nothing is switched on here";
        let remedy = "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl', if you want it: \
                      locks that were taken before stay unknown";
        asking.missing(WHAT, why.to_owned(), Some(remedy));
    }
}

/// Whom a `FLUSH` probably waits for, where the server names nobody: the statement that has run the longest, if it began before and does not wait for a lock.
fn guess(sessions: &mut [Session]) {
    let is_at_work = |it: &&Session| {
        !matches!(it.says, Says::Idle | Says::Background | Says::MetadataLock | Says::RowLock) && it.age_us.is_some()
    };
    let Some(oldest) = sessions.iter().filter(is_at_work).max_by_key(|it| it.age_us) else { return };
    let (connection, age_us) = (oldest.connection, oldest.age_us);
    for session in sessions.iter_mut().filter(|it| it.says == Says::MetadataLock && it.blocked_by.is_empty()) {
        let is_flush = session.statement.as_ref().is_some_and(|it| starts_with_flush(it));
        if is_flush && session.age_us.is_some() && session.age_us < age_us {
            session.perhaps_blocked_by.push(connection);
        }
    }
}

fn starts_with_flush(statement: &str) -> bool {
    statement.trim_start().get(..5).is_some_and(|word| word.eq_ignore_ascii_case("FLUSH"))
}

#[cfg(test)]
#[path = "table_locks_tests.rs"]
mod tests;
