// SPDX-License-Identifier: Apache-2.0
use super::super::WatchCost;
use super::super::sample::{Answer, Doing, Sample, Sched, Written};
use super::super::testing::{STEP_US, session, watching};
use super::*;
use crate::cause::Cause;
use crate::explained::Stall;
use sql::Dialect;

const BEGINS_US: u64 = 500_000;
const GETS_ITS_LOCK_US: u64 = 1_200_000;
const ENDS_US: u64 = 1_500_000;

fn said(thread: u32, says: Says, words: &str) -> Session {
    let blocked_by = if says == Says::MetadataLock { vec![9] } else { Vec::new() };
    Session { words: words.to_owned(), blocked_by, ..session(thread, says) }
}

/// Thread 1 waits for a lock, gets it, and waits for its commit, as the server says in these words. Thread 2 writes to the disk meanwhile. `wakes`: whether thread 1
/// has a turn on a CPU in between.
fn told(commit: (Says, &str), wakes: bool) -> Vec<Stall> {
    let mut it = watching(Dialect::Mysql, false, 0);
    let list = |at_us: u64| {
        let (says, words) = match at_us {
            BEGINS_US..GETS_ITS_LOCK_US => (Says::MetadataLock, "Waiting for table metadata lock"),
            GETS_ITS_LOCK_US..ENDS_US => commit,
            _ => (Says::Idle, ""),
        };
        let sessions = Some(vec![said(1, says, words), session(2, Says::Idle)]);
        Answer { asked_us: at_us, answered_us: at_us + 500, sessions, ..Answer::default() }
    };
    it.answer(list(0));
    let mut stalls = Vec::new();
    for at_us in (1000..3_000_000).step_by(10_000) {
        let waits = (BEGINS_US..ENDS_US).contains(&at_us);
        let syncs = (GETS_ITS_LOCK_US..ENDS_US).contains(&at_us);
        let turns = u64::from(wakes && at_us >= GETS_ITS_LOCK_US);
        let of = |thread, doing| Sample { thread, doing, sched: Some(Sched { turns, ..Sched::default() }), stop: None };
        let first = of(1, if waits { Doing::Blocked } else { Doing::Idle });
        it.sample(at_us, &[first, of(2, if syncs { Doing::Syncing(Written::Unknown) } else { Doing::Idle })]);
        if it.wants(at_us).sessions {
            it.answer(list(at_us));
        }
        stalls.extend(it.settled(at_us));
    }
    let (last, _, _) = it.finish(WatchCost { elapsed_us: 3_000_000, ..WatchCost::default() }, None, Vec::new());
    stalls.extend(last);
    stalls.retain(|stall| stall.victims.iter().any(|it| it.connection.as_deref() == Some("101")));
    stalls
}

#[test]
fn a_lock_and_the_commit_after_it_are_two_stalls_and_the_commit_is_held_by_nobody() {
    for commit in [(Says::Sync, "Commit"), (Says::Busy, "Updating status")] {
        let stalls = told(commit, true);
        let [lock, sync] = stalls.as_slice() else { panic!("{stalls:#?}") };
        assert_eq!((lock.cause, lock.held_by.as_slice()), (Cause::MetadataLock, ["9".to_owned()].as_slice()));
        assert!(lock.length_us.abs_diff(700_000) <= 2 * STEP_US, "{lock:#?}");
        assert_eq!((sync.cause, sync.held_by.len()), (Cause::Sync, 0), "{sync:#?}");
        let own = sync.victims.iter().find(|it| it.connection.as_deref() == Some("101")).expect("it is a victim");
        assert!(own.length_us.abs_diff(300_000) <= 2 * STEP_US, "{sync:#?}");
    }
}

#[test]
fn a_thread_that_did_not_wake_up_is_in_one_wait_whatever_the_server_says() {
    let stalls = told((Says::Mutex, "LWLock"), false);
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert!(stall.length_us.abs_diff(1_000_000) <= 2 * STEP_US, "{stall:#?}");
}

