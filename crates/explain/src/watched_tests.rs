// SPDX-License-Identifier: Apache-2.0
use super::*;
use stalls::Victim;
use stalls::recorded::{RecordedClass, SlowStatement};

const MS: u64 = 1000;

fn victim(connection: u32, started_us: i64, length_us: u64) -> Victim {
    Victim {
        connection: Some(connection.to_string()),
        thread: None,
        statement: "update t set a = ?".into(),
        statement_with_values: None,
        started_us: Some(started_us),
        length_us,
        lost_query_us: length_us,
    }
}

fn stall(cause: Cause, victims: Vec<Victim>) -> Stall {
    let started_us = victims.iter().filter_map(|it| it.started_us).min();
    Stall {
        started_us,
        length_us: victims.iter().map(|it| it.length_us).max().unwrap(),
        cause,
        confidence: if cause == Cause::Unknown { 0.0 } else { 0.9 },
        lost_query_us: victims.iter().map(|it| it.lost_query_us).sum(),
        ends_within_us: 0,
        goes_on: false,
        held_by: Vec::new(),
        evidence: stalls::Evidence { speaks_for: vec!["because".to_owned()], against: Vec::new() },
        victim_count: victims.len() as u64,
        victims,
    }
}

fn watch(stalls: Vec<Stall>) -> OfWatch {
    OfWatch { arm: WatchedArm::default(), stalls, said: Value::Null }
}

fn slow(connection: u32, started_us: i64, took_us: u64) -> SlowStatement {
    let ended_us = started_us.saturating_add_unsigned(took_us);
    let (statement, connection) = ("update".to_owned(), connection.to_string());
    SlowStatement { statement, connection, ended_us, took_us, seen_us: None }
}

/// The stalls of a load with quick statements of these lengths and these slow ones, beside a watch with these stalls.
fn joined(quick: &[(u64, u64)], slow: Vec<SlowStatement>, seen: Vec<Stall>) -> Explained {
    let lengths_us = slow.iter().map(|it| (it.took_us, 1)).chain(quick.iter().copied()).collect();
    let class = RecordedClass { statement: "update".to_owned(), lengths_us };
    let recorded = Recorded { classes: vec![class], slow, dropped: 0, threshold_us: 60 * MS };
    watch(seen).joined(recorded, Dialect::Mysql, &Asked::default())
}

/// A thousand statements of 100 us.
const QUICK: &[(u64, u64)] = &[(100, 1000)];

fn causes(explained: &Explained) -> Vec<Cause> {
    explained.stalls.iter().map(|it| it.cause).collect()
}

#[test]
fn the_loads_stalls_get_the_causes_of_the_waits_that_were_seen() {
    let of_clients = vec![slow(1, 1_000_000, 400 * MS), slow(2, 1_000_000, 410 * MS), slow(1, 5_000_000, 300 * MS)];
    let of_server = vec![victim(71, 1_005_000, 392 * MS), victim(72, 1_006_000, 398 * MS)];
    let explained = joined(QUICK, of_clients, vec![stall(Cause::RowLock, of_server)]);
    assert_eq!(causes(&explained), [Cause::RowLock, Cause::Unknown]);
    let evidence = &explained.stalls[0].evidence.speaks_for;
    assert_eq!(evidence[0], "a watch of the server's threads saw 2 of 2 of these waits: row_lock (90 %)");
    let account = &explained.account;
    assert_eq!((account.attributed_query_us, account.unexplained_query_us), (810 * MS - 200, 300 * MS - 100));
    assert_eq!(account.lost_query_us, 1_110 * MS - 300);
    assert_eq!(account.by_cause[&Cause::RowLock].longest_us, 410 * MS, "for --fail-on-stall");
    assert_eq!(account.longest_us(), Some(410 * MS));
}

#[test]
fn one_wait_that_was_seen_is_that_of_one_victim() {
    let of_clients = (1..=4).map(|connection| slow(connection, 1_000_000, 400 * MS)).collect();
    let explained = joined(QUICK, of_clients, vec![stall(Cause::RowLock, vec![victim(71, 1_000_000, 400 * MS)])]);
    assert_eq!(causes(&explained), [Cause::Unknown], "one of four was seen");
}

#[test]
fn a_wait_that_was_seen_at_another_time_and_one_without_a_name_change_no_cause() {
    let others = vec![
        stall(Cause::RowLock, vec![victim(71, 1_250_000, 400 * MS)]),
        stall(Cause::Unknown, vec![victim(72, 1_000_000, 400 * MS)]),
    ];
    let explained = joined(QUICK, vec![slow(1, 1_000_000, 400 * MS)], others);
    assert_eq!(causes(&explained), [Cause::Unknown]);
    assert_eq!(explained.stalls[0].evidence.speaks_for, Vec::<String>::new());
}

