// SPDX-License-Identifier: Apache-2.0
//! Tests the engine against a server with scripted answers, so that the expected result can be computed.

mod fake;
mod last_words;
mod slow;
mod think;
mod truth;

use super::{Hooks, Kept, LoadSpec, PhaseEdge, Progress, run};
use crate::Error;
use evidence::{Arrivals, Clock, LatencyHistogram, LoadResult, Phase};
use fake::{Answer, Fake, ScriptedTime};
use host::clock::RunClock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use workload::rand_core::Rng as _;
use workload::{Kind, Rng, StatementSpec, Transaction, Workload};

const MS: u64 = 1_000_000;
const MANY: u32 = 400;

/// One SELECT of a random key.
struct Point([StatementSpec; 1]);

impl Point {
    fn spec() -> LoadSpec {
        let sql = "SELECT c FROM t WHERE id=$1".to_owned();
        let statement =
            StatementSpec { class: "point_select".into(), kind: Kind::Read, sql, params: 1, returns_rows: true };
        LoadSpec::new("point", Arc::new(Self([statement])))
    }
}

impl Workload for Point {
    fn statements(&self) -> &[StatementSpec] {
        &self.0
    }

    fn next(&self, rng: &mut Rng, transaction: &mut Transaction) {
        transaction.step(0);
        transaction.int(i64::from(rng.next_u32() >> 1));
    }
}

/// Runs `spec`, and calls `at_start` when the measured phase is about to begin.
fn drive(spec: &LoadSpec, fake: &Fake, mut at_start: impl FnMut()) -> Result<LoadResult, Error> {
    let mut hooks = Hooks {
        on_phase: &mut |edge| {
            if edge == PhaseEdge::MeasuredStart {
                at_start();
            }
        },
        on_progress: &mut |_| {},
        progress_interval: None,
        stop: Arc::default(),
    };
    run(spec, &fake.target(), &RunClock::start(), &mut hooks)
}

/// A server whose executions take `service_ns`. Time passes when the server says so, or when the engine waits, as in `truth`.
fn scripted(service_ns: fn(u64) -> u64) -> (Fake, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(0));
    let time = ScriptedTime { clock: clock.clone(), service_ns, stall: Mutex::default() };
    (Fake::scripted(Arc::new(time)), clock)
}

/// Answers only when all connections have asked, so that no connection is ahead. If a connection does not ask within half a minute, the answer is an
/// error.
fn in_step(connections: u64) -> impl Fn(u64) -> Answer + Send + Sync + 'static {
    let (asked, more) = (Mutex::new(0_u64), Condvar::new());
    move |number| {
        let mut now = asked.lock().unwrap();
        *now += 1;
        more.notify_all();
        let all = (number / connections + 1) * connections;
        let (mut now, waited) = more.wait_timeout_while(now, Duration::from_secs(30), |now| *now < all).unwrap();
        if !waited.timed_out() {
            return Answer::Row;
        }
        // after this, no other answer waits for half a minute
        *now += 1 << 40;
        more.notify_all();
        Answer::Error(b"57014")
    }
}

/// `truth` checks the result to the nanosecond. Here real time passes, and a busy machine adds to any of the times.
#[test]
fn a_closed_loop_sees_a_stall_once() {
    let fake = Fake::new(Duration::from_millis(2), |number| {
        if number == 100 {
            std::thread::sleep(Duration::from_millis(500));
        }
        Answer::Row
    });
    let spec = LoadSpec { events: Some(200), time: None, ..Point::spec() };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    let response = &measured.transaction.response;
    assert!(response.min_ns() >= 2 * MS * 999 / 1000);
    assert!(response.max_ns() >= 500 * MS);
    // One transaction follows the other: if the stall were in two of them, they would have taken more time than has passed.
    let sum_us = response.mean_ns() * response.count() as f64 / 1000.0;
    assert!(sum_us <= measured.elapsed_us as f64 * 1.001, "{sum_us} us in {} us", measured.elapsed_us);
    assert_eq!(measured.transaction.response, measured.transaction.service);
    assert_eq!((measured.transactions, fake.executions()), (200, 200));
}

