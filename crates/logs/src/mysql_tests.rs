// SPDX-License-Identifier: Apache-2.0
use crate::{Format, Log, Recorded};

fn slow(text: &str) -> Recorded {
    Recorded::of(Log::of(Format::MysqlSlow, text.as_bytes())).expect("reads")
}

fn general(text: &str) -> Recorded {
    Recorded::of(Log::of(Format::MysqlGeneral, text.as_bytes())).expect("reads")
}

fn shown(recorded: &Recorded) -> Vec<Vec<(u64, u64, String)>> {
    let each = |it: &crate::Statement| (it.line, it.at_us, it.sql.clone());
    recorded.sessions.iter().map(|session| session.statements.iter().map(each).collect()).collect()
}

#[test]
fn the_slow_log_of_mariadb() {
    let text = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:\n\
        Tcp port: 27187  Unix socket: /run/x\nTime\t\t    Id Command\tArgument\n\
        # Time: 261121 22:49:33\n# User@Host: me[me] @ localhost []\n# Thread_id: 3  Schema: shop  QC_hit: No\n\
        # Query_time: 0.000107  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0\nuse `shop`;\n\
        SET timestamp=1795301373;\nSELECT 1;\n\
        # User@Host: me[me] @  [127.0.0.1]\n# Thread_id: 4  Schema: \
          QC_hit: No\n# Query_time: 2.5  Lock_time: 0\nSET timestamp=1795301373;\nSELECT 2\n  FROM t;\n\
        # User@Host: me[me] @ localhost []\n# Thread_id: 3  Schema: shop  QC_hit: No\n# Query_time: 0.1\n\
        SET timestamp=1795301375;\n# administrator command: Quit;\n";
    let found = slow(text);
    // both began in one second, and are spread over it
    let second = vec![(15, 500_000, "SELECT 2\n  FROM t".to_owned())];
    assert_eq!(shown(&found), [vec![(10, 0, "SELECT 1".to_owned())], second]);
    assert_eq!((found.skipped.not_understood_count(), found.resolution_us), (0, 1_000_000));
    assert_eq!(found.sessions[0].statements[0].database.as_deref(), Some("shop"));
}

/// MySQL writes `use` where the log's last database is another one, whoever sent the statement before.
#[test]
fn the_database_of_mysqls_slow_log_goes_on_to_other_connections() {
    let entry = |id: u32, database: &str, sql: &str| {
        format!(
            "# User@Host: a[a] @ b []  Id: {id}\n# Query_time: 0.1  Lock_time: 0\n{database}SET timestamp=1763765036;\n{sql};\n"
        )
    };
    let head = "/usr/sbin/mysqld, Version: 8.0.39 (MySQL). started with:\n";
    let text = [
        entry(10, "use shop;\n", "SELECT 1"),
        entry(11, "", "SELECT 2"),
        entry(12, "use crm;\n", "SELECT 3"),
        entry(10, "", "SELECT 4"),
        head.to_owned() + &entry(10, "", "SELECT 5"),
    ]
    .concat();
    let log = Log::of(Format::MysqlSlow, text.as_bytes());
    let found: Vec<_> = log.map(|entry| entry.expect("reads").database).collect();
    let databases: Vec<_> = found.iter().map(|it| it.as_deref().unwrap_or("none")).collect();
    assert_eq!(databases, ["shop", "shop", "crm", "crm", "none"]);
}

/// A command that is no statement ends the statement of another connection.
#[test]
fn commands_of_replication_are_no_part_of_a_statement() {
    let found = general(
        "2026-11-21T22:49:33.000000Z\t   10 Query\tSELECT 1\n\
         2026-11-21T22:49:33.100000Z\t   11 Binlog Dump GTID\tLog: 'a' Pos: 4\n\
         2026-11-21T22:49:33.200000Z\t   11 Register Replica\t\n\
         2026-11-21T22:49:33.300000Z\t   12 Reset Connection\t\n",
    );
    assert_eq!(shown(&found), [vec![(1, 0, "SELECT 1".to_owned())]]);
}

