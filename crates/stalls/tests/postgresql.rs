// SPDX-License-Identifier: Apache-2.0
//! Logs of PostgreSQL as servers are usually told to write them: what is read from each, and what is said where nothing can be read.

use logs::open_timed;
use stalls::{Asked, Cause, Explained, MOST_STATEMENT_BYTES, explain};

fn found(text: &str) -> Explained {
    let mut log = open_timed(text.as_bytes(), MOST_STATEMENT_BYTES).expect("reads").expect("a log");
    explain(&mut log, &Asked { least_us: 20_000, ..Asked::default() }).expect("reads")
}

fn has_note(found: &Explained, words: &str) -> bool {
    found.notes.iter().any(|note| note.contains(words))
}

/// Cause, statement, and what was lost, in milliseconds.
fn stalls(found: &Explained) -> Vec<(Cause, String, u64)> {
    let stall = |it: &stalls::Stall| (it.cause, it.victims[0].statement.to_string(), it.lost_query_us / 1000);
    found.stalls.iter().map(stall).collect()
}

#[test]
fn waits_alone_are_stalls_of_their_statements() {
    let it = found(
        "2026-11-27 01:04:38.468 UTC [5006]LOG:  process 5006 still waiting for ShareLock on transaction 1124 after 101.039 ms\n\
         2026-11-27 01:04:38.468 UTC [5006]DETAIL:  Process holding the lock: 5005. Wait queue: 5006.\n\
         2026-11-27 01:04:38.468 UTC [5006]STATEMENT:  update t set c='y' where id=5\n\
         2026-11-27 01:04:40.382 UTC [5006]LOG:  process 5006 acquired ShareLock on transaction 1124 after 2014.998 ms\n\
         2026-11-27 01:04:40.382 UTC [5006]CONTEXT:  while updating tuple (530,26) in relation \"t\"\n\
         2026-11-27 01:04:40.382 UTC [5006]STATEMENT:  update t set c='y' where id=5\n\
         2026-11-27 01:05:01.000 UTC [5007]LOG:  process 5007 still waiting for AccessShareLock on relation 1 of database 5 after 1000.000 ms\n\
         2026-11-27 01:05:01.000 UTC [5007]STATEMENT:  select c from t\n\
         2026-11-27 01:05:03.000 UTC [5007]ERROR:  canceling statement due to lock timeout\n\
         2026-11-27 01:05:03.000 UTC [5007]STATEMENT:  select c from t\n",
    );
    let expected = [
        (Cause::RowLock, "update t set c = ? where id = ?".to_owned(), 2014),
        (Cause::MetadataLock, "select c from t".to_owned(), 3000),
    ];
    assert_eq!(stalls(&it), expected, "{it:#?}");
}

#[test]
fn a_log_of_another_language_is_told_to_have_no_entry() {
    let it = found("2026-11-27 01:04:38.468 UTC [5006] LOG:  Dauer: 807.433 ms  Anweisung: select 1\n");
    assert_eq!((it.cost.entries, it.notes.len()), (0, 1));
    assert!(has_note(&it, "a message without a statement (1)") && has_note(&it, "lc_messages=C"), "{:#?}", it.notes);
}

#[test]
fn durations_without_a_text_are_one_class() {
    let line = |second: u32, pid: u32, ms: &str| {
        format!("2026-11-27 01:04:{second}.468 UTC [{pid}] LOG:  duration: {ms} ms\n")
    };
    let log = line(10, 1, "0.300").repeat(20) + &line(20, 2, "900.000") + &line(20, 3, "900.000");
    let it = found(&log);
    assert_eq!(stalls(&it), [(Cause::Unknown, String::new(), 1799)]);
    assert!(has_note(&it, "22 entries have no text of their statement"), "{:#?}", it.notes);
}

#[test]
fn the_clock_is_fine_also_where_an_entry_is_at_a_full_second() {
    let entry = "2026-11-27 01:04:38.000 UTC [1] LOG:  duration: 0.300 ms  statement: select 1\n";
    assert!(!has_note(&found(entry), "clock shows seconds"));
    assert!(has_note(&found(&entry.replace(".000 UTC", " UTC")), "clock shows seconds"));
}

#[test]
fn moments_are_utc_where_the_log_tells_the_offset() {
    let log = |zone: &str| {
        format!("2026-11-27 01:04:38.468{zone} [1] LOG:  duration: 0.300 ms  statement: select 1\n").repeat(9)
            + &format!("2026-11-27 01:05:38.400{zone} [2] LOG:  duration: 400.000 ms  statement: select 1\n")
    };
    let began = |zone: &str| found(&log(zone)).stalls[0].started_us.expect("a time");
    assert_eq!(began(" UTC"), 1_795_741_538_000_000);
    assert_eq!(began(" +03"), 1_795_741_538_000_000 - 3 * 3_600_000_000);
    let epoch = "1795741478.468 [1] LOG:  duration: 0.300 ms  statement: select 1\n".repeat(9)
        + "1795741538.400 [2] LOG:  duration: 400.000 ms  statement: select 1\n";
    assert_eq!(found(&epoch).stalls[0].started_us, Some(1_795_741_538_000_000), "%n");
    assert!(!has_note(&found(&log(" UTC")), "times are") && !has_note(&found(&epoch), "times are"));
    assert!(has_note(&found(&log(" +03")), "times are UTC; the log's own are at +03:00"));
    assert!(has_note(&found(&log(" CET")), "in the time zone CET"));
    assert!(has_note(&found(&log("")), "does not tell their time zone"));
}

#[test]
fn the_time_of_statements_that_were_not_judged_is_told() {
    let line = |second: u32, ms: &str| {
        format!("2026-11-27 01:04:{second}.468 UTC [{second}] LOG:  duration: {ms} ms  statement: select a from t\n")
    };
    let it = found(&(line(10, "0.300") + &(11..31).map(|second| line(second, "700.000")).collect::<String>()));
    assert_eq!(stalls(&it), []);
    assert!(has_note(&it, "14000.0 ms in slow statements whose class has no quick one, or few"), "{:#?}", it.notes);
}

#[test]
fn who_is_released_together_may_wait_for_a_cpu_of_a_busy_host() {
    let usual = "2026-11-27 01:04:10.000 UTC [9] LOG:  duration: 0.300 ms  statement: update t set a = 1\n".repeat(30);
    let waited = |ms: u32, apart: u32| {
        let end = |pid: u32| {
            let (at, took) = (468 + apart * (pid - 1), ms + apart * (pid - 1));
            format!(
                "2026-11-27 01:04:38.{at} UTC [{pid}] LOG:  duration: {took}.000 ms  statement: update t set a = 1\n"
            )
        };
        let found = found(&(usual.clone() + &end(1) + &end(2) + &end(3)));
        found.stalls.iter().map(|it| it.victim_count).collect::<Vec<_>>()
    };
    assert_eq!(waited(60, 14), [3], "within 15 ms, whatever they waited");
    assert_eq!(waited(60, 18), [1, 1, 1], "these waited no longer than that they may wait for different things");
    assert_eq!(waited(600, 28), [3], "a twentieth of what they waited");
    assert_eq!(waited(600, 40), [1, 1, 1]);
    assert_eq!(waited(9000, 60), [1, 1, 1], "never more than 50 ms");
}
