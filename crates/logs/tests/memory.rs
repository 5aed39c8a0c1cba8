// SPDX-License-Identifier: Apache-2.0
//! A log is read in constant memory, however long it is, and what was left out is counted by reason.
#![allow(clippy::unwrap_used)]

use logs::{Format, Log, Recorded, open};
use std::fmt::Write as _;
use testkit::{Counting, Generated, most_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn log(entry: Write, entries: u64) -> Log<impl std::io::BufRead> {
    open(Generated::of(entries, entry)).unwrap().unwrap()
}

type Write = fn(u64, &mut String);

/// One statement each, of fifty connections.
const ENTRIES: [(Format, Write); 5] = [
    (Format::MysqlSlow, |number, text| {
        let (id, ms) = (number % 50, number % 1000);
        let _ = write!(
            text,
            "# Time: 2026-11-21T22:43:55.{ms:03}000Z\n# User@Host: me[me] @ localhost []  Id: {id}\n\
             # Query_time: 0.000107  Lock_time: 0.0\nuse shop;\nSET timestamp=1795301373;\nSELECT {number};\n"
        );
    }),
    (Format::MysqlGeneral, |number, text| {
        let (id, ms) = (number % 50, number % 1000);
        let time = format!("2026-11-21T22:43:55.{ms:03}000Z");
        let _ = write!(
            text,
            "{time}\t{id:5} Connect\tme@localhost on shop using Socket\n{time}\t{id:5} Query\tSELECT {number},\n  2\n{time}\t{id:5} Quit\t\n"
        );
    }),
    (Format::PostgresqlStderr, |number, text| {
        let (id, ms) = (number % 50, number % 1000);
        let _ = write!(
            text,
            "2026-11-21 22:51:56.{ms:03} UTC [{id}] LOG:  connection authorized: user=me database=shop\n\
             2026-11-21 22:51:56.{ms:03} UTC [{id}] LOG:  duration: 0.006 ms  bind s1: SELECT $1\n\
             2026-11-21 22:51:56.{ms:03} UTC [{id}] LOG:  duration: 2.000 ms  execute s1: SELECT $1\n\t FROM t\n\
             2026-11-21 22:51:56.{ms:03} UTC [{id}] DETAIL:  parameters: $1 = '{number}'\n"
        );
    }),
    (Format::PostgresqlCsv, |number, text| {
        let (id, ms) = (number % 50, number % 1000);
        let rest = ",,,,,,,,\"psql\",\"client backend\",,0";
        let _ = writeln!(
            text,
            "2026-11-21 22:51:56.{ms:03} UTC,\"me\",\"shop\",{id},\"[local]\",6a.7,1,\"idle\",2026-11-21 22:51:55 UTC,3/1,0,LOG,00000,\
             \"duration: 1.000 ms  statement: SELECT \"\"a\"\",\n {number}\",{rest}"
        );
    }),
    (Format::PostgresqlJson, |number, text| {
        let (id, ms) = (number % 50, number % 1000);
        let _ = writeln!(
            text,
            "{{\"timestamp\":\"2026-11-21 22:51:56.{ms:03} UTC\",\"dbname\":\"shop\",\"pid\":{id},\"error_severity\":\"LOG\",\
             \"message\":\"statement: SELECT {number}\"}}"
        );
    }),
];

const SHORT: u64 = 3_000;
const LONG: u64 = 12_000;
const GIVE_BYTES: isize = 64 << 10;

#[test]
fn a_log_four_times_as_long_takes_no_more_memory() {
    for (format, entry) in ENTRIES {
        let taken = |entries| {
            let (bytes, (found, kind)) = most_bytes(|| {
                let log = log(entry, entries);
                let kind = log.format();
                (log.map(Result::unwrap).filter(|entry| entry.database.as_deref() == Some("shop")).count(), kind)
            });
            assert_eq!((kind, found as u64), (format, entries));
            bytes
        };
        let (short, long) = (taken(SHORT), taken(LONG));
        assert!(long < short + GIVE_BYTES, "{format:?}: {long} bytes for {LONG} entries, {short} for {SHORT}");
        // the same log as a whole: the count would see it
        let (whole, recorded) = most_bytes(|| Recorded::of(log(entry, LONG)).unwrap());
        assert_eq!(recorded.statements(), LONG);
        assert!(whole > short + 10 * GIVE_BYTES, "{format:?}: {whole} bytes for a whole log, {short} for a short one");
    }
}

#[test]
fn a_statement_without_an_end_takes_no_more_memory_than_the_longest_one() {
    const MEBIBYTE: usize = 1 << 20;
    let entry: Write = |number, text| match number {
        0 => text.push_str(
            "2026-11-21T22:43:55.000000Z\t    1 Query\tSELECT 1\n2026-11-21T22:43:56.000000Z\t    1 Query\tSELECT '",
        ),
        // first in one line, then in many
        1..100 => text.push_str(&"x".repeat(MEBIBYTE)),
        _ => text.push_str(&format!("{}\n", "x".repeat(1023)).repeat(1024)),
    };
    let (bytes, skipped) = most_bytes(|| {
        let mut log = log(entry, 200);
        assert_eq!(log.by_ref().map(Result::unwrap).count(), 1);
        log.skipped().clone()
    });
    let skip = skipped.not_understood["a statement longer than 64 MiB"];
    assert_eq!((skip.count, skip.first_line, skipped.not_understood_count()), (1, 2, 1));
    // a line, the text that it is added to, and what a growing text takes meanwhile
    assert!(bytes < (350 * MEBIBYTE).cast_signed(), "{bytes} bytes for 200 MiB");
}

#[test]
fn what_is_left_out_is_counted_by_reason() {
    let text = "2026-11-21 22:51:56.629 UTC [1] LOG:  connection authorized: user=me database=shop\n\
        what\n2026-11-21 22:51:57.002 UTC [1] ERROR:  no\n2026-11-21 22:51:57.002 UTC [1] STATEMENT:  SELECT no\n\
        2026-11-21 22:51:57.100 UTC [1] LOG:  duration: 0.006 ms  parse s1: SELECT $1\n\
        2026-11-21 22:51:57.110 UTC [1] LOG:  duration: 0.006 ms  bind s1: SELECT $1\n\
        2026-11-21 22:51:57.120 UTC [1] LOG:  duration: 20.000 ms  execute s1: SELECT $1, $2\n\
        2026-11-21 22:51:57.120 UTC [1] DETAIL:  parameters: $1 = '1'\n\
        2026-11-21 22:51:57.120 UTC [1] LOG:  checkpoint starting: time\nwhat\n\
        2026-11-21 22:51:57.130 UTC [1] LOG:  statement: SELECT 1\n";
    let mut log = open(text.as_bytes()).unwrap().unwrap();
    assert_eq!(log.by_ref().count(), 1);
    let skips = |by_reason: &std::collections::BTreeMap<&'static str, logs::Skip>| {
        by_reason.iter().map(|(reason, skip)| (*reason, skip.count, skip.first_line)).collect::<Vec<_>>()
    };
    let skipped = log.skipped();
    let not_understood =
        [("a line without a severity (LOG, ERROR, ...)", 2, 2), ("parameters that do not fit the statement", 1, 7)];
    assert_eq!(skips(&skipped.not_understood), not_understood);
    let no_statement = [
        ("ERROR", 1, 3),
        ("STATEMENT", 1, 4),
        ("a connection", 1, 1),
        ("a message without a statement", 1, 9),
        ("parse or bind of a prepared statement", 2, 5),
    ];
    assert_eq!(skips(&skipped.no_statement), no_statement);
    assert_eq!(skipped.lines[1], (7, "no value for $2".to_owned()));

    let general = "261121 22:49:33\t     3 Connect\tme@localhost on shop\n\t\t     3 Prepare\tSELECT ?\n\t\t     3 Execute\tSELECT 7\n\
        \t\t     3 Ping\t\n261121 99:49\t     3 Quit\t\n\t\t     4 Ping\t\n";
    let mut log = open(general.as_bytes()).unwrap().unwrap();
    assert_eq!(log.by_ref().count(), 1);
    assert_eq!(
        skips(&log.skipped().no_statement),
        [("Connect", 1, 1), ("Ping", 2, 4), ("Prepare", 1, 2), ("Quit", 1, 5)]
    );
    assert_eq!(skips(&log.skipped().not_understood), [("no time", 1, 5)]);
}