#[test]
fn an_overloaded_open_loop_goes_on_and_says_what_it_did_not_do() {
    // 1000 a second, but the server can do 200.
    let (fake, clock) = scripted(|_| 5 * MS);
    let spec = LoadSpec {
        arrivals: Arrivals::Poisson { per_second: 1000.0 },
        time: Some(Duration::from_millis(500)),
        scripted_clock: Some(clock),
        ..Point::spec()
    };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    let offered = measured.transactions + measured.skipped;
    assert!((400..600).contains(&offered), "offered {offered}");
    assert!(measured.skipped > 300 && measured.backlog_max >= measured.skipped, "skipped {}", measured.skipped);
    // The last served request is about the hundredth: its intended start is at 100 ms, and it ends at 500 ms.
    let longest = measured.transaction.response.max_ns();
    let last = measured.transaction.service.max_ns();
    assert!((340 * MS..500 * MS + last).contains(&longest), "max {longest} ns, and {last} ns the longest answer");
    assert!(measured.transaction.service.min_ns() >= 5 * MS * 999 / 1000);
    assert_those_that_wait_count(&measured);
}

/// 1000 a second for 500 ms, of which the server did a fifth.
fn assert_those_that_wait_count(measured: &Phase) {
    let unended = measured.unended.as_ref().unwrap();
    assert!(unended.service.is_empty(), "they did not start");
    // those that were due in the last millisecond have not waited
    assert!((measured.skipped - 15..=measured.skipped).contains(&unended.response.count()), "{unended:?}");
    let times = measured.times(Clock::Response);
    let median = times.percentile(50.0);
    assert!(median.is_at_least() && median.ns > 150e6, "{median:?}");
    assert!(measured.transaction.response.max_ns() > 340 * MS, "{measured:?}");
}

fn killed_after_50_executions(fake: &Arc<Fake>) -> std::thread::JoinHandle<()> {
    let fake = fake.clone();
    std::thread::spawn(move || {
        while fake.executions() < 50 {
            std::thread::sleep(Duration::from_micros(100));
        }
        fake.kill();
    })
}

/// The server is gone for the last part of the phase, so that the transactions that were due then never start.
#[test]
fn a_server_that_is_gone_until_the_end_is_in_the_response_times() {
    for arrivals in [Arrivals::Constant { per_second: 500.0 }, Arrivals::Closed] {
        let fake = Arc::new(Fake::new(Duration::from_millis(1), |_| Answer::Row));
        let spec = LoadSpec {
            arrivals,
            connections: 2,
            time: Some(Duration::from_secs(2)),
            reconnect_limit: Duration::from_secs(60),
            ..Point::spec()
        };
        let killed = killed_after_50_executions(&fake);
        let measured = drive(&spec, &fake, || {}).unwrap().measured;
        killed.join().unwrap();
        let p99 = measured.times(Clock::Response).percentile(99.0);
        match arrivals {
            Arrivals::Closed => assert!(measured.unended.is_none() && !p99.is_at_least(), "{measured:?}"),
            // the first of them has waited for as long as there was no connection, or longer
            _ => assert!(p99.is_at_least() && p99.us() > 0.9 * measured.unconnected_us as f64, "{measured:?}"),
        }
        assert!((1..=measured.elapsed_us).contains(&measured.unconnected_us), "{measured:?}");
    }
}

