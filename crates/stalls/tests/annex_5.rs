// SPDX-License-Identifier: Apache-2.0
//! The slow log of the article "Tail Latencies in Percona Server because of InnoDB Stalls on Empty Free List", 2022-11-30: its one entry, and
//! annex 5; the article prints the times of annex 5.

use logs::open_timed;
use stalls::{Asked, Cause, Explained, MOST_STATEMENT_BYTES, explain};
use std::fmt::Write as _;

/// As printed.
const ANNEX_5: &str = "\
01:35:41.656535Z: 0.401592
01:35:41.657470Z: 0.396737
01:35:41.658073Z: 0.405711
01:35:41.661335Z: 0.396724
01:37:42.014167Z: 0.326436
01:37:42.016142Z: 0.336401
01:37:42.021072Z: 0.336380
01:37:42.022688Z: 0.336398
01:39:42.373672Z: 0.336466
01:39:42.373876Z: 0.336455
01:39:42.374456Z: 0.336390
01:39:42.375309Z: 0.336403
01:41:42.730329Z: 0.326384
01:41:42.731932Z: 0.336372
01:41:42.732958Z: 0.336367
01:41:42.734310Z: 0.336306
01:43:43.087575Z: 0.336429
01:43:43.088405Z: 0.336386
01:43:43.090872Z: 0.336378
01:43:43.091750Z: 0.336343
";

/// The fields of the article's entry.
#[derive(Clone, Copy)]
struct Fields {
    lock: f64,
    rows_examined: u64,
    read_count: u64,
    read_wait: f64,
    row_lock_wait: f64,
    queue_wait: f64,
    pages: u64,
}

const PRINTED: Fields = Fields {
    lock: 0.000_003,
    rows_examined: 1,
    read_count: 1,
    read_wait: 0.000_009,
    row_lock_wait: 0.0,
    queue_wait: 0.0,
    pages: 4,
};

/// The article's entry with other times.
fn entry(time: &str, connection: usize, took: f64, with: Fields) -> String {
    let Fields { lock, rows_examined, read_count, read_wait, row_lock_wait, queue_wait, pages } = with;
    format!(
        "# Time: {time}\n# User@Host: msandbox[msandbox] @ localhost []  Id:    {connection}\n\
         # Schema: sbtest  Last_errno: 0  Killed: 0\n\
         # Query_time: {took:.6}  Lock_time: {lock:.6}  Rows_sent: 1  Rows_examined: {rows_examined}  Rows_affected: 0  Bytes_sent: 197\n\
         # InnoDB_trx_id: 0\n\
         #   InnoDB_IO_r_ops: {read_count}  InnoDB_IO_r_bytes: 16384  InnoDB_IO_r_wait: {read_wait:.6}\n\
         #   InnoDB_rec_lock_wait: {row_lock_wait:.6}  InnoDB_queue_wait: {queue_wait:.6}\n\
         #   InnoDB_pages_distinct: {pages}\nSET timestamp=1669772141;\nSELECT c FROM sbtest1 WHERE id={connection}881701;\n"
    )
}

/// Annex 5 as the slow log had it: four connections, in the order in which they ended.
fn annex_5(of: impl Fn(f64) -> Fields) -> String {
    let lines = ANNEX_5.lines().enumerate().map(|(index, line)| {
        let (time, took) = line.split_once(": ").expect("a time and a query time");
        let took = took.parse().expect("seconds");
        entry(&format!("2022-11-30T{time}"), 27 + index % 4, took, of(took))
    });
    lines.collect()
}

fn asked() -> Asked {
    Asked { least_us: 20_000, ..Asked::default() }
}