fn of(thread: u32, way: Way, from_us: u64, to_us: u64) -> Wait {
    Wait { thread, way, from_us, to_us, samples: 4, turns: None, is_cut: false, is_open: false }
}

fn woke(at_us: u64, error_us: u64) -> Woke {
    Woke { at_us, error_us }
}

#[test]
fn times_of_several_threads_that_write_are_counted_once() {
    let mut others = Others::default();
    for (thread, from_us, to_us) in [(2, 0, 150), (3, 120, 200), (2, 130, 140), (2, 400, 900), (1, 0, 500)] {
        others.add(&of(thread, Way::Syncing, from_us, to_us));
        others.add(&of(thread, Way::Queued, from_us, to_us));
    }
    let open = [of(4, Way::Syncing, 300, 420), of(4, Way::Queued, 350, 470), of(4, Way::Blocked, 0, 500)];
    let own = of(1, Way::Blocked, 100, 500);
    assert_eq!((others.synced_us(&own, &open), others.queued_us(&own, &open)), (300, 120), "its own are left out");
}

#[test]
fn many_that_wait_for_a_cpu_do_not_make_a_write_forgotten() {
    let mut others = Others::default();
    others.add(&of(2, Way::Syncing, 0, 400));
    (0..2 * MOST_OTHERS as u64).for_each(|at_us| others.add(&of(3, Way::Queued, at_us, at_us + 1)));
    assert_eq!(others.synced_us(&of(1, Way::Blocked, 100, 500), &[]), 300);
}

/// How long the parts of a wait for a CPU are whose thread had turns at these times.
fn lengths(wait: &Wait, turns: &[u64], ran: &[Ran], until_us: u64) -> Vec<u64> {
    statements(wait, turns.iter().copied(), ran, until_us).iter().map(Wait::length_us).collect()
}

#[test]
fn an_open_wait_is_not_cut_where_no_answer_could_tell_yet() {
    let wait = Wait { is_open: true, ..of(1, Way::Queued, 0, 1000) };
    let ran = [Ran { from_us: 0, to_us: 700, is_prompt: true }];
    assert_eq!(lengths(&wait, &[500, 900], &ran, u64::MAX), [900, 100]);
    assert_eq!(lengths(&wait, &[500, 900], &ran, 700), [1000], "the statement may go on");
}

#[test]
fn what_lies_before_the_oldest_turn_that_is_kept_is_not_told() {
    let wait = of(1, Way::Queued, 0, 10_000);
    let turns: VecDeque<Woke> = (0..MOST_WOKEN as u64).map(|nth| woke(9_000 + nth, 0)).collect();
    let rest = since_turns_are_known(&wait, &turns, &[]);
    assert_eq!((rest.from_us, rest.is_cut), (9_000, true));
    let ran = [Ran { from_us: 0, to_us: 9_500, is_prompt: true }];
    assert_eq!(since_turns_are_known(&wait, &turns, &ran), wait, "the server said that one statement ran");
    let few: VecDeque<Woke> = [woke(9_000, 0)].into();
    assert_eq!(since_turns_are_known(&wait, &few, &[]), wait, "no turn was forgotten");
}

/// Thread 1, of a pool, waits for its next client until 2 s, then for a lock until 2.4 s, then for its next client again. `tells_age`: whether the server tells how old
/// statements are; `counts`: whether the kernel counts turns on a CPU. Returns the stalls, and how often the server was asked.
fn of_a_pool(tells_age: bool, counts: bool) -> (Vec<Stall>, u32) {
    const BEGINS_US: u64 = 2_000_000;
    const ENDS_US: u64 = 2_400_000;
    let mut it = watching(Dialect::Mysql, false, 0);
    let list = |at_us: u64| {
        let is_in = (BEGINS_US..ENDS_US).contains(&at_us);
        let age_us = Some(at_us.saturating_sub(BEGINS_US)).filter(|_| tells_age && is_in);
        let says = if is_in { Says::RowLock } else { Says::Idle };
        let sessions = Some(vec![Session { age_us, ..session(1, says) }]);
        Answer { asked_us: at_us, answered_us: at_us + 500, sessions, ..Answer::default() }
    };
    it.answer(list(0));
    let (mut stalls, mut asked) = (Vec::new(), 0);
    for at_us in (1000..4_000_000).step_by(10_000) {
        let turns = u64::from(at_us >= BEGINS_US) + u64::from(at_us >= ENDS_US);
        let sched = counts.then_some(Sched { turns, ..Sched::default() });
        it.sample(at_us, &[Sample { thread: 1, doing: Doing::Blocked, sched, stop: None }]);
        if it.wants(at_us).sessions || at_us % 1_000_000 == 1000 {
            asked += 1;
            it.answer(list(at_us));
        }
        stalls.extend(it.settled(at_us));
    }
    let (last, _, _) = it.finish(WatchCost { elapsed_us: 4_000_000, ..WatchCost::default() }, None, Vec::new());
    stalls.extend(last);
    (stalls, asked)
}

