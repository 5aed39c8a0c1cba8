// SPDX-License-Identifier: Apache-2.0
//! Slow logs whose clock shows seconds: the line `SET timestamp` of old releases of MariaDB, and of MySQL up to 5.6, is the statement's end.

use logs::open_timed;
use stalls::{Asked, MOST_STATEMENT_BYTES, explain};

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

#[test]
fn statements_that_ended_in_one_second_are_one_stall() {
    let head = "/usr/sbin/mysqld, Version: 10.2.11-MariaDB (MariaDB Server). started with:\nTcp port: 3306  Unix socket: s.sock\n\
                Time                 Id Command    Argument\n"
        .to_owned();
    let mariadb = head + &log(|id| format!("# User@Host: a[a] @ b []\n# Thread_id: {id}  Schema: shop  QC_hit: No\n"));
    let mysql_56 = log(|id| format!("# User@Host: a[a] @ b []  Id:     {id}\n"));
    for text in [mariadb, mysql_56] {
        let mut log = open_timed(text.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
        let found = explain(&mut log, &Asked { least_us: 20_000, ..Asked::default() }).expect("reads");
        let stalls = found.stalls.iter().map(|it| (it.victim_count, it.started_us, it.length_us));
        assert_eq!(stalls.collect::<Vec<_>>(), [(3, Some(END_S * 1_000_000 - 7_400_000), 7_400_000)], "{text}");
    }
}