fn explained(text: &str, asked: &Asked) -> Explained {
    let mut log = open_timed(text.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    explain(&mut log, asked).expect("reads")
}

fn causes(explained: &Explained) -> Vec<(Cause, u64)> {
    explained.stalls.iter().map(|stall| (stall.cause, stall.victim_count)).collect()
}

#[test]
fn the_articles_entry_is_a_backoff_stall() {
    let text = entry("2022-11-29T01:30:00.744840Z", 27, 0.744_840, PRINTED);
    let found = explained(&text, &asked());
    assert_eq!(causes(&found), [(Cause::FreeListBackoff, 1)]);
    assert_eq!(found.account.lost_query_us, 744_840);
    assert_eq!(found.account.attributed_query_us, 744_840);
    let victim = &found.stalls[0].victims[0];
    assert_eq!((&*victim.statement, victim.length_us), ("select c from sbtest1 where id = ?", 744_840));
    assert_eq!((victim.connection.as_deref(), victim.statement_with_values.as_deref()), (Some("27"), None));
    assert!(found.stalls[0].confidence < 0.7, "one entry alone proves little");
}

/// With the placeholders for times that the article prints.
#[test]
fn the_articles_entry_as_it_is_printed_is_a_backoff_stall_of_an_unknown_moment() {
    let text =
        entry("YYYY-MM-DDThh:mm:ss.uuuuuuZ", 27, 0.744_840, PRINTED).replace("timestamp=1669772141", "timestamp=T");
    for (copies, expected) in [(1, vec![(Cause::FreeListBackoff, 1)]), (2, vec![(Cause::FreeListBackoff, 1); 2])] {
        let found = explained(&text.repeat(copies), &asked());
        assert_eq!(causes(&found), expected);
        assert_eq!((found.stalls[0].started_us, found.stalls[0].length_us), (None, 744_840));
        assert_eq!(found.account.attributed_query_us, 744_840 * copies as u64);
    }
}

#[test]
fn annex_5_is_five_stalls_of_four_victims() {
    for text in [ANNEX_5.to_owned(), annex_5(|_| PRINTED)] {
        let found = explained(&text, &asked());
        assert_eq!(causes(&found), [(Cause::FreeListBackoff, 4); 5]);
        assert_eq!(found.account.lost_query_us, 6_963_058);
        assert_eq!(found.account.attributed_query_us + found.account.unexplained_query_us, 6_963_058);
        // 69 to 82 tries for the first four, 62 or 63 for each of the others
        let tries = found.account.wait_free_by_stalls.expect("a clock");
        assert!((4 * 69 + 16 * 62..=4 * 82 + 16 * 63).contains(&tries), "{tries}");
        let overhead = found.account.sleep_overhead_us.expect("fitted");
        assert!((57.0..=62.0).contains(&overhead), "{overhead}");
        let lattice = found.stalls.iter().flat_map(|it| &it.evidence.speaks_for).filter(|it| it.contains("ladder"));
        assert_eq!(lattice.count(), 5);
    }
}

#[test]
fn the_same_lines_with_locks_reads_or_rows_are_no_stalls() {
    let filled: [fn(f64) -> Fields; 7] = [
        |took| Fields { lock: took * 0.99, ..PRINTED },
        |took| Fields { row_lock_wait: took * 0.99, ..PRINTED },
        |took| Fields { queue_wait: took * 0.99, ..PRINTED },
        |took| Fields { read_count: 300, read_wait: took * 0.9, ..PRINTED },
        |_| Fields { rows_examined: 100_000, ..PRINTED },
        |_| Fields { rows_examined: 20_000, ..PRINTED },
        |_| Fields { pages: 30_000, ..PRINTED },
    ];
    for (index, fields) in filled.into_iter().enumerate() {
        let found = explained(&annex_5(fields), &asked());
        assert_eq!(causes(&found), [], "{index}");
        assert_eq!(found.account.lost_query_us, 0);
        assert_eq!(found.classes[0].count, 20, "they are in their class");
        // the fields that name a wait are told in a note
        let is_told = found.notes.iter().any(|note| note.contains("is in no stall here"));
        assert_eq!(is_told, index < 4, "{index}: {:?}", found.notes);
    }
}

/// Waits for a lock of a table leave nothing in some servers' logs, and end together, too. Only a statement that read a page can have waited for a free page.
#[test]
fn who_read_nothing_and_is_not_on_the_ladder_has_no_backoff_stall() {
    let mut text = String::new();
    for (index, took) in [0.301_1, 0.298_7, 0.295_2, 0.293_9].into_iter().enumerate() {
        text += &entry(
            &format!("2022-11-30T01:35:41.65600{index}Z"),
            27 + index,
            took,
            Fields { read_count: 0, ..PRINTED },
        );
    }
    assert_eq!(causes(&explained(&text, &asked())), [(Cause::Unknown, 4)]);
}

/// Beside quick statements of the same class, the same waits are stalls with a name.
#[test]
fn beside_quick_statements_a_wait_for_locks_has_its_name() {
    let mut text = String::new();
    for index in 0..200 {
        text += &entry(&format!("2022-11-30T01:34:00.{index:03}000Z"), 27 + index % 4, 0.000_07, PRINTED);
    }
    let quick = text.clone();
    text += &annex_5(|took| Fields { row_lock_wait: took * 0.99, ..PRINTED });
    let found = explained(&text, &asked());
    assert_eq!(causes(&found), [(Cause::RowLock, 4); 5]);
    assert_eq!(found.account.lost_query_us, 6_963_058 - 20 * 70);
    assert_eq!(found.classes[0].median_outside_stalls_us, Some(70));
    let found = explained(&(quick.clone() + &annex_5(|_| PRINTED)), &asked());
    assert_eq!(causes(&found), [(Cause::FreeListBackoff, 4); 5]);
    let found = explained(&(quick + &annex_5(|_| Fields { rows_examined: 400_000, ..PRINTED })), &asked());
    assert_eq!(causes(&found), []);
    assert_eq!(found.account.own_work_query_us, 6_963_058 - 20 * 70);
}

#[test]
fn a_server_without_backoff_had_no_backoff_stall() {
    let header = "/usr/sbin/mysqld, Version: 9.1.0 (MySQL Community Server - GPL). started with:\n";
    let plain =
        annex_5(|_| PRINTED).lines().filter(|line| !line.contains("InnoDB_")).fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "{line}");
            all
        });
    let found = explained(&(header.to_owned() + &plain), &asked());
    assert_eq!(causes(&found), [(Cause::Unknown, 4); 5]);
    assert_eq!(found.account.unexplained_query_us, 6_963_058);
    assert_eq!(found.source.server.as_deref(), Some("mysql 9.1.0"));
    // the counter stood still
    let still = Asked { wait_free: Some(0), ..asked() };
    assert_eq!(causes(&explained(&annex_5(|_| PRINTED), &still)), [(Cause::Unknown, 4); 5]);
}

#[test]
fn values_are_given_only_when_they_are_asked_for() {
    let text = annex_5(|_| PRINTED);
    let shown = |found: &Explained| {
        let mut all = String::new();
        for victim in found.stalls.iter().flat_map(|stall| &stall.victims) {
            let _ = writeln!(all, "{} {:?}", victim.statement, victim.statement_with_values);
        }
        all
    };
    assert!(!shown(&explained(&text, &asked())).contains("881701"));
    let with_values = Asked { with_values: true, ..asked() };
    assert!(shown(&explained(&text, &with_values)).contains("SELECT c FROM sbtest1 WHERE id=27881701"));
}
