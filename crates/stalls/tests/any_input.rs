// SPDX-License-Identifier: Apache-2.0
//! No input makes it panic, what it says always adds up, and its memory has a bound.
#![allow(clippy::unwrap_used)]

use logs::open_timed;
use proptest::prelude::*;
use stalls::{Asked, Cause, Explained, MOST_STATEMENT_BYTES, explain};
use std::fmt::Write as _;
use std::io::BufRead;
use testkit::{Counting, Generated, most_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn explained(input: impl BufRead, with_values: bool) -> Option<Explained> {
    let asked = Asked { least_us: 20_000, with_values, ..Asked::default() };
    let mut log = open_timed(input, MOST_STATEMENT_BYTES).unwrap()?;
    Some(explain(&mut log, &asked).unwrap())
}

/// What holds for any log.
fn adds_up(found: &Explained, bytes: u64) {
    let account = &found.account;
    assert_eq!(account.lost_query_us, account.attributed_query_us + account.unexplained_query_us);
    assert_eq!(account.lost_query_us, account.by_cause.values().map(|it| it.lost_query_us).sum::<u64>());
    assert_eq!(account.lost_query_us, found.classes.iter().map(|class| class.lost_query_us).sum::<u64>());
    let unknown = account.by_cause.get(&Cause::Unknown).map_or(0, |it| it.lost_query_us);
    assert_eq!(account.unexplained_query_us, unknown);
    if found.stalls_left_out == 0 {
        assert_eq!(account.lost_query_us, found.stalls.iter().map(|stall| stall.lost_query_us).sum::<u64>());
    }
    for stall in &found.stalls {
        assert!(stall.victim_count > 0 && !stall.victims.is_empty());
        assert!((0.0..1.0).contains(&stall.confidence), "{}", stall.confidence);
        assert!(stall.victims.iter().all(|victim| victim.lost_query_us <= victim.length_us));
    }
    for class in &found.classes {
        assert!(class.median_us <= class.p95_us && class.p95_us <= class.max_us && class.victims <= class.count);
        assert!(class.max_us <= class.sum_us && class.sum_us <= class.max_us * class.count);
    }
    assert_eq!(found.cost.bytes, bytes);
    assert!(found.cost.skipped_bytes <= bytes);
    assert!(found.skipped.iter().all(|part| part.offset + part.bytes <= bytes), "{:?}", found.skipped);
    assert_eq!(found.cost.entries - found.cost.untimed_entries, found.classes.iter().map(|it| it.count).sum::<u64>());
}

/// Parts of which logs are made, whole and broken.
const PARTS: [&str; 24] = [
    "# Time: 2022-11-30T01:35:41.656535Z\n",
    "# Time: 221130  1:35:41\n",
    "# Time: soon\n",
    "# User@Host: me[me] @ localhost []  Id:    27\n",
    "# User@Host: me[me] @ localhost []\n# Thread_id: 3  Schema: shop  QC_hit: No\n",
    "# Query_time: 0.744840  Lock_time: 0.000003  Rows_sent: 1  Rows_examined: 1\n",
    "# Query_time: 9999999999.9 Lock_time: -1 Rows_sent: many\n",
    "#   InnoDB_IO_r_ops: 1  InnoDB_IO_r_bytes: 16384  InnoDB_IO_r_wait: 0.700009\n",
    "# Pages_read_time: 0.0096  Engine_time: 10.0257\n",
    "SET timestamp=1669772141;\n",
    "SET timestamp=99999999999999999999;\n",
    "SELECT c FROM sbtest1 WHERE id=1881701;\n",
    "COMMIT;\n",
    "UPDATE t SET a='\u{e9}\n# Time: ' WHERE b IN (1,-2,\n3);\n",
    "# administrator command: Quit;\n",
    "01:35:41.656535Z: 0.401592\n",
    "2026-11-21 22:51:57.002 UTC [28490] me@shopLOG:  duration: 2000.000 ms  statement: SELECT c\n\t FROM t\n",
    "2026-11-21 22:51:57.120 UTC [28491] LOG:  duration: 20.000 ms  execute s1: SELECT $1\n",
    "2026-11-21 22:51:57.120 UTC [28491] DETAIL:  parameters: $1 = 'it''s\n",
    "{\"timestamp\":\"2026-11-21 22:51:56.000 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"duration: 99.1 ms  statement: SELECT 1\"}\n",
    "/usr/sbin/mysqld, Version: 8.0.29-21 (Percona Server (GPL)). started with:\n",
    "\0\r\n",
    "\"",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn any_mixture_of_lines_is_read_as_far_as_it_goes(
        order in prop::collection::vec((0..PARTS.len(), any::<prop::sample::Index>(), 0..8_u8, any::<u8>()), 0..60),
        with_values: bool,
    ) {
        let mut bytes = Vec::new();
        for (part, cut, how, byte) in order {
            let part = PARTS[part].as_bytes();
            match how {
                // cut, interleaved with what comes next
                0 => bytes.extend(&part[..cut.index(part.len())]),
                // a byte that may be no UTF-8
                1 => {
                    let at = cut.index(part.len());
                    bytes.extend(part.iter().enumerate().map(|(index, it)| if index == at { byte } else { *it }));
                }
                _ => bytes.extend(part),
            }
        }
        if let Some(found) = explained(bytes.as_slice(), with_values) {
            adds_up(&found, bytes.len() as u64);
        }
    }

    #[test]
    fn any_bytes_behind_an_entry_are_read(tail in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut bytes = PARTS[0].as_bytes().to_vec();
        bytes.extend(tail);
        adds_up(&explained(bytes.as_slice(), false).unwrap(), bytes.len() as u64);
    }
}

const MEBIBYTE: isize = 1 << 20;

fn peak(entry: impl FnMut(u64, &mut String), entries: u64) -> (isize, Explained) {
    most_bytes(|| {
        let input = Generated::of(entries, entry);
        explained(input, true).unwrap()
    })
}

fn written(text: &mut String, number: u64, took_us: u64, sql: &str) {
    let (minute, second, us) = (number / 600_000 % 60, number / 10_000 % 60, number % 10_000 * 100);
    let (connection, seconds) = (number % 5000, took_us as f64 / 1e6);
    let _ = write!(
        text,
        "# Time: 2026-11-21T22:{minute:02}:{second:02}.{us:06}Z\n# User@Host: me[me] @ localhost []  Id: {connection}\n\
         # Query_time: {seconds:.6}  Lock_time: 0.0 Rows_sent: 1 Rows_examined: 1\nSET timestamp=1795301373;\n{sql};\n"
    );
}

/// Each entry another class, and each a stall.
#[test]
fn memory_has_a_bound_whatever_the_log_holds() {
    let hostile = |number: u64, text: &mut String| {
        let sql = format!("SELECT c{number} FROM t WHERE {}", "x".repeat(200));
        written(text, number, 30_000 + number % 1000, &sql);
    };
    let (bytes, found) = peak(hostile, 60_000);
    assert_eq!(found.cost.entries, 60_000);
    assert_eq!(found.classes.len(), 2000);
    assert!(bytes < 60 * MEBIBYTE, "{bytes} bytes");
    adds_up(&found, found.cost.bytes);
}

#[test]
fn a_statement_without_an_end_is_cut() {
    let long = |number: u64, text: &mut String| match number {
        0 => written(text, 0, 30_000, "SELECT '"),
        _ => text.push_str(&"x".repeat(1 << 20)),
    };
    let (bytes, found) = peak(long, 200);
    assert_eq!(found.cost.entries, 1);
    assert!(bytes < 30 * MEBIBYTE, "{bytes} bytes for 200 MiB");
}

/// The same log once and four times as long.
#[test]
fn a_longer_log_takes_no_more_memory() {
    let usual = |number: u64, text: &mut String| {
        let took = if number % 1000 < 4 { 300_000 + number % 10_000 } else { 70 + number % 50 };
        written(text, number, took, &format!("SELECT c FROM sbtest1 WHERE id={number}"));
    };
    let (short, _) = peak(usual, 10_000);
    let (long, found) = peak(usual, 40_000);
    assert!(long < short + 2 * MEBIBYTE, "{long} bytes, {short} for a quarter");
    assert_eq!(found.classes.len(), 1);
    assert_eq!(found.account.by_cause.values().map(|it| it.victims).sum::<u64>(), 160);
}