fn times(text: &str) -> Vec<(String, i64, u64)> {
    let log = Log::of(Format::MysqlSlow, text.as_bytes());
    let entries = log.map(|entry| entry.expect("reads"));
    entries.map(|it| (it.sql, it.at.us - 1_763_765_036_000_000, it.figures.step_us)).collect()
}

#[test]
fn a_time_in_seconds_is_the_end_in_old_releases_and_the_begin_in_those_of_today() {
    let entry = |before: &str, sql: &str| {
        format!("{before}# Query_time: 2.5  Lock_time: 0\nSET timestamp=1763765036;\n{sql};\n")
    };
    let mariadb = "# User@Host: a[a] @ b []\n# Thread_id: 7  Schema: shop  QC_hit: No\n";
    let mysql = "# User@Host: a[a] @ b []  Id: 7\n";
    let text = [
        entry(mariadb, "SELECT 1"),
        entry(&format!("# Time: 2025-11-21T22:43:xx.500000Z\n{mysql}"), "SELECT 2"),
        entry(&format!("# Time: 251121 22:43:56\n{mysql}"), "SELECT 3"),
        entry(mysql, "SELECT 4"),
    ];
    let seconds = |sql: &str, at_us| (sql.to_owned(), at_us, 1_000_000);
    let ends = [seconds("SELECT 1", -2_500_000), seconds("SELECT 2", 0)];
    let old = [seconds("SELECT 3", -2_500_000), seconds("SELECT 4", -2_500_000)];
    let head = |version: &str| {
        format!(
            "/usr/sbin/mysqld, Version: {version} (x). started with:\nTcp port: 3306  Unix socket: s.sock\n\
             Time                 Id Command    Argument\n"
        )
    };
    assert_eq!(times(&(head("10.11.5-MariaDB") + &text.concat())), [ends, old].concat());
    for head in [head("10.11.19-MariaDB"), String::new()] {
        assert_eq!(times(&(head + &text[0])), [seconds("SELECT 1", 0)]);
    }
    let without = "# Time: 251121 22:43:56\n# User@Host: a[a] @ b []  Id: 7\n# Query_time: 2.5\nSELECT 5;\n";
    assert_eq!(times(without), [seconds("SELECT 5", -2_500_000)]);
}

#[test]
fn a_line_that_sets_what_the_statement_depends_on_is_no_statement() {
    let entry = |set: &str, sql: &str| {
        format!(
            "# Time: 2025-11-21T22:43:56.500000Z\n# User@Host: a[a] @ b []  Id: 7\n# Query_time: 0.5\n{set}\n{sql};\n"
        )
    };
    let text = entry("SET last_insert_id=5,insert_id=7,timestamp=1763765036;", "INSERT INTO t VALUES (1)")
        + &entry("SET timestamp=1763765036;", "SET timestamp=5")
        + &entry("SET timestamp=1763765036;", "SET insert_id=7,autocommit=0");
    let found: Vec<String> = times(&text).into_iter().map(|(sql, ..)| sql).collect();
    assert_eq!(found, ["INSERT INTO t VALUES (1)", "SET timestamp=5", "SET insert_id=7,autocommit=0"]);
    assert_eq!(slow(&text).skipped.not_understood_count(), 0);
    assert_eq!(super::timestamp("SET insert_id=7;"), None, "a server always adds the timestamp");
}

#[test]
fn the_slow_log_of_mysql_has_the_end_in_microseconds() {
    let text = "# Time: 2026-11-21T22:43:55.500000Z\n# User@Host: me[me] @ localhost []  Id:    10\n\
        # Query_time: 0.250000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1\nuse shop;\nSET timestamp=1763765035;\nSELECT 1;\n\
        # Time: 2026-11-21T22:43:56.000000Z\n# User@Host: me[me] @ localhost []  Id:    10\n\
        # Query_time: 0.000000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1763765036;\nSELECT 2;\n";
    let found = slow(text);
    assert_eq!(shown(&found), [vec![(6, 0, "SELECT 1".to_owned()), (11, 750_000, "SELECT 2".to_owned())]]);
    assert_eq!(found.resolution_us, 1);
}