#[test]
fn open_loop_arrivals_go_to_any_free_connection() {
    let fake = Fake::new(Duration::from_millis(20), |_| Answer::Row);
    let spec = LoadSpec {
        arrivals: Arrivals::Constant { per_second: 200.0 },
        connections: 8,
        workers: Some(2),
        time: Some(Duration::from_millis(250)),
        ..Point::spec()
    };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!(measured.transactions + measured.skipped, 50);

    // If a statement waited for a busy connection while another one was free, all other statements would wait for it.
    let fake = Fake::new(Duration::ZERO, in_step(8));
    let spec = LoadSpec { arrivals: Arrivals::Constant { per_second: 1000.0 }, events: Some(80), time: None, ..spec };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert!(measured.transactions == 80 && measured.errors.is_empty(), "{measured:?}");
    let shares: Vec<usize> = fake.bound().iter().map(Vec::len).collect();
    assert_eq!(shares, [10; 8], "the load is spread over all connections");
}

#[test]
fn a_number_of_events_ends_the_load_exactly() {
    for (connections, workers) in [(1, 1), (5, 2)] {
        let fake = Fake::new(Duration::ZERO, |_| Answer::Row);
        let spec = LoadSpec { events: Some(503), time: None, connections, workers: Some(workers), ..Point::spec() };
        let result = drive(&spec, &fake, || {}).unwrap();
        assert_eq!((result.measured.transactions, result.measured.reads, fake.executions()), (503, 503, 503));
        assert_eq!(result.connect.count(), u64::from(connections));
    }
}

#[test]
fn hundreds_of_connections_are_all_made() {
    let fake = Fake::new(Duration::from_millis(5), |_| Answer::Row);
    let events = 4 * u64::from(MANY);
    let spec = LoadSpec { events: Some(events), time: None, connections: MANY, ..Point::spec() };
    let result = drive(&spec, &fake, || {}).unwrap();
    assert_eq!((result.measured.transactions, fake.executions()), (events, events));
    assert_eq!((result.connect.count(), fake.bound().len()), (MANY.into(), MANY as usize));
}

#[test]
fn the_warm_up_is_kept_apart() {
    let (fake, clock) = scripted(|_| MS);
    let spec = LoadSpec {
        warmup: Duration::from_millis(200),
        events: Some(10),
        time: None,
        scripted_clock: Some(clock),
        ..Point::spec()
    };
    let mut before = 0;
    let result = drive(&spec, &fake, || before = fake.executions()).unwrap();
    let warmup = result.warmup.unwrap();
    assert!(warmup.transactions > 0);
    assert_eq!(warmup.transactions, before, "nothing is in flight at the edge");
    assert_eq!(result.measured.transactions, 10);
    assert!(result.measured.started_us >= warmup.started_us + warmup.elapsed_us);
}

#[test]
fn a_seed_means_the_same_values_whatever_the_number_of_workers() {
    let values = |workers| {
        // otherwise the first connection may have sent everything before the others begin
        let fake = Fake::new(Duration::ZERO, in_step(4));
        let spec = LoadSpec { events: Some(400), time: None, connections: 4, workers: Some(workers), ..Point::spec() };
        drive(&spec, &fake, || {}).unwrap();
        let mut bound = fake.bound();
        assert_eq!(bound.iter().map(Vec::len).collect::<Vec<_>>(), [100; 4]);
        bound.sort();
        bound
    };
    let (one, two) = (values(1), values(2));
    assert_ne!(one[0], one[1], "connections draw different values");
    assert_eq!(one, two);
}

#[test]
fn a_deadlock_is_counted_rolled_back_and_tried_again() {
    let fake = Fake::new(Duration::ZERO, |number| if number % 10 == 3 { Answer::Error(b"40P01") } else { Answer::Row });
    let spec = LoadSpec { events: Some(90), time: None, ..Point::spec() };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!(measured.transactions, 90);
    assert_eq!(measured.errors.get("40P01"), Some(&10));
    assert_eq!(fake.executions(), 100);
    assert_eq!(fake.transcript(), vec!["ROLLBACK"; 10]);
    assert_eq!(measured.others, 10);
    let bound = fake.bound().concat();
    assert_eq!(bound[3], bound[4], "the same transaction again");
}