/// Four connections of a load on a slow disk: each statement waits for one sync or two, so they end in pairs, and none is quick.
fn on_a_slow_disk() -> (Vec<SlowStatement>, Vec<Stall>) {
    let (mut of_clients, mut of_server) = (Vec::new(), Vec::new());
    for round in 0..20 {
        let began_us = 1_000_000 + round * 300_000;
        for (connection, at_us) in [(1, 0), (2, 0), (3, 150_000), (4, 150_000)] {
            of_clients.push(slow(connection, began_us + at_us, 299 * MS));
            of_server.push(victim(connection + 70, began_us + at_us + 4_000, 294 * MS));
        }
    }
    (of_clients, of_server.into_iter().map(|it| stall(Cause::Sync, vec![it])).collect())
}

#[test]
fn a_statement_that_was_seen_to_wait_is_a_victim_also_where_most_of_its_class_waited() {
    let (of_clients, of_server) = on_a_slow_disk();
    let alone = joined(&[], of_clients.clone(), Vec::new());
    assert_eq!((alone.stalls.len(), alone.account.lost_query_us), (0, 0), "two that end together say nothing alone");
    assert_eq!(alone.account.no_stall_query_us, Some(80 * 299 * MS));
    let note = "23920.0 ms in slow statements whose class has no quick one, or few: they are in no stall";
    assert!(alone.notes.iter().any(|it| it.starts_with(note)), "{:?}", alone.notes);

    let seen = joined(&[], of_clients, of_server);
    assert_eq!(seen.account.by_cause[&Cause::Sync].victims, 80, "{:?}", seen.account);
    assert_eq!(seen.account.attributed_query_us, 80 * 299 * MS, "no statement shows what is usual");
    assert_eq!((seen.account.no_stall_query_us, seen.notes), (Some(0), vec![]));
}

#[test]
fn in_a_class_whose_usual_time_is_long_a_statement_loses_the_time_for_which_it_was_seen_to_wait() {
    // from 10 ms to 400 ms without a gap: the median is a slow statement
    let quick: Vec<(u64, u64)> = (1..=5).map(|n| (n * 10 * MS, 1)).collect();
    let of_clients: Vec<SlowStatement> =
        (0..35).map(|n| slow(1, n * 1_000_000, 60 * MS + n.unsigned_abs() * 10 * MS)).collect();
    let all_us: u64 = of_clients.iter().map(|it| it.took_us).sum();
    let alone = joined(&quick, of_clients.clone(), Vec::new());
    assert_eq!((alone.stalls.len(), alone.account.no_stall_query_us), (0, Some(all_us)));
    let note = "8050.0 ms in slow statements that are not far above the median of their class";
    assert!(alone.notes[0].starts_with(note), "{:?}", alone.notes);

    let seen = joined(&quick, of_clients, vec![stall(Cause::Sync, vec![victim(71, 30_020_000, 330 * MS)])]);
    assert_eq!(causes(&seen), [Cause::Sync]);
    let account = &seen.account;
    assert_eq!((account.attributed_query_us, account.no_stall_query_us), (330 * MS, Some(all_us - 360 * MS)));
}

#[test]
fn two_statements_that_follow_each_other_may_be_one_wait_of_their_connection() {
    let of_clients = vec![slow(1, 1_000_000, 150 * MS), slow(1, 1_150_200, 160 * MS)];
    let explained = joined(QUICK, of_clients, vec![stall(Cause::Sync, vec![victim(71, 1_000_000, 310 * MS)])]);
    assert_eq!(causes(&explained), [Cause::Sync; 2]);
}

#[test]
fn a_watch_that_was_cut_off_has_its_stalls_and_no_cost() {
    let of_watch =
        watch(vec![stall(Cause::Sync, vec![victim(1, 0, 60 * MS)]), stall(Cause::Cpu, vec![victim(1, 9, 20 * MS)])]);
    let explained = of_watch.explained(50 * MS, None);
    assert_eq!(explained.stalls.len(), 1, "of 50 ms and more");
    assert_eq!(explained.account.by_cause[&Cause::Sync].lost_query_us, 60 * MS);
    assert_eq!(explained.account.longest_us(), Some(60 * MS), "for --fail-on-stall");
    assert_eq!(explained.account.no_stall_query_us, None, "a watch shows those alone that stalled");
    assert_eq!(explained.classes[0].max_us, 60 * MS);
    assert!(explained.notes.iter().any(|note| note.contains("cut off")), "{:?}", explained.notes);
}
