// SPDX-License-Identifier: Apache-2.0
//! MySQL, MariaDB, Percona Server: the activity of their connections, and InnoDB's counters of free pages.
//!
//! The table with a connection's thread differs: `information_schema.PROCESSLIST.TID` in MariaDB and in Percona Server 5.6,
//! `performance_schema.threads.THREAD_OS_ID` in MySQL from 5.7 on. The server itself is asked which one it has.

use super::asking::{Asking, Row, Source, told_of};
use super::{account_rights, table_locks};
use crate::server::serves_a_client;
use ::stalls::watch::{Counters, Says, Session};
use std::time::{Duration, Instant};

/// MySQL's list of threads: the columns, and the connections.
macro_rules! threads {
    ($age:literal, $ages:literal) => {
        concat!(
            "SELECT PROCESSLIST_ID, THREAD_OS_ID, IF(",
            serves_a_client!(),
            ", PROCESSLIST_COMMAND, 'Daemon'), PROCESSLIST_STATE, LEFT(PROCESSLIST_INFO, 1024), CONNECTION_ID()",
            $age,
            " FROM performance_schema.threads t ",
            $ages,
            "WHERE PROCESSLIST_ID IS NOT NULL"
        )
    };
}

/// Columns: number, thread, command, state, statement, our own number; the time for which the statement has run, in milliseconds. Of statements within another one
/// (of a procedure), the outermost is the oldest.
const SESSIONS: [Source; 4] = [
    Source {
        sql: "SELECT ID, TID, COMMAND, STATE, LEFT(INFO, 1024), CONNECTION_ID(), TIME_MS FROM information_schema.PROCESSLIST",
        is_enough: true,
    },
    Source {
        sql: threads!(
            ", age / 1000000000",
            "LEFT JOIN (SELECT THREAD_ID, MAX(TIMER_WAIT) AS age FROM performance_schema.events_statements_current \
             WHERE END_EVENT_ID IS NULL GROUP BY THREAD_ID) s ON s.THREAD_ID = t.THREAD_ID "
        ),
        is_enough: true,
    },
    // who may read that table alone
    Source { sql: threads!("", ""), is_enough: true },
    Source {
        sql: "SELECT ID, NULL, COMMAND, STATE, LEFT(INFO, 1024), CONNECTION_ID() FROM information_schema.PROCESSLIST",
        is_enough: false,
    },
];

/// The session that waits for a lock of a row, and the session that holds it.
const LOCKS: [Source; 3] = [
    Source {
        sql: "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.INNODB_TRX r \
              LEFT JOIN information_schema.INNODB_LOCK_WAITS w ON w.requesting_trx_id = r.trx_id \
              LEFT JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id WHERE r.trx_state = 'LOCK WAIT'",
        is_enough: true,
    },
    Source {
        sql: "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.INNODB_TRX r \
              LEFT JOIN performance_schema.data_lock_waits w ON w.REQUESTING_ENGINE_TRANSACTION_ID = r.trx_id \
              LEFT JOIN information_schema.INNODB_TRX b ON b.trx_id = w.BLOCKING_ENGINE_TRANSACTION_ID WHERE r.trx_state = 'LOCK WAIT'",
        is_enough: true,
    },
    Source {
        sql: "SELECT trx_mysql_thread_id, NULL FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'",
        is_enough: true,
    },
];

const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN \
                        ('Innodb_buffer_pool_wait_free', 'Innodb_buffer_pool_pages_free', 'Innodb_buffer_pool_pages_LRU_flushed')";
const INSTANCES: &str =
    "SELECT POOL_ID, FREE_BUFFERS FROM information_schema.INNODB_BUFFER_POOL_STATS ORDER BY POOL_ID";
/// The question for the instances is expensive if it takes longer than [`DEAR`], this often in a row: a busy machine is late now and then.
const MOST_DEAR: u32 = 3;
const DEAR: Duration = Duration::from_millis(10);

pub(super) fn sessions(asking: &mut Asking<'_>, with_locks: bool) -> Option<Vec<Session>> {
    let rows =
        asking.first_of("sessions", &SESSIONS, "PROCESS on the whole server shows the connections of all accounts")?;
    let mut sessions: Vec<Session> = rows.iter().filter_map(session).collect();
    if with_locks {
        table_locks::tell(asking, &mut sessions);
        told_of(
            asking.first_of(account_rights::WHAT, &LOCKS, account_rights::REMEDY),
            &mut sessions,
            |session, holder| {
                session.says = Says::RowLock;
                "LOCK WAIT".clone_into(&mut session.words);
                session.blocked_by.extend(holder);
            },
        );
    }
    Some(sessions)
}

fn session(row: &Row) -> Option<Session> {
    let (connection, own) = (row.number(0)?, row.number(5)?);
    let (command, state) = (row.text(2), row.text(3));
    let says = if connection == own { Says::Background } else { says(command, state) };
    let thread = row.number(1).and_then(|thread| u32::try_from(thread).ok()).filter(|thread| *thread > 0);
    let statement = Some(row.text(4)).filter(|text| !text.is_empty()).map(str::to_owned);
    let age_us = row.text(6).parse::<f64>().ok().map(micros);
    let (words, blocked_by, perhaps_blocked_by) = (state.to_owned(), Vec::new(), Vec::new());
    Some(Session { connection, thread, says, words, statement, age_us, blocked_by, perhaps_blocked_by })
}

