// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::cause::Evidence;

const BEGAN_UNIX_US: u64 = 1_000_000_000;

/// Connection 7 waits from the second second for 400 ms.
fn stall(cause: Cause) -> Stall {
    let started_us = Some(i64::try_from(BEGAN_UNIX_US + 2_000_000).expect("fits"));
    let victim = Victim {
        connection: Some("7".to_owned()),
        thread: None,
        statement: "".into(),
        statement_with_values: None,
        started_us,
        length_us: 400_000,
        lost_query_us: 400_000,
    };
    Stall {
        started_us,
        length_us: 400_000,
        cause,
        confidence: 0.0,
        lost_query_us: 400_000,
        ends_within_us: 0,
        goes_on: false,
        evidence: Evidence::default(),
        held_by: Vec::new(),
        victim_count: 1,
        victims: vec![victim],
    }
}

fn told(beside: &Beside, cause: Cause) -> Stall {
    let mut stall = stall(cause);
    beside.speaks_of(&mut stall, BEGAN_UNIX_US);
    stall
}

/// An entry that was read 300 ms after its end at most.
fn entry(connection: u64, read_us: u64, took_us: u64) -> Logged {
    let latest = read_us - took_us;
    let figures = Figures { took_us: Some(took_us), ..Figures::default() };
    Logged { connection, began_us: (latest - 300_000, latest), figures }
}

/// A wait of an insert, then one of an update, each with its entry; they are read together.
#[test]
fn an_entry_of_the_statement_before_or_after_is_not_quoted() {
    let told = |entries: &[Logged]| {
        let mut beside = Beside::default();
        entries.iter().for_each(|entry| beside.logged(entry.clone()));
        let stall = told(&beside, Cause::Unknown);
        (stall.cause, stall.evidence.speaks_for)
    };
    let with = |began_us: (u64, u64), took_us: u64| {
        let figures = Figures { took_us: Some(took_us), row_lock_us: Some(took_us - 5000), ..Figures::default() };
        Logged { connection: 7, began_us, figures }
    };
    let quoted = |took: &str, rows: &str| {
        (
            Cause::RowLock,
            vec![format!("the slow log has 1 of 1 victim: connection 7 took {took} (locks of rows {rows})")],
        )
    };
    let own = with((1_750_000, 2_050_000), 410_000);
    let next = with((2_160_000, 2_460_000), 600_000);
    assert_eq!(told(&[own.clone(), next.clone()]), quoted("410.0 ms", "405.0 ms"), "not the newest");
    assert_eq!(told(&[next]), (Cause::Unknown, vec![]), "it began while the wait went on");
    let exact = |began_us: u64, took_us: u64| with((began_us, began_us), took_us);
    assert_eq!(told(&[exact(1_995_000, 410_000)]), quoted("410.0 ms", "405.0 ms"));
    for other in [exact(2_050_000, 410_000), exact(1_995_000, 350_000), exact(1_500_000, 510_000)] {
        assert_eq!(told(&[other]), (Cause::Unknown, vec![]));
    }
}

#[test]
fn an_entry_of_the_same_connection_and_time_is_evidence_and_no_other_one() {
    let mut beside = Beside::default();
    beside.logged(entry(8, 2_500_000, 410_000));
    beside.logged(entry(7, 1_900_000, 410_000));
    beside.logged(entry(7, 2_500_000, 100_000));
    beside.logged(entry(7, 9_000_000, 410_000));
    assert_eq!(told(&beside, Cause::Unknown).evidence, Evidence::default());
    beside.logged(entry(7, 2_500_000, 410_000));
    let stall = told(&beside, Cause::Unknown);
    assert_eq!(stall.evidence.speaks_for, ["the slow log has 1 of 1 victim: connection 7 took 410.0 ms"]);
    assert_eq!(stall.cause, Cause::Unknown, "it has no field that names it");
}

