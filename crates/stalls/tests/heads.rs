// SPDX-License-Identifier: Apache-2.0
//! One slow log of several servers: each entry is judged by the head before it. And heads that do not say whose server it is.

use logs::open_timed;
use stalls::{Asked, Cause, Explained, MOST_STATEMENT_BYTES, explain};

fn found(text: &str, wait_free: Option<u64>) -> Explained {
    let mut log = open_timed(text.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    explain(&mut log, &Asked { least_us: 20_000, wait_free, ..Asked::default() }).expect("reads")
}

fn head(version: &str) -> String {
    format!(
        "/usr/sbin/mysqld, Version: {version}. started with:\nTcp port: 3306  Unix socket: s.sock\n\
         Time                 Id Command    Argument\n"
    )
}

const OLD_MARIADB: &str = "10.2.11-MariaDB (MariaDB Server)";
const NEW_MARIADB: &str = "11.4.5-MariaDB (MariaDB Server)";
const MYSQL: &str = "9.7.4 (MySQL Community Server - GPL)";

/// Quick statements, and two that waited 600 ms for a lock.
fn of_mariadb(first_s: i64) -> String {
    let entry = |second: i64, took: f64, lock: f64| {
        format!(
            "# User@Host: a[a] @ b []\n# Thread_id: 7  Schema: shop  QC_hit: No\n\
             # Query_time: {took:.6}  Lock_time: {lock:.6}  Rows_sent: 0  Rows_examined: 1\n\
             SET timestamp={};\nUPDATE t SET a=2 WHERE id=1;\n",
            1_763_765_036 + first_s + second
        )
    };
    (0..8).map(|second| entry(second, 0.0001, 0.0)).collect::<String>()
        + &entry(10, 0.6, 0.599)
        + &entry(20, 0.6, 0.599)
}

/// Quick statements, and four that ended together after 336.4 ms, in which they read one page each.
fn of_mysql() -> String {
    let entry = |at: &str, connection: usize, took: f64| {
        format!(
            "# Time: 2025-11-21T22:{at}Z\n# User@Host: a[a] @ b []  Id: {connection}\n\
             # Query_time: {took:.6}  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1763765036;\nSELECT c FROM t WHERE id=5;\n"
        )
    };
    (10..30).map(|second| entry(&format!("42:{second}.000000"), 9, 0.000_07)).collect::<String>()
        + &(1..=4).map(|id| entry(&format!("43:56.50{id}000"), id, 0.336_44)).collect::<String>()
}

fn causes(found: &Explained) -> Vec<Cause> {
    found.stalls.iter().map(|it| it.cause).collect()
}

#[test]
fn after_an_upgrade_the_stalls_before_it_are_those_of_the_old_server() {
    let log = head(OLD_MARIADB) + &of_mariadb(0) + &head(OLD_MARIADB) + &head(NEW_MARIADB) + &of_mariadb(1000);
    let both = found(&log, None);
    let (row, table) = (Cause::RowLock, Cause::MetadataLock);
    assert_eq!(causes(&both), [row, row, table, table], "{both:#?}");
    assert_eq!(both.source.server.as_deref(), Some("mariadb 10.2.11, then mariadb 11.4.5"));
    assert!(both.notes[0].starts_with("the server changed: mariadb 10.2.11, then mariadb 11.4.5"), "{:?}", both.notes);
    let alone = found(&(head(OLD_MARIADB) + &of_mariadb(0)), None);
    assert!(!alone.notes.iter().any(|note| note.contains("changed")), "{:?}", alone.notes);
}

#[test]
fn a_log_of_two_makers_is_judged_part_by_part() {
    let log = head(OLD_MARIADB) + &of_mariadb(0) + &head(MYSQL) + &of_mysql();
    let both = found(&log, Some(125));
    assert_eq!(causes(&both), [Cause::RowLock, Cause::RowLock, Cause::Unknown], "{both:#?}");
    assert!(both.notes.iter().any(|note| note.contains("--wait-free is not compared")), "{:?}", both.notes);
}

#[test]
fn a_server_that_does_not_say_whose_it_is_has_no_backoff() {
    // each of the four took 62 tries
    let of = |version: &str| found(&(head(version) + &of_mysql()), Some(4 * 62));
    assert_eq!(causes(&of("8.0.29-21 (Percona Server (GPL), Release 21)")), [Cause::FreeListBackoff]);
    for (version, server) in [
        ("9.7.4-2 ((Debian))", "mysql 9.7.4"),
        ("8.0.36-0ubuntu0.22.04.1 ((Ubuntu))", "mysql 8.0.36"),
        (MYSQL, "mysql 9.7.4"),
    ] {
        let found = of(version);
        assert_eq!((causes(&found), found.source.server.as_deref()), (vec![Cause::Unknown], Some(server)));
        let is_told = found.notes.iter().any(|note| note.contains(&format!("\"Version: {version}\"")));
        assert_eq!(is_told, version != MYSQL, "{:?}", found.notes);
    }
}