/// Microseconds from `TIME_MS`, which has fractions.
fn micros(ms: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded, and not negative")]
    let us = (ms * 1000.0).clamp(0.0, 1e15) as u64;
    us
}

/// A commit that waits for the answer of a replica (semi-sync) waits for no cause that is known here: it is busy, and its state is in the evidence.
///
/// The meaning of `COMMAND` and `STATE`: sql/mysqld.cc (`stage_*`) and sql/mdl.cc of MySQL 5.6 to 9.7 and MariaDB 10.1 to 11.8.
fn says(command: &str, state: &str) -> Says {
    match command {
        "Sleep" => return Says::Idle,
        "Query" | "Execute" | "Bulk_execute" | "Prepare" | "Init DB" | "Field List" | "Fetch" | "Close stmt"
        | "Reset stmt" | "Quit" => {}
        _ => return Says::Background,
    }
    let is = |beginnings: &[&str]| beginnings.iter().any(|it| state.starts_with(it));
    if is(&["User sleep", "User lock"]) {
        Says::AskedToWait
    } else if is(&["Writing to net", "Sending to client", "Reading from net", "Receiving from client"]) {
        Says::Idle
    } else if is(&["Waiting for row lock"]) {
        Says::RowLock
    } else if is(&["Waiting for"]) && (state.contains("metadata lock") || state.contains("level lock"))
        || is(&[
            "Waiting for global read lock",
            "Waiting for commit lock",
            "Waiting for backup lock",
            "Waiting for table flush",
            "Waiting for tables",
        ])
    {
        Says::MetadataLock
    } else if is(&["Waiting for prior transaction", "waiting for handler commit", "Commit", "starting commit"]) {
        Says::Sync
    } else {
        Says::Busy
    }
}

pub(super) fn counters(asking: &mut Asking<'_>) -> Option<Counters> {
    let rows = asking.rows("wait_free and free pages", COUNTERS)?;
    let of = |name: &str| rows.iter().find(|row| row.text(0).eq_ignore_ascii_case(name)).and_then(|row| row.number(1));
    Some(Counters {
        wait_free: of("Innodb_buffer_pool_wait_free"),
        pages_free: of("Innodb_buffer_pool_pages_free"),
        lru_flushed: of("Innodb_buffer_pool_pages_LRU_flushed"),
    })
}

/// Whether the algorithm in force is `backoff`.
pub(super) fn backoff(asking: &mut Asking<'_>) -> Option<bool> {
    let rows = asking.rows("innodb_empty_free_list_algorithm", "SELECT @@GLOBAL.innodb_empty_free_list_algorithm")?;
    rows.first().map(|row| row.text(0).eq_ignore_ascii_case("backoff"))
}

/// Free pages of each instance of the buffer pool. When the answers take long, the question is not sent again.
pub(super) fn free_by_instance(asking: &mut Asking<'_>) -> Option<Vec<u64>> {
    const WHAT: &str = "free pages of each instance of the buffer pool";
    if asking.memory.dear_instances >= MOST_DEAR {
        return None;
    }
    let began = Instant::now();
    let rows = asking.rows(WHAT, INSTANCES);
    let took = began.elapsed();
    asking.memory.dear_instances = match &rows {
        None if !asking.may_answer_later => MOST_DEAR,
        Some(_) if took > DEAR => asking.memory.dear_instances + 1,
        _ => 0,
    };
    if rows.is_some() && asking.memory.dear_instances == MOST_DEAR {
        let why = format!("the server took {} ms to tell them, and is not asked again", took.as_millis());
        asking.missing(WHAT, why, None);
    }
    rows?.iter().map(|row| row.number(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_servers_of_today() {
        assert_eq!(says("Sleep", ""), Says::Idle);
        assert_eq!(says("Query", "Waiting for table metadata lock"), Says::MetadataLock);
        assert_eq!(says("Query", "Waiting for table level lock"), Says::MetadataLock);
        assert_eq!(says("Query", "User sleep"), Says::AskedToWait);
        assert_eq!(says("Query", "User lock"), Says::AskedToWait);
        assert_eq!(says("Query", "statistics"), Says::Busy);
        assert_eq!(says("Query", "Waiting for semi-sync ACK from slave"), Says::Busy, "no disk of this host");
        assert_eq!(says("Binlog Dump", "Master has sent all binlog to slave"), Says::Background);
        assert_eq!(says("Daemon", "InnoDB purge worker"), Says::Background);
        assert_eq!(says("Execute", "Writing to net"), Says::Idle);
        assert_eq!(says("Bulk_execute", "Waiting for table metadata lock"), Says::MetadataLock, "MariaDB");
    }
}
