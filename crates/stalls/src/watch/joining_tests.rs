// SPDX-License-Identifier: Apache-2.0
use super::super::sample::{Answer, Doing, Sample, Says, Sched, Session};
use super::super::testing::{STEP_US, session, watching};
use super::super::{WatchCost, Watched};
use crate::explained::Stall;
use sql::Dialect;

const BEGINS_US: u64 = 500_000;

/// A connection that waits for a lock from 0.5 s on.
struct Waits {
    for_us: u64,
    says: Says,
    /// When each statement begins; after the first one, the thread has had two turns on a CPU.
    statements_us: Vec<u64>,
    /// When the thread has two turns, although its statement goes on.
    wakes_us: Option<u64>,
    /// Whether the server says for how long a statement has run.
    tells_age: bool,
}

const ONE: Waits = Waits {
    for_us: 1_500_000,
    says: Says::RowLock,
    statements_us: Vec::new(),
    wakes_us: Some(1_500_000),
    tells_age: true,
};

impl Waits {
    fn session(&self, at_us: u64) -> Session {
        let waits = (BEGINS_US..BEGINS_US + self.for_us).contains(&at_us);
        let began_us = self.statements_us.iter().rev().find(|it| **it <= at_us).copied().unwrap_or(BEGINS_US);
        Session {
            statement: Some("UPDATE t SET a = 1".to_owned()),
            age_us: self.tells_age.then(|| at_us.saturating_sub(began_us)),
            blocked_by: vec![7],
            ..session(1, if waits { self.says } else { Says::Idle })
        }
    }

    fn sample(&self, at_us: u64) -> Sample {
        let waits = (BEGINS_US..BEGINS_US + self.for_us).contains(&at_us);
        let woke = self.statements_us.iter().chain(&self.wakes_us).filter(|it| **it <= at_us).count();
        let sched = Some(Sched { turns: 2 * woke as u64, ..Sched::default() });
        Sample { thread: 1, doing: if waits { Doing::Blocked } else { Doing::Idle }, sched, stop: None }
    }

    /// The stalls that are told while it lasts and after it, and the longest one that was told to go on.
    fn told(&self) -> (Vec<Stall>, u64, Watched) {
        let mut it = watching(Dialect::Postgresql, false, 0);
        let answer = |at_us: u64| Answer {
            asked_us: at_us,
            answered_us: at_us + 500,
            sessions: Some(vec![self.session(at_us)]),
            ..Answer::default()
        };
        it.answer(answer(0));
        let (mut stalls, mut longest_us) = (Vec::new(), 0);
        for at_us in (1000..BEGINS_US + self.for_us + 1_000_000).step_by(10_000) {
            it.sample(at_us, &[self.sample(at_us)]);
            if it.wants(at_us).sessions {
                it.answer(answer(at_us));
            }
            stalls.extend(it.settled(at_us));
            longest_us = it.going_on(at_us, 50_000).iter().map(|it| it.length_us).max().unwrap_or(0).max(longest_us);
        }
        let cost = WatchCost { elapsed_us: 10_000_000, interval_p50_us: STEP_US, ..WatchCost::default() };
        let (last, watched, _) = it.finish(cost, None, Vec::new());
        stalls.extend(last);
        (stalls, longest_us, watched)
    }

    fn lengths_ms(&self) -> Vec<u64> {
        self.told().0.iter().map(|it| (it.length_us + STEP_US) / 100_000 * 100).collect()
    }
}

/// PostgreSQL looks for a deadlock after a second.
#[test]
fn a_wait_in_which_the_thread_woke_up_is_one_stall() {
    let (stalls, longest_us, watched) = ONE.told();
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert!(stall.length_us.abs_diff(1_500_000) < 2 * STEP_US, "{stall:?}");
    assert!(longest_us.abs_diff(1_500_000) < 2 * STEP_US, "while it goes on: {longest_us}");
    assert_eq!(watched.account.lost_query_us, stall.lost_query_us);
}

/// So many answers come meanwhile that those of the first second are forgotten.
#[test]
fn a_long_wait_in_which_the_thread_woke_up_is_one_stall() {
    assert_eq!(Waits { for_us: 30_000_000, ..ONE }.lengths_ms(), [30_000]);
}

/// Its last part is over before the server is asked whether it is one.
#[test]
fn a_wait_that_ends_soon_after_the_thread_woke_up_is_one_stall() {
    assert_eq!(Waits { for_us: 1_100_000, ..ONE }.lengths_ms(), [1_100]);
}

#[test]
fn waits_of_one_statement_after_another_are_several_stalls() {
    let statements_us = vec![BEGINS_US, 1_500_000];
    assert_eq!(Waits { statements_us, wakes_us: None, ..ONE }.lengths_ms(), [1_000, 500]);
    // nothing says that it is one statement
    assert_eq!(Waits { tells_age: false, ..ONE }.lengths_ms(), [1_000, 500]);
}

/// Many wait for one row of PostgreSQL: each commit wakes the thread up, every 30 ms, and looks are 20 ms apart. Each statement waits for 240 ms, and its transaction ends
/// 30 ms later. `says`: what the server says of the waits.
fn of_a_hot_row(says: Says) -> (u64, u64) {
    const STATEMENT_US: u64 = 270_000;
    let mut it = watching(Dialect::Postgresql, false, 0);
    let is_in = |at_us: u64| at_us > BEGINS_US && at_us % STATEMENT_US < 240_000 && at_us < 5_900_000;
    let list = |at_us: u64| {
        let age_us = Some(at_us % STATEMENT_US);
        let says = if is_in(at_us) { says } else { Says::Idle };
        let session = Session { says, age_us, ..ONE.session(BEGINS_US) };
        // somebody waits for a lock all the time
        let other = Session { connection: 101, thread: Some(2), says: Says::RowLock, ..session.clone() };
        Answer { asked_us: at_us, answered_us: at_us + 500, sessions: Some(vec![session, other]), ..Answer::default() }
    };
    it.answer(list(0));
    let mut stalls = Vec::new();
    for at_us in (1000..7_000_000).step_by(20_000) {
        let doing = if is_in(at_us) { Doing::Blocked } else { Doing::Idle };
        let sched = Some(Sched { turns: 2 * (at_us / 30_000), ..Sched::default() });
        it.sample(at_us, &[Sample { thread: 1, doing, sched, stop: None }]);
        let is_due = at_us % 1_000_000 < 20_000;
        if is_due || it.wants(at_us).sessions {
            it.answer(list(at_us));
        }
        stalls.extend(it.settled(at_us));
    }
    let (last, _, _) = it.finish(WatchCost { elapsed_us: 7_000_000, ..WatchCost::default() }, None, Vec::new());
    stalls.extend(last);
    (stalls.len() as u64, stalls.iter().map(|it| it.lost_query_us).sum())
}

#[test]
fn pieces_of_waits_for_a_hot_row_are_whole_waits_and_short_waits_of_other_kinds_are_none() {
    let (stalls, lost_us) = of_a_hot_row(Says::RowLock);
    // 20 statements of 240 ms each
    assert!((18..=20).contains(&stalls) && lost_us.abs_diff(20 * 240_000) < 600_000, "{stalls} {lost_us}");
    assert_eq!(of_a_hot_row(Says::Busy), (0, 0));
}
