// SPDX-License-Identifier: Apache-2.0
use super::*;

fn wait(way: Way, length_us: u64) -> Wait {
    let (samples, turns) = (40, Some(0));
    Wait { thread: 7, way, from_us: 1_000_000, to_us: 1_000_000 + length_us, samples, turns, is_cut: false }
}

const NOTHING: Around<'_> =
    Around { said: &[], backoff: Some(true), wait_free: None, tries: 80, began_us: None, pages_free: None };

fn said(says: Says) -> Session {
    let words = format!("{says:?}");
    Session { connection: 12, thread: Some(7), says, words, statement: None, age_us: None, blocked_by: vec![9] }
}

#[track_caller]
fn expect(way: Way, around: &Around<'_>, wanted: Cause) -> (f64, Evidence) {
    match judge(&wait(way, 400_000), around) {
        Verdict::Stall { cause, confidence, evidence } if cause == wanted => (confidence, evidence),
        other => panic!("{other:?} is not {wanted:?}"),
    }
}

#[test]
fn a_sleep_is_a_wait_for_a_free_page_when_the_counter_has_risen_by_as_much() {
    let with = |rose| Around { wait_free: Some(rose), pages_free: Some(0), ..NOTHING };
    assert_eq!(expect(Way::Asleep, &with(80), Cause::FreeListBackoff).0, 0.97);
    assert_eq!(expect(Way::Asleep, &NOTHING, Cause::FreeListBackoff).0, 0.7);
    let (confidence, evidence) = expect(Way::Asleep, &with(0), Cause::Unknown);
    assert_eq!(confidence, 0.0);
    assert!(evidence.against[0].contains("rose by 0 meanwhile"), "{evidence:?}");
}

#[test]
fn servers_without_backoff_have_no_such_stall() {
    let legacy = Around { backoff: Some(false), wait_free: Some(12_000), ..NOTHING };
    expect(Way::Asleep, &legacy, Cause::Unknown);
    expect(Way::Asleep, &Around { backoff: None, ..legacy }, Cause::Unknown);
    expect(Way::Blocked, &Around { wait_free: Some(12_000), pages_free: Some(0), ..NOTHING }, Cause::Unknown);
}

#[test]
fn what_the_server_says_names_a_lock_and_who_holds_it() {
    for (says, cause) in [
        (Says::RowLock, Cause::RowLock),
        (Says::MetadataLock, Cause::MetadataLock),
        (Says::BufferPin, Cause::BufferPin),
        (Says::Checkpoint, Cause::RedoOrCheckpoint),
    ] {
        let (confidence, evidence) = expect(Way::Blocked, &Around { said: &[said(says)], ..NOTHING }, cause);
        assert_eq!(confidence, 0.95);
        assert!(evidence.speaks_for.contains(&"held by connection 9".to_owned()), "{evidence:?}");
    }
    let half = [said(Says::Busy), said(Says::RowLock)];
    let (confidence, evidence) = expect(Way::Blocked, &Around { said: &half, ..NOTHING }, Cause::RowLock);
    assert!(confidence < 0.75 && evidence.against == ["1 times it did not"], "{confidence} {evidence:?}");
    expect(Way::Blocked, &Around { said: &[said(Says::Busy)], ..NOTHING }, Cause::Unknown);
}

#[test]
fn what_was_asked_for_and_who_asked_for_nothing_are_no_stalls() {
    for way in [Way::Asleep, Way::Blocked] {
        let of = |says| judge(&wait(way, 400_000), &Around { said: &[said(says)], ..NOTHING });
        assert_eq!(of(Says::AskedToWait), Verdict::OwnWork);
        assert_eq!([of(Says::Idle), of(Says::Background)], [Verdict::Nothing, Verdict::Nothing]);
    }
}

/// To the server it rests until it is given a CPU and takes its client's request.
#[test]
fn who_would_run_and_has_no_cpu_does_not_rest() {
    let idle = [said(Says::Idle)];
    expect(Way::Queued, &Around { said: &idle, ..NOTHING }, Cause::Cpu);
    let background = [said(Says::Background)];
    assert_eq!(judge(&wait(Way::Queued, 400_000), &Around { said: &background, ..NOTHING }), Verdict::Nothing);
}

#[test]
fn statements_one_after_another_are_no_wait_of_one() {
    for way in [Way::Reading, Way::Queued, Way::Syncing] {
        let of = |turns, began_us| judge(&Wait { turns, ..wait(way, 400_000) }, &Around { began_us, ..NOTHING });
        assert_eq!(of(Some(0), Some(1_200_000)), Verdict::Nothing, "it began in the middle");
        assert_eq!(of(Some(60), None), Verdict::Nothing);
        assert!(matches!(of(Some(3), Some(995_000)), Verdict::Stall { .. }));
        assert!(matches!(of(Some(3), None), Verdict::Stall { .. }));
    }
    let scan = Wait { turns: Some(3000), ..wait(Way::Reading, 400_000) };
    assert_eq!(judge(&scan, &Around { began_us: Some(999_000), ..NOTHING }), Verdict::OwnWork, "many quick reads");
}