#[test]
fn the_time_without_a_client_is_no_part_of_the_wait_for_a_lock() {
    for (tells_age, counts) in [(true, true), (false, true), (true, false), (false, false)] {
        let (stalls, asked) = of_a_pool(tells_age, counts);
        let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
        // without turns, the last answers before and after tell it
        let error_us = if counts { 2 * STEP_US } else { 250_000 };
        assert!(stall.cause == Cause::RowLock && stall.length_us.abs_diff(400_000) <= error_us, "{stall:#?}");
        assert!(asked <= if counts { 12 } else { 40 }, "{asked} times");
    }
}

/// The ends of the parts of a wait of 4 s, in milliseconds, between two looks at 1000 and 1500 ms a turn on a CPU. `said`: when the server was asked, and its
/// answer.
fn cut_ms(said: &[(u64, Says)], error_us: u64) -> Vec<u64> {
    let mut known = Known::default();
    for (asked_ms, says) in said {
        let (asked_us, sessions) = (asked_ms * 1000, Some(vec![session(1, *says)]));
        known.answer(Answer { asked_us, answered_us: asked_us + 500, sessions, ..Answer::default() });
    }
    let mut woken = Woken::default();
    woken.add(1, woke(1_250_000, error_us));
    let parts = woken.parts(&of(1, Way::Blocked, 0, 4_000_000), &known);
    parts.iter().map(|part| part.to_us / 1000).collect()
}

#[test]
fn between_two_rare_looks_a_turn_ends_the_wait_that_the_answers_name() {
    let (lock, sync) = (Says::MetadataLock, Says::Sync);
    let rare = |said: &[(u64, Says)]| cut_ms(said, 250_000);
    assert_eq!(rare(&[(1020, lock), (1130, sync)]), [1130, 4000], "the turn was before the second answer");
    assert_eq!(rare(&[(1200, lock), (1300, sync)]), [1250, 4000], "as with looks at short intervals");
    assert_eq!(rare(&[(1480, lock), (1600, sync)]), [1380, 4000], "an answer may be 100 ms old");
    assert_eq!(rare(&[(1020, lock), (1130, sync), (1240, lock)]), [1130, 4000], "one turn ends one wait");
    assert_eq!(rare(&[(1620, lock), (1730, sync)]), [4000], "the turn was before");
    assert_eq!(rare(&[(1400, Says::Idle), (1600, lock)]), [1400, 4000], "no client until then");
    assert_eq!(cut_ms(&[(1020, lock), (1130, sync)], 5000), [4000], "the turn was later for sure");
    assert_eq!(cut_ms(&[(1020, lock), (1238, sync)], 5000), [4000], "by what the looks tell");
}

#[test]
fn a_thread_may_have_been_awake_as_late_as_at_the_look_after_it() {
    let mut woken = Woken::default();
    woken.add(1, woke(500_000, 100_000));
    assert!(woken.has_woken_since(1, 600_000) && !woken.has_woken_since(1, 600_001));
    woken.add(1, woke(700_000, 5_000));
    assert!(woken.has_woken_since(1, 720_000) && !woken.has_woken_since(1, 720_001));
}