#[test]
fn another_error_is_counted_and_its_transaction_given_up() {
    let fake = Fake::new(Duration::ZERO, |number| if number % 10 == 3 { Answer::Error(b"42P01") } else { Answer::Row });
    let spec = LoadSpec { events: Some(100), time: None, ..Point::spec() };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!((measured.transactions, measured.errors.get("42P01")), (90, Some(&10)));
    assert_eq!(measured.timeline.iter().map(|point| point.errors).sum::<u64>(), 10);
}

#[test]
fn a_broken_connection_is_made_again() {
    for connections in [1_u32, 3] {
        let made = connections as usize + 1;
        let fake = Fake::new(Duration::from_millis(1), move |number| match number {
            20 => Answer::HangUp,
            199 => Answer::RowAfter(made),
            _ => Answer::Row,
        });
        let spec = LoadSpec { events: Some(200), time: None, connections, ..Point::spec() };
        let measured = drive(&spec, &fake, || {}).unwrap().measured;
        assert_eq!(measured.errors.get("connection lost"), Some(&1));
        assert_eq!((measured.transactions, fake.executions()), (199, 200));
        assert_eq!(fake.bound().len(), made);
    }
}

#[test]
fn a_server_that_goes_away_ends_the_load_with_what_there_was() {
    for connections in [1, 4] {
        let fake = Arc::new(Fake::new(Duration::from_millis(1), |_| Answer::Row));
        let spec = LoadSpec {
            connections,
            time: Some(Duration::from_secs(60)),
            reconnect_limit: Duration::from_millis(200),
            ..Point::spec()
        };
        let killed = killed_after_50_executions(&fake);
        let error = drive(&spec, &fake, || {}).unwrap_err();
        killed.join().unwrap();
        let Error::ServerLost { partial, phase, .. } = error else { panic!("{error}") };
        assert_eq!(phase, "measured phase");
        // Every execution was acknowledged, except one on each connection.
        let (executed, done) = (fake.executions(), partial.measured.transactions);
        assert!(
            executed >= 50 && (executed - u64::from(connections)..=executed).contains(&done),
            "{done} of {executed}"
        );
        assert_eq!(partial.measured.errors.get("connection lost"), Some(&u64::from(connections)));
    }
}