#[test]
fn a_field_of_the_log_names_what_nobody_named_and_speaks_against_another_name() {
    let mut beside = Beside::default();
    let figures = Figures { took_us: Some(410_000), row_lock_us: Some(390_000), ..Figures::default() };
    beside.logged(Logged { connection: 7, began_us: (1_790_000, 2_090_000), figures });
    assert_eq!(told(&beside, Cause::Unknown).cause, Cause::RowLock);
    assert_eq!(told(&beside, Cause::RowLock).evidence.against, [""; 0]);
    let other = told(&beside, Cause::Sync);
    assert_eq!((other.cause, other.evidence.against.len()), (Cause::Sync, 1));
}

#[test]
fn a_canary_tells_a_stall_of_all_from_one_of_some() {
    let mut beside = Beside::default();
    for nth in 0..20 {
        beside.canary(Canary { from_us: nth * 100_000, took_us: 300, is_lost: false });
    }
    let mut slow = Beside::default();
    slow.canary(Canary { from_us: 2_010_000, took_us: 380_000, is_lost: false });
    assert_eq!(told(&beside, Cause::Cpu).evidence, Evidence::default(), "none ran meanwhile");
    beside.canary(Canary { from_us: 2_100_000, took_us: 300, is_lost: false });
    assert_eq!(told(&beside, Cause::Cpu).evidence.against.len(), 1);
    assert_eq!(told(&beside, Cause::RowLock).evidence.speaks_for.len(), 1);
    assert_eq!(told(&slow, Cause::Unknown).evidence.speaks_for.len(), 1);
    assert_eq!(told(&slow, Cause::RowLock).evidence.against.len(), 1);
    let of_sync = |confidence| {
        let mut stall = Stall { confidence, ..stall(Cause::Sync) };
        slow.speaks_of(&mut stall, BEGAN_UNIX_US);
        (stall.cause, stall.confidence, stall.evidence.against.len())
    };
    assert_eq!(of_sync(0.95), (Cause::Sync, 0.95, 1), "somebody was seen writing");
    assert_eq!(of_sync(UNSEEN_SYNC), (Cause::Unknown, 0.0, 1), "a query that writes nothing waited, too");
}

#[test]
fn a_query_that_lost_its_connection_is_not_told_as_answered() {
    let mut beside = Beside::default();
    beside.canary(Canary { from_us: 1_000_000, took_us: 300, is_lost: false });
    beside.canary(Canary { from_us: 2_010_000, took_us: 380_000, is_lost: true });
    let stall = told(&beside, Cause::Unknown);
    let [said] = stall.evidence.speaks_for.as_slice() else { panic!("{stall:#?}") };
    let waited =
        "a query of our own that needs nothing waited 380.0 ms and got no answer, because its connection was lost";
    assert!(said.starts_with(waited), "{said}");
    let sung = beside.sung(2_000_000, 400_000).expect("one ran meanwhile");
    assert_eq!((sung.times, Sung::of(&sung.part())), (0, Some(sung)), "also from a recording");
    let mut short = Beside::default();
    short.canary(Canary { from_us: 2_010_000, took_us: 12_000, is_lost: true });
    assert_eq!(told(&short, Cause::Cpu).evidence, Evidence::default(), "a short one speaks of nothing");
}

#[test]
fn a_lock_is_ours_if_nobody_else_holds_it() {
    let mut beside = Beside::default();
    beside.own(5);
    let session = |blocked_by: Vec<u64>| Session {
        connection: 7,
        thread: None,
        says: super::super::sample::Says::RowLock,
        words: String::new(),
        statement: None,
        age_us: None,
        blocked_by,
        perhaps_blocked_by: Vec::new(),
    };
    assert!(beside.is_ours(&[session(vec![5]), session(Vec::new())]));
    assert!(!beside.is_ours(&[session(vec![5, 6])]) && !beside.is_ours(&[session(Vec::new())]));
    assert!(beside.is_own(Some(5)) && !beside.is_own(Some(6)) && !beside.is_own(None));
}
