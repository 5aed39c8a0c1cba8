// SPDX-License-Identifier: Apache-2.0
//! Logs of all statements: waits for locks that the log states are told, also where the class has no quick statement. And what a log says of the waits
//! that it cannot tell.

use logs::open_timed;
use stalls::{Asked, Cause, Explained, MOST_STATEMENT_BYTES, explain};
use std::fmt::Write as _;

fn found(text: &str) -> Explained {
    let mut log = open_timed(text.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    explain(&mut log, &Asked { least_us: 20_000, ..Asked::default() }).expect("reads")
}

/// Cause, victims, and what was lost, in milliseconds.
fn stalls(found: &Explained) -> Vec<(Cause, u64, u64)> {
    found.stalls.iter().map(|it| (it.cause, it.victim_count, it.lost_query_us / 1000)).collect()
}

fn head(version: &str) -> String {
    format!(
        "/usr/sbin/mariadbd, Version: {version}-MariaDB (MariaDB Server). started with:\nTcp port: 3306  Unix socket: s.sock\n\
         Time                 Id Command    Argument\n"
    )
}

/// An entry of MariaDB: its second, time and `Lock_time` in seconds, text.
fn mariadb(second: u64, took: f64, lock: f64, sql: &str) -> String {
    format!(
        "# User@Host: a[a] @ b []\n# Thread_id: 7  Schema: shop  QC_hit: No\n\
         # Query_time: {took:.6}  Lock_time: {lock:.6}  Rows_sent: 0  Rows_examined: 1\n# Rows_affected: 1  Bytes_sent: 52\n\
         SET timestamp={};\n{sql};\n",
        1_763_765_036 + second
    )
}

const QUICK: &str = "SELECT 1";

/// `FLUSH TABLES WITH READ LOCK` holds up an update, `LOCK TABLES` an insert; neither class has another statement.
#[test]
fn a_wait_for_a_table_that_the_slow_log_states_is_a_stall_of_a_class_without_a_quick_statement() {
    let locked = mariadb(10, 0.602, 0.601, "UPDATE t SET a=2 WHERE id=1")
        + &mariadb(20, 0.501, 0.5005, "INSERT INTO t VALUES (3)");
    let full = head("10.11.19") + &mariadb(0, 0.0001, 0.0, QUICK) + &locked;
    let all = found(&full);
    assert_eq!(stalls(&all), [(Cause::MetadataLock, 1, 602), (Cause::MetadataLock, 1, 501)]);
    assert_eq!(all.account.attributed_query_us, 602_000 + 501_000);
    // where the log has slow statements alone, it does not show whether such waits are usual
    let slow = found(&(head("10.11.19") + &locked));
    assert_eq!(stalls(&slow), []);
    assert!(slow.notes.iter().any(|note| note.contains("1101.5 ms of waits for locks")), "{:#?}", slow.notes);
}

/// One quick statement among many that waited: the median of the class is a wait.
#[test]
fn where_most_statements_of_a_class_waited_their_waits_are_not_its_usual_time() {
    let mut log = head("10.11.19") + &mariadb(0, 0.0001, 0.0, "UPDATE t SET a=2 WHERE id=1");
    for second in 1..4 {
        log += &mariadb(second * 5, 0.3, 0.299, "UPDATE t SET a=2 WHERE id=1");
    }
    assert_eq!(stalls(&found(&log)), [(Cause::MetadataLock, 1, 299); 3]);
}

/// `Lock_time` of MariaDB before 10.6 has waits for rows, too (measured: 10.1.23 and 10.2.11).
#[test]
fn the_lock_time_of_an_old_mariadb_has_waits_for_rows() {
    let log = |version| {
        head(version) + &mariadb(0, 0.0001, 0.0, QUICK) + &mariadb(10, 0.547, 0.543, "UPDATE t SET a=2 WHERE id=1")
    };
    assert_eq!(stalls(&found(&log("10.1.23"))), [(Cause::RowLock, 1, 547)]);
    assert_eq!(stalls(&found(&log("10.6.21"))), [(Cause::MetadataLock, 1, 547)]);
}

/// Updates of one row, and a query that waited a moment in the same second (measured on 10.1.23: a look at INNODB_TRX).
#[test]
fn a_burst_is_judged_by_what_most_of_its_time_was() {
    let of = |thread: u64, entry: String| entry.replace("Thread_id: 7", &format!("Thread_id: {thread}"));
    let update = |thread| of(thread, mariadb(10, 0.16, 0.1595, "UPDATE t SET a=2 WHERE id=1"));
    let log = |took: f64, updates: std::ops::Range<u64>| {
        let select = of(20, mariadb(10, took, took - 0.0005, "SELECT a FROM t WHERE id=1"));
        let usual = mariadb(0, 0.0001, 0.0, "UPDATE t SET a=2 WHERE id=1")
            + &mariadb(0, 0.0001, 0.0, "SELECT a FROM t WHERE id=1");
        head("10.1.23") + &usual.repeat(5) + &select + &updates.map(update).collect::<String>()
    };
    let causes = |text: &str| found(text).stalls.iter().map(|it| (it.cause, it.victim_count)).collect::<Vec<_>>();
    assert_eq!(causes(&log(0.021, 1..7)), [(Cause::RowLock, 7)]);
    assert_eq!(causes(&log(0.16, 1..4)), [(Cause::MetadataLock, 4)], "who reads waits for no row");
}

#[test]
fn a_wait_that_postgresql_logs_is_a_stall_of_a_class_without_a_quick_statement() {
    let log = "2026-11-21 22:51:50.120 UTC [28490] LOG:  duration: 0.110 ms  statement: SELECT 1\n\
        2026-11-21 22:51:57.120 UTC [28491] LOG:  process 28491 acquired ShareLock on transaction 740 after 1500.400 ms\n\
        2026-11-21 22:51:57.121 UTC [28491] LOG:  duration: 1501.000 ms  statement: UPDATE t SET a = 1\n\
        2026-11-21 22:52:57.120 UTC [28492] LOG:  process 28492 acquired AccessShareLock on relation 16384 of database 5 after 600.400 ms\n\
        2026-11-21 22:52:57.121 UTC [28492] LOG:  duration: 601.000 ms  statement: SELECT a FROM t\n";
    assert_eq!(stalls(&found(log)), [(Cause::RowLock, 1, 1501), (Cause::MetadataLock, 1, 601)]);
}

#[test]
fn reads_of_a_class_without_a_quick_statement_are_told_in_a_note() {
    let cold = "# Pages_accessed: 9000  Pages_read: 900  Pages_prefetched: 0  Pages_updated: 0  Old_rows_read: 0\n\
                # Pages_read_time: 700.0000  Engine_time: 790.0000\nSET timestamp";
    let entry = mariadb(10, 0.8, 0.0, "SELECT a FROM t").replace("SET timestamp", cold);
    let it = found(&(head("10.11.19") + &mariadb(0, 0.0001, 0.0, QUICK) + &entry));
    assert_eq!(stalls(&it), []);
    assert!(
        it.notes.iter().any(|note| note.contains("700.0 ms of reads from disk. They are in no stall")),
        "{:#?}",
        it.notes
    );
}

/// As the documentation says, such time is beside the account, also where the log has nothing else.
#[test]
fn what_asked_to_wait_is_its_own_work_also_in_a_log_of_slow_statements() {
    let log =
        head("10.11.19") + &mariadb(0, 3.0, 0.0, "SELECT SLEEP(3)") + &mariadb(10, 0.6, 0.0, "SELECT GET_LOCK('a', 1)");
    let it = found(&log);
    assert_eq!((stalls(&it), it.account.own_work_query_us), (vec![], 3_600_000));
}

fn waits_note(text: &str) -> Option<String> {
    found(text).notes.into_iter().find(|note| note.contains("waits of InnoDB"))
}

#[test]
fn which_waits_the_log_has_is_told_by_its_fields() {
    let plain = mariadb(0, 0.3, 0.0, QUICK);
    let note = waits_note(&(head("10.11.19") + &plain)).expect("a note");
    assert!(note.contains("log_slow_verbosity=innodb,query_plan,engine") && !note.contains("log_slow_extra"), "{note}");
    let engine = "# Pages_read_time: 0.0000  Engine_time: 299.0000\nSET timestamp";
    let note = waits_note(&(head("10.11.19") + &plain.replace("SET timestamp", engine))).expect("a note");
    assert!(note.contains("(Pages_read_time)") && !note.contains("log_slow_verbosity"), "{note}");
    let mysql = |more: &str| {
        format!(
            "# Time: 2026-11-26T22:14:37.028005Z\n# User@Host: w[w] @ localhost []  Id:    15\n\
             # Query_time: 0.512842  Lock_time: 0.000001 Rows_sent: 0  Rows_examined: 1{more}\nSET timestamp=1795731276;\nSELECT 1;\n"
        )
    };
    let note = waits_note(&mysql("")).expect("a note");
    assert!(note.contains("adds counts alone, and no waits"), "{note}");
    let extra = " Thread_id: 15 Errno: 0 Killed: 0 Bytes_received: 39 Bytes_sent: 52 Read_first: 0 Start: 2026-11-26T22:14:36Z End: 2026-11-26T22:14:37Z";
    let note = waits_note(&mysql(extra)).expect("a note");
    assert!(note.contains("log_slow_extra, which was on"), "{note}");
}

#[test]
fn a_version_that_nobody_looked_at_is_named() {
    let mut log = head("11.4.5") + &mariadb(0, 0.0001, 0.0, QUICK).repeat(20);
    let _ = write!(log, "{}", mariadb(10, 0.5, 0.0, QUICK));
    let it = found(&log);
    assert_eq!(it.source.server.as_deref(), Some("mariadb 11.4.5"));
    let against = &it.stalls[0].evidence.against;
    assert!(
        against.contains(&"nobody has looked at what mariadb 11.4.5 does about an empty free list".to_owned()),
        "{against:?}"
    );
    assert!(!against.iter().any(|it| it.contains("nothing says which server")), "{against:?}");
}
