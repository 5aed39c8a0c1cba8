// SPDX-License-Identifier: Apache-2.0
//! Time that stands still: layer, watchdog, supervisor and server are frozen (cgroup freezer, versions 1 and 2) or stopped (SIGSTOP),
//! every subset of them, and go on in every order. The layer serves on, and nobody gets an error. `WRINGER_STANDSTILL=full` takes the
//! limits that the program has, 36 s and 120 s; else they are a tenth. That and `=all` take all 64 orders; else it is every fifth: so many slow
//! directories at once hold each other up.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

#[path = "../standing/mod.rs"]
mod standing;

mod case;
mod orders;
mod server;

use case::{Case, Pace};
use orders::{Member, orders};
use standing::PATIENCE;
use standing::freezer::Means;
use std::time::Duration;
use testkit::{Snapshot, alone, announce_cases, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Starts a case for each order, as many at a time as there are processors and some.
fn start(orders: &[Vec<Member>], pace: &Pace, environment: &[(&str, &str)]) -> Vec<Case> {
    let means = Means::all();
    let numbered: Vec<(usize, &Vec<Member>)> = orders.iter().enumerate().collect();
    let of = |(number, order): &(usize, &Vec<Member>)| {
        Case::start(*number, (*order).clone(), means[number % means.len()], pace, environment)
    };
    numbered
        .chunks(8)
        .flat_map(|chunk| {
            std::thread::scope(|scope| {
                let started: Vec<_> = chunk.iter().map(|one| scope.spawn(move || of(one))).collect();
                started.into_iter().map(|case| case.join().unwrap()).collect::<Vec<_>>()
            })
        })
        .collect()
}

/// All stand still at once, for `lasts` at least, and until `is_noticed` holds for each; then the first of each order goes on, a moment later the
/// second, and so on.
fn stand_still(cases: &mut [Case], lasts: Duration, pace: &Pace, is_noticed: impl Fn(&Case) -> bool) {
    cases.iter_mut().for_each(Case::freeze);
    std::thread::sleep(lasts);
    // a watchdog counts looks: on a busy machine they take longer. Who notices nothing is found by the look afterwards.
    wait_until(PATIENCE, || cases.iter().all(&is_noticed));
    for turn in 0..Member::ALL.len() {
        cases.iter_mut().for_each(|case| case.thaw(turn));
        std::thread::sleep(pace.gap);
    }
}

/// What went wrong, case by case.
fn troubles(cases: &mut [Case], lasts: Duration, pace: &Pace) -> Vec<String> {
    let found = cases.iter_mut().map(|case| {
        let looked = case.look(lasts, pace);
        looked.err().map(|why| format!("{}: {why}", case.name()))
    });
    found.flatten().collect()
}

/// Nothing is lost, and everything is back. While others are still held, an undo says so; when all are undone, none does.
fn end(mut cases: Vec<Case>) -> Vec<String> {
    let mut wrong = of_each(&mut cases, Case::end);
    wrong.extend(of_each(&mut cases, Case::expect_nothing_left));
    wrong
}

/// What is wrong, of all cases side by side.
fn of_each(cases: &mut [Case], work: fn(&mut Case) -> Result<(), String>) -> Vec<String> {
    std::thread::scope(|scope| {
        let done: Vec<_> = cases.iter_mut().map(|case| scope.spawn(move || work(case))).collect();
        done.into_iter().filter_map(|case| case.join().unwrap().err()).collect()
    })
}

#[test]
fn whoever_stood_still_goes_on_in_any_order() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, before, pace) = (alone(), Snapshot::take(), Pace::asked());
    let mut orders = orders();
    assert_eq!(orders.len(), 64);
    if std::env::var_os("WRINGER_STANDSTILL").is_none() {
        orders = orders.into_iter().step_by(5).collect();
    }
    let mut cases = start(&orders, &pace, &[]);
    let mut wrong = Vec::new();
    // beyond the layer's deadline; then beyond the controller's lease, too
    for lasts in [pace.short, pace.long] {
        stand_still(&mut cases, lasts, &pace, |case| case.is_noticed(lasts, &pace));
        wrong.extend(troubles(&mut cases, lasts, &pace));
    }
    wrong.extend(end(cases));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    standing::expect_as_before_by_itself(&before);
    announce_cases("standstill::whoever_stood_still_goes_on_in_any_order", 2 * orders.len());
}

/// The campaign can fail.
#[cfg(feature = "failpoints")]
#[test]
fn a_watchdog_that_kills_a_layer_after_a_stall_is_caught() {
    use Member::{Layer, Server, Supervisor};
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, before, pace) = (alone(), Snapshot::take(), Pace::scaled());
    let orders = [vec![Layer], vec![Server, Layer], vec![Supervisor, Server, Layer]];
    let mut cases = start(&orders, &pace, &[("WRINGER_FORGET", "standstill")]);
    stand_still(&mut cases, pace.short, &pace, Case::layer_is_killed);
    for case in &mut cases {
        let wrong = case.look(pace.short, &pace).expect_err(&case.name());
        assert!(wrong.contains("Transport endpoint is not connected") || wrong.contains("os error"), "{wrong}");
    }
    cases.iter_mut().for_each(Case::give_up);
    drop(cases);
    standing::expect_as_before_by_itself(&before);
    announce_cases("standstill::a_watchdog_that_kills_a_layer_after_a_stall_is_caught", orders.len());
}