#[test]
fn the_general_logs() {
    let mariadb = "Time\t\t    Id Command\tArgument\n\
        261121 22:49:33\t     3 Connect\tme@localhost on shop using Socket\n\t\t     3 Query\tSELECT 1\tAS a,\n\t2 AS b\n\
        \t\t     3 Prepare\tSELECT ?\n\t\t     3 Bulk_execute\tSELECT 7\n261121 22:49:35\t    12 Query\tSELECT 8\n\t\t    12 Quit\t\n";
    let found = general(mariadb);
    let first = vec![(3, 0, "SELECT 1\tAS a,\n\t2 AS b".to_owned()), (6, 500_000, "SELECT 7".to_owned())];
    assert_eq!(shown(&found), [first, vec![(7, 2_000_000, "SELECT 8".to_owned())]]);
    let mysql = "2026-11-21T22:43:55.100000Z\t   10 Query\tSELECT 1\n2026-11-21T22:43:55.400000Z\t   10 Init DB\tshop\n\
        2026-11-21T22:43:55.600000Z\t   10 Query\tSELECT 2\n";
    let found = general(mysql);
    assert_eq!(shown(&found), [vec![(1, 0, "SELECT 1".to_owned()), (3, 500_000, "SELECT 2".to_owned())]]);
    assert_eq!(found.sessions[0].statements[1].database.as_deref(), Some("shop"));
}

#[test]
fn a_database_is_chosen_by_use_however_it_is_written() {
    let text = "261121 22:49:33\t     3 Query\tUse shop\n\t\t     3 Query\tSELECT 1\n\t\t     3 Query\t/* app */ USE`a``b` ;\n\t\t     3 Query\tSELECT 2\n\t\t     3 Query\tUSELESS 1\n\t\t     3 Query\tSELECT 3\n";
    let found = general(text);
    let databases = found.sessions[0].statements.iter().map(|it| it.database.as_deref()).collect::<Vec<_>>();
    assert_eq!(databases, [None, Some("shop"), Some("shop"), Some("a`b"), Some("a`b"), Some("a`b")]);
}

#[test]
fn a_line_between_two_entries_is_left_out_and_belongs_to_no_statement() {
    let entry = |sql: &str| {
        format!("# User@Host: a[a] @ b []  Id: 7\n# Query_time: 0.1  Lock_time: 0\nSET timestamp=1763765036;\n{sql}\n")
    };
    let procedure = "CREATE PROCEDURE p() BEGIN\n SELECT 1;\n SELECT 2;\nEND;";
    let text = format!(
        "{}garbage \u{fffd}\n\n{}{}{}",
        entry("SELECT 1,\n2;"),
        entry("SELECT ';\n;';"),
        entry(procedure),
        entry("SELECT 3;")
    );
    let found = slow(&text);
    let texts: Vec<&str> = found.sessions[0].statements.iter().map(|it| it.sql.as_str()).collect();
    assert_eq!(texts, ["SELECT 1,\n2", "SELECT ';\n;'", procedure.trim_end_matches(';'), "SELECT 3"]);
    assert_eq!(found.skipped.lines, [(6, "a line after the end of a statement".to_owned())]);
    assert_eq!(found.skipped.bytes, "garbage \u{fffd}\n".len() as u64);
}

#[test]
fn what_is_not_understood_has_its_line() {
    let found = slow("what\n# Time: never\n# User@Host: a[a] @ b []\nSELECT 1;\n");
    let lines: Vec<u64> = found.skipped.lines.iter().map(|(line, _)| *line).collect();
    assert_eq!((lines, found.statements()), (vec![1, 2, 4], 0));
}
