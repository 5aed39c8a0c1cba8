// SPDX-License-Identifier: Apache-2.0
//! Wait events of performance_schema, if they are on: they are read, never switched on. The wait events of idle connections are left out.

use super::asking::{Asking, Row};
use ::stalls::watch::{Says, Session};

const CONSUMERS: &str = "SELECT NAME, ENABLED FROM performance_schema.setup_consumers \
                         WHERE NAME IN ('events_waits_current', 'thread_instrumentation', 'global_instrumentation')";
/// Wait events that have not ended, the outer ones first.
const WAITS: &str = "SELECT t.PROCESSLIST_ID, w.EVENT_NAME, w.OPERATION FROM performance_schema.events_waits_current w \
                     JOIN performance_schema.threads t ON t.THREAD_ID = w.THREAD_ID \
                     WHERE w.END_EVENT_ID IS NULL AND w.EVENT_NAME <> 'idle' AND w.EVENT_NAME NOT LIKE 'wait/io/socket/%' \
                     AND t.PROCESSLIST_ID IS NOT NULL ORDER BY w.EVENT_ID";
const WHAT: &str = "the server's own wait events";

/// Adds to each session the meaning of its innermost wait event.
pub(super) fn add(asking: &mut Asking<'_>, sessions: &mut [Session]) {
    if !are_on(asking) {
        return;
    }
    for row in asking.rows(WHAT, WAITS).unwrap_or_default() {
        let Some(connection) = row.number(0) else { continue };
        if let Some(session) = sessions.iter_mut().find(|it| it.connection == connection) {
            tell(session, &row);
        }
    }
}

/// Whether wait events are on; the server is asked once.
fn are_on(asking: &mut Asking<'_>) -> bool {
    if let Some(are_on) = asking.memory.waits_are_on {
        return are_on;
    }
    let rows = asking.rows(WHAT, CONSUMERS);
    let Some(rows) = rows else {
        asking.memory.waits_are_on = (!asking.may_answer_later).then_some(false);
        return false;
    };
    let are_on = rows.len() == 3 && rows.iter().all(|row| row.text(1) == "YES");
    asking.memory.waits_are_on = Some(are_on);
    if !are_on {
        let why =
            "performance_schema's consumer events_waits_current is off, and nothing is switched on here".to_owned();
        let remedy = "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_waits_current', if you want it: it costs the server some percent";
        asking.missing(WHAT, why, Some(remedy));
    }
    are_on
}

fn tell(session: &mut Session, row: &Row) {
    let name = row.text(1);
    if matches!(session.says, Says::Idle | Says::Background) {
        return;
    }
    if session.says == Says::Busy {
        session.says = says(name, row.text(2));
    }
    name.clone_into(&mut session.words);
}

/// The meaning of the names of instruments: MySQL 5.6 to 9.7, MariaDB 10.1 to 11.8.
fn says(name: &str, operation: &str) -> Says {
    let is = |beginnings: &[&str]| beginnings.iter().any(|it| name.starts_with(it));
    if is(&["wait/lock/metadata/", "wait/lock/table/", "wait/synch/cond/sql/MDL_context"]) {
        Says::MetadataLock
    } else if is(&["wait/io/file/innodb/", "wait/io/file/sql/binlog"]) {
        if operation == "read" { Says::DiskRead } else { Says::Sync }
    } else if is(&["wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/sxlock/", "wait/synch/prlock/"]) {
        Says::Mutex
    } else {
        // for example `wait/io/table/sql/handler` with nothing within it: the engine waits, and does not report for what
        Says::Busy
    }
}

#[cfg(test)]
mod tests {
    use super::super::asking::Memory;
    use super::*;

    #[test]
    fn names_of_instruments() {
        for (name, operation, expected) in [
            ("wait/lock/metadata/sql/mdl", "metadata lock", Says::MetadataLock),
            ("wait/io/file/innodb/innodb_data_file", "read", Says::DiskRead),
            ("wait/io/file/innodb/innodb_data_file", "sync", Says::Sync),
            ("wait/io/file/innodb/innodb_log_file", "sync", Says::Sync),
            ("wait/synch/mutex/innodb/buf_pool_mutex", "lock", Says::Mutex),
            ("wait/synch/sxlock/innodb/index_tree_rw_lock", "shared_lock", Says::Mutex),
            ("wait/io/table/sql/handler", "fetch", Says::Busy),
        ] {
            assert_eq!(says(name, operation), expected, "{name}");
        }
    }

    #[test]
    fn the_innermost_wait_is_told_of_who_is_busy_and_what_is_off_stays_off() {
        let session = |connection, says| {
            let (thread, words, age_us, blocked_by) = (Some(1), String::new(), None, Vec::new());
            let perhaps_blocked_by = Vec::new();
            Session { connection, thread, says, words, statement: None, age_us, blocked_by, perhaps_blocked_by }
        };
        let told = |enabled: &'static str| {
            let mut memory = Memory::default();
            let mut server = move |sql: &str| {
                assert!(!sql.contains("UPDATE"), "{sql}");
                let row = |words: &[&str]| words.iter().map(|it| Some((*it).to_owned())).collect::<Vec<_>>();
                let rows = match sql {
                    CONSUMERS => ["events_waits_current", "thread_instrumentation", "global_instrumentation"]
                        .map(|name| row(&[name, if name.starts_with("events") { enabled } else { "YES" }]))
                        .to_vec(),
                    _ => vec![
                        row(&["7", "wait/io/table/sql/handler", "fetch"]),
                        row(&["7", "wait/synch/mutex/innodb/buf_pool_mutex", "lock"]),
                        row(&["8", "wait/io/file/innodb/innodb_log_file", "sync"]),
                    ],
                };
                Ok::<_, String>(rows)
            };
            let mut sessions = vec![session(7, Says::Busy), session(8, Says::Idle), session(9, Says::RowLock)];
            for _ in 0..2 {
                let mut asking = Asking::new(&mut server, &mut memory);
                add(&mut asking, &mut sessions);
            }
            let says: Vec<Says> = sessions.iter().map(|it| it.says).collect();
            (says, sessions[0].words.clone(), memory.missing.len(), memory.statements)
        };
        let mutex = "wait/synch/mutex/innodb/buf_pool_mutex".to_owned();
        assert_eq!(told("YES"), (vec![Says::Mutex, Says::Idle, Says::RowLock], mutex, 0, 3));
        assert_eq!(told("NO"), (vec![Says::Busy, Says::Idle, Says::RowLock], String::new(), 1, 1));
    }
}