#[test]
fn a_reply_that_never_comes_does_not_hold_the_load_up_for_ever() {
    for connections in [1, 2] {
        // The clock begins to run when the server falls silent, so that the load is not over before that.
        let clock = Arc::new(AtomicU64::new(0));
        let stopped = Arc::downgrade(&clock);
        let fake = Fake::new(Duration::ZERO, move |number| {
            if number != 30 {
                return Answer::Row;
            }
            let stopped = stopped.clone();
            std::thread::spawn(move || {
                while let Some(clock) = stopped.upgrade() {
                    clock.fetch_add(MS, Ordering::SeqCst);
                    drop(clock);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            Answer::Silence
        });
        let spec = LoadSpec {
            time: Some(Duration::from_millis(100)),
            drain_limit: Duration::from_millis(100),
            connections,
            scripted_clock: Some(clock),
            ..Point::spec()
        };
        let measured = drive(&spec, &fake, || {}).unwrap().measured;
        assert_eq!(measured.errors.get("no reply"), Some(&1));
        assert!(measured.elapsed_us >= 100_000, "rates are over the time without replies, too: {measured:?}");
        let max = measured.times(Clock::Service).max();
        assert!(max.is_at_least() && max.ns > 100.0 * MS as f64, "it lasted for longer than the drain limit: {max:?}");
        assert_eq!(measured.unended_count(), 1);
    }
}

#[test]
fn the_stop_flag_drains_and_keeps_what_was_measured() {
    let fake = Fake::new(Duration::from_millis(1), |_| Answer::Row);
    let stop = Arc::new(AtomicBool::new(false));
    let mut reports: Vec<Progress> = Vec::new();
    let mut hooks = Hooks {
        on_phase: &mut |_| {},
        on_progress: &mut |progress| {
            if progress.connecting.is_none() {
                reports.push(progress.clone());
            }
            // on a busy machine the first interval may be over before anything is done
            stop.fetch_or(progress.transactions > 0, Ordering::Relaxed);
        },
        progress_interval: Some(Duration::from_millis(300)),
        stop: stop.clone(),
    };
    let spec = LoadSpec { connections: 2, time: Some(Duration::from_secs(60)), ..Point::spec() };
    let result = run(&spec, &fake.target(), &RunClock::start(), &mut hooks).unwrap();
    assert_eq!(result.measured.transactions, fake.executions());
    assert!(result.measured.elapsed_us < 30_000_000, "not the minute that was asked for");
    let interval = |report: &Progress| report.elapsed.as_millis() / 300;
    assert!(reports.windows(2).all(|two| interval(&two[0]) < interval(&two[1])), "one an interval: {reports:?}");
    let report = reports.iter().find(|report| report.transactions > 0).expect("a report of what was done");
    assert!(report.response.percentile_ns(50.0) >= MS);
}

/// The last statement costs a worker its only connection, and the server refuses a new one for good; the other worker still has its connection, so the
/// server is not lost.
#[test]
fn a_worker_without_a_connection_ends_when_no_event_is_left() {
    let fake = Fake::new(Duration::ZERO, |number| if number == 19 { Answer::CloseAfter(2) } else { Answer::Row });
    let spec = LoadSpec { events: Some(20), time: None, connections: 2, workers: Some(2), ..Point::spec() };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!((measured.transactions, measured.errors.values().sum::<u64>()), (19, 1));
}

/// The one that the server closed is not made again after its phase, and does not count.
#[test]
fn connections_that_stay_are_handed_over() {
    let fake = Fake::new(Duration::ZERO, |number| if number == 19 { Answer::CloseAfter(3) } else { Answer::Row });
    let kept = Kept::default();
    let stay = Some(kept.clone());
    let spec = LoadSpec { events: Some(20), time: None, connections: 3, workers: Some(2), stay, ..Point::spec() };
    drive(&spec, &fake, || {}).unwrap();
    assert_eq!(kept.count(), 2);
}

#[test]
fn a_first_connection_that_fails_is_an_error_at_once() {
    let fake = Fake::new(Duration::ZERO, |_| Answer::Row);
    let target = fake.target();
    drop(fake);
    let mut hooks =
        Hooks { on_phase: &mut |_| {}, on_progress: &mut |_| {}, progress_interval: None, stop: Arc::default() };
    let error = run(&Point::spec(), &target, &RunClock::start(), &mut hooks).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

/// With the same values, the existing key would fail the transaction forever.
#[test]
fn a_duplicate_key_is_tried_with_other_values_and_not_for_ever() {
    let spec = LoadSpec { events: Some(4), ..Point::spec() };
    let fake = Fake::new(Duration::ZERO, |number| if number < 25 { Answer::Error(b"23505") } else { Answer::Row });
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    let bound = fake.bound().concat();
    let distinct: std::collections::BTreeSet<i32> = bound.iter().copied().collect();
    assert_eq!(distinct.len(), bound.len(), "the same values again: {bound:?}");
    // Ten draws for the first transaction, ten for the second; the third succeeds with its sixth draw.
    let errors: Vec<(&str, u64)> = measured.errors.iter().map(|(code, count)| (code.as_str(), *count)).collect();
    assert_eq!(errors, [("23505", 23), ("23505 (given up after 10 draws)", 2)]);
    assert_eq!((measured.transactions, bound.len()), (2, 27));

    // A transaction that failed because of another transaction's lock keeps its values.
    let fake = Fake::new(Duration::ZERO, |number| if number < 25 { Answer::Error(b"40P01") } else { Answer::Row });
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    let bound = fake.bound().concat();
    assert!(bound[..26].iter().all(|value| *value == bound[0]), "{bound:?}");
    assert_eq!((measured.transactions, measured.errors["40P01"]), (4, 25));
}
