// SPDX-License-Identifier: Apache-2.0
use super::*;
use stalls::Victim;

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
        held_by: Vec::new(),
        evidence: stalls::Evidence { speaks_for: vec!["because".to_owned()], against: Vec::new() },
        victim_count: victims.len() as u64,
        victims,
    }
}

fn watch(stalls: Vec<Stall>) -> OfWatch {
    OfWatch { arm: WatchedArm::default(), stalls, said: Value::Null }
}

/// The stalls as the load's clients measured them.
fn felt(stalls: Vec<Stall>) -> Explained {
    let explained = watch(stalls).explained(0, None);
    Explained { account: account_of(&explained.stalls), ..explained }
}

#[test]
fn the_loads_stalls_get_the_causes_of_the_waits_that_were_seen() {
    let of_clients = vec![victim(1, 1_000_000, 400 * MS), victim(2, 1_000_000, 410 * MS)];
    let mut explained =
        felt(vec![stall(Cause::Unknown, of_clients), stall(Cause::Unknown, vec![victim(1, 5_000_000, 300 * MS)])]);
    let of_server = vec![victim(71, 1_005_000, 392 * MS), victim(72, 1_006_000, 398 * MS)];
    watch(vec![stall(Cause::RowLock, of_server)]).name_causes(&mut explained);
    let causes: Vec<Cause> = explained.stalls.iter().map(|it| it.cause).collect();
    assert_eq!(causes, [Cause::RowLock, Cause::Unknown]);
    let evidence = &explained.stalls[0].evidence.speaks_for;
    assert_eq!(evidence[0], "a watch of the server's threads saw 2 of 2 of these waits: row_lock (90 %)");
    let account = &explained.account;
    assert_eq!((account.attributed_query_us, account.unexplained_query_us), (810 * MS, 300 * MS));
    assert_eq!(account.lost_query_us, 1_110 * MS);
}

#[test]
fn one_wait_that_was_seen_is_that_of_one_victim() {
    let of_clients = (1..=4).map(|connection| victim(connection, 1_000_000, 400 * MS)).collect();
    let mut explained = felt(vec![stall(Cause::Unknown, of_clients)]);
    watch(vec![stall(Cause::RowLock, vec![victim(71, 1_000_000, 400 * MS)])]).name_causes(&mut explained);
    assert_eq!(explained.stalls[0].cause, Cause::Unknown, "one of four was seen");
}

#[test]
fn a_wait_that_was_seen_at_another_time_and_one_without_a_name_change_nothing() {
    let mut explained = felt(vec![stall(Cause::DiskReads, vec![victim(1, 1_000_000, 400 * MS)])]);
    let others = vec![
        stall(Cause::RowLock, vec![victim(71, 1_250_000, 400 * MS)]),
        stall(Cause::Unknown, vec![victim(71, 1_000_000, 400 * MS)]),
    ];
    watch(others).name_causes(&mut explained);
    assert_eq!(explained.stalls[0].cause, Cause::DiskReads);
    assert_eq!(explained.stalls[0].evidence.speaks_for, ["because"]);
}

#[test]
fn a_watch_that_was_cut_off_has_its_stalls_and_no_cost() {
    let of_watch =
        watch(vec![stall(Cause::Sync, vec![victim(1, 0, 60 * MS)]), stall(Cause::Cpu, vec![victim(1, 9, 20 * MS)])]);
    let explained = of_watch.explained(50 * MS, None);
    assert_eq!(explained.stalls.len(), 1, "of 50 ms and more");
    assert_eq!(explained.account.by_cause[&Cause::Sync].lost_query_us, 60 * MS);
    assert_eq!(explained.classes[0].max_us, 60 * MS);
    assert!(explained.notes.iter().any(|note| note.contains("cut off")), "{:?}", explained.notes);
}
