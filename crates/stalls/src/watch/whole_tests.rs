// SPDX-License-Identifier: Apache-2.0
use super::super::sample::{Answer, Doing, Sample, Says, Sched};
use super::super::testing::{STEP_US, session, watching};
use super::super::{Canary, WatchCost};
use super::*;
use sql::Dialect;

const STOPPED_US: std::ops::Range<u64> = 500_000..800_000;

/// Of five threads: what each does while the server is stopped, and the CPU time that it uses right after it, in microseconds.
const THREADS: [(Doing, u64); 5] = [
    // its client sends nothing; one that reads at the same time
    (Doing::Idle, 40),
    // its client sends a statement, which takes less than the time between two looks
    (Doing::Idle, 200),
    (Doing::Polling(9), 200),
    // it was at work
    (Doing::Faulting, 0),
    (Doing::Blocked, 0),
];

fn list(at_us: u64) -> Answer {
    let sessions = Some((1..=5).map(|thread| session(thread, Says::Idle)).collect());
    Answer { asked_us: at_us, answered_us: at_us + 500, sessions, ..Answer::default() }
}

/// The stalls of a server with these threads that is stopped for 300 ms.
fn told(threads: &[(Doing, u64)], canary: Option<Canary>) -> Vec<Stall> {
    let mut it = watching(Dialect::Mysql, false, 0);
    it.answer(list(0));
    let mut stalls = Vec::new();
    for at_us in (1000..2_000_000).step_by(10_000) {
        let stop = STOPPED_US.contains(&at_us).then_some(Stop::Signal);
        it.stopped(at_us, stop);
        let samples: Vec<Sample> = (1..)
            .zip(threads)
            .map(|(thread, (stopped_in, ran_us))| {
                let cpu_ns = if at_us >= STOPPED_US.end { ran_us * 1000 } else { 0 };
                let doing = if stop.is_some() { *stopped_in } else { Doing::Idle };
                Sample { thread, doing, sched: Some(Sched { cpu_ns, ..Sched::default() }), stop }
            })
            .collect();
        it.sample(at_us, &samples);
        if stop.is_none() && it.wants(at_us).sessions {
            it.answer(list(at_us));
        }
        if at_us > STOPPED_US.end {
            canary.filter(|_| at_us < STOPPED_US.end + STEP_US).into_iter().for_each(|run| it.canary(run));
        }
        stalls.extend(it.settled(at_us));
    }
    let (last, _, _) = it.finish(WatchCost { elapsed_us: 2_000_000, ..WatchCost::default() }, None, Vec::new());
    stalls.extend(last);
    stalls
}

#[test]
fn a_stopped_server_is_one_stall_of_those_whose_clients_waited() {
    let stalls = told(&THREADS, None);
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    let victims: Vec<&str> = stall.victims.iter().filter_map(|it| it.connection.as_deref()).collect();
    assert_eq!((stall.cause, victims), (Cause::Unknown, vec!["102", "103", "104", "105"]), "{stall:#?}");
    assert!(stall.length_us.abs_diff(300_000) <= STEP_US, "{stall:#?}");
    assert!(stall.victims.iter().all(|it| it.length_us.abs_diff(300_000) <= STEP_US), "{stall:#?}");
    assert!(stall.evidence.speaks_for[0].starts_with("the server was stopped by a signal"), "{stall:#?}");
    assert!(!stall.goes_on, "{stall:#?}");
}

#[test]
fn a_stopped_server_that_nobody_asked_is_told_and_has_no_victim() {
    let run = Canary { from_us: 510_000, took_us: 291_000, is_lost: false };
    for canary in [None, Some(run)] {
        let stalls = told(&THREADS[..1], canary);
        let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
        assert_eq!((stall.victim_count, stall.lost_query_us), (0, 0), "{stall:#?}");
        assert!(stall.evidence.speaks_for[0].starts_with("the server was stopped by a signal"), "{stall:#?}");
        assert_eq!(stall.evidence.speaks_for.len(), 1 + usize::from(canary.is_some()), "{stall:#?}");
    }
}

#[test]
fn a_canary_that_waited_is_a_stall_unless_one_of_that_time_is_told() {
    let run = |took_us| Canary { from_us: 100_000, took_us, is_lost: false };
    let told = |took_us: u64| {
        let mut wholes = Wholes::default();
        wholes.canary(run(took_us), 50_000, false);
        wholes
    };
    assert_eq!(told(49_000).over(|_| true), []);
    let [whole] = told(60_000).over(|_| true)[..] else { panic!("one") };
    assert_eq!((whole.from_us, whole.to_us), (100_000, 160_000));
    assert_eq!(told(60_000).over(|_| false), [], "a stall may still come");
    let mut wholes = told(60_000);
    wholes.told(135_000, 500_000);
    assert_eq!(wholes.untold.len(), 1, "less than half of it");
    wholes.told(125_000, 500_000);
    assert_eq!(wholes.over(|_| true), []);
}

#[test]
fn a_stop_that_goes_on_is_told_with_its_length_so_far() {
    let mut it = watching(Dialect::Mysql, false, 0);
    it.answer(list(0));
    for at_us in (1000..6_000_000).step_by(10_000) {
        it.stopped(at_us, (at_us > 500_000).then_some(Stop::Freezer));
    }
    assert_eq!(it.going_on(6_000_000, 5_000_000).iter().map(|it| it.length_us / 100_000).collect::<Vec<_>>(), [55]);
    assert_eq!(it.going_on(6_000_000, 5_600_000), []);
    let (last, _, _) = it.finish(WatchCost { elapsed_us: 6_000_000, ..WatchCost::default() }, None, Vec::new());
    assert!(matches!(last.as_slice(), [stall] if stall.goes_on), "{last:#?}");
}

#[test]
fn a_query_that_needs_nothing_and_has_no_answer_at_the_end_is_a_stall_that_goes_on() {
    let mut it = watching(Dialect::Mysql, false, 0);
    it.answer(list(0));
    it.stop(9_000_000);
    it.canary_waits(Canary { from_us: 1_000_000, took_us: 8_000_000, is_lost: false });
    let (last, _, _) = it.finish(WatchCost { elapsed_us: 9_000_000, ..WatchCost::default() }, None, Vec::new());
    let [stall] = last.as_slice() else { panic!("{last:#?}") };
    assert!(stall.goes_on && stall.length_us == 8_000_000, "{stall:#?}");
}
