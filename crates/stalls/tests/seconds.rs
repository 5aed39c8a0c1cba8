// SPDX-License-Identifier: Apache-2.0
//! Slow logs whose clock shows seconds: the line `SET timestamp` of old releases of MariaDB, and of MySQL up to 5.6, is the statement's end; in MariaDB of
//! today it is the begin.

use logs::open_timed;
use stalls::{Asked, Explained, MOST_STATEMENT_BYTES, explain};

const END_S: i64 = 1_763_765_036;

/// Three connections that waited since different times and were released together.
fn log(of: impl Fn(usize) -> String) -> String {
    let entry = |(connection, took): (usize, &str)| {
        let head = of(connection);
        format!(
            "{head}# Query_time: {took}  Lock_time: 0.000001  Rows_sent: 1  Rows_examined: 1\nSET timestamp={END_S};\n\
             SELECT c FROM t WHERE id = 5;\n"
        )
    };
    let time = "# Time: 251121 22:43:56\n".to_owned();
    time + &["3.200000", "5.100000", "7.400000"].into_iter().enumerate().map(entry).collect::<String>()
}

fn found(text: &str) -> Explained {
    let mut log = open_timed(text.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    explain(&mut log, &Asked { least_us: 20_000, ..Asked::default() }).expect("reads")
}

/// How many victims each stall has, and how long it is, in milliseconds.
fn stalls(text: &str) -> Vec<(u64, u64)> {
    found(text).stalls.iter().map(|it| (it.victim_count, it.length_us / 1000)).collect()
}

/// A log of this release: second, connection, and time of each statement in milliseconds.
fn of_mariadb(version: &str, entries: &[(i64, &str, u64)]) -> String {
    let head = format!(
        "/usr/sbin/mysqld, Version: {version}-MariaDB (MariaDB Server). started with:\nTcp port: 3306  Unix socket: s.sock\n\
         Time                 Id Command    Argument\n"
    );
    let entry = |(second, connection, ms): &(i64, &str, u64)| {
        format!(
            "# User@Host: a[a] @ b []\n# Thread_id: {connection}  Schema: shop  QC_hit: No\n# Query_time: {}.{:03}000  Lock_time: 0.000001  Rows_sent: 1  Rows_examined: 1\n\
             SET timestamp={};\nSELECT c FROM t WHERE id = 5;\n",
            ms / 1000,
            ms % 1000,
            END_S + second
        )
    };
    head + &entries.iter().map(entry).collect::<String>()
}

#[test]
fn statements_that_ended_in_one_second_are_one_stall() {
    let head = "/usr/sbin/mysqld, Version: 10.2.11-MariaDB (MariaDB Server). started with:\nTcp port: 3306  Unix socket: s.sock\n\
                Time                 Id Command    Argument\n"
        .to_owned();
    let mariadb = head + &log(|id| format!("# User@Host: a[a] @ b []\n# Thread_id: {id}  Schema: shop  QC_hit: No\n"));
    let mysql_56 = log(|id| format!("# User@Host: a[a] @ b []  Id:     {id}\n"));
    for text in [mariadb, mysql_56] {
        let found = found(&text);
        let stalls = found.stalls.iter().map(|it| (it.victim_count, it.started_us, it.length_us));
        assert_eq!(stalls.collect::<Vec<_>>(), [(3, Some(END_S * 1_000_000 - 7_400_000), 7_400_000)], "{text}");
    }
}

/// XtraDB under `backoff`: all four connections wait until one second, and again until the next one.
#[test]
fn stalls_of_neighbouring_seconds_are_not_one_and_no_longer_than_a_statement() {
    let of_second =
        |second| ["1", "2", "3", "4"].map(|id| (second, id, 860 + 10 * (4 - id.parse::<u64>().expect("a number"))));
    let entries = [of_second(0), of_second(1), of_second(2)].concat();
    assert_eq!(stalls(&of_mariadb("10.1.23", &entries)), [(4, 890); 3]);
    // a connection is in one stall at a time, also where several stalls end within one second
    let often: Vec<(i64, &str, u64)> = (0..9).flat_map(|_| ["1", "2", "3", "4"].map(|id| (0, id, 100))).collect();
    assert_eq!(stalls(&of_mariadb("10.1.23", &often)), [(4, 100); 9]);
}

/// The begins are in two seconds: one at the end of its second, the other at the beginning of the next.
#[test]
fn where_the_log_tells_the_begin_the_end_is_known_to_a_second() {
    let entries = [(0, "1", 600), (1, "2", 600), (1, "3", 595)];
    assert_eq!(stalls(&of_mariadb("10.11.19", &entries)), [(3, 600)]);
    let apart = [(0, "1", 600), (2, "2", 600), (2, "1", 600)];
    assert_eq!(stalls(&of_mariadb("10.11.19", &apart)), [(1, 600), (2, 600)]);
}
