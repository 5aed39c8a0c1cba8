// SPDX-License-Identifier: Apache-2.0
//! Slow statements against a server whose time is scripted: each is kept with its own begin and end, and nothing else is.

use super::super::{LoadSpec, slow};
use super::{MS, Point, drive, scripted};
use evidence::{Arrivals, SlowStatements};
use std::time::Duration;

/// The tenth execution, and each tenth after it, takes 30 ms, the others 1 ms.
fn mostly_fast(number: u64) -> u64 {
    if number % 10 == 9 { 30 * MS } else { MS }
}

fn measure(slow_ms: Option<u64>, arrivals: Arrivals, events: u64) -> (SlowStatements, evidence::Phase) {
    let (fake, clock) = scripted(mostly_fast);
    let spec = LoadSpec {
        arrivals,
        events: Some(events),
        time: None,
        slow: slow_ms.map(Duration::from_millis),
        scripted_clock: Some(clock),
        ..Point::spec()
    };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    (measured.slow.clone().unwrap_or_default(), measured)
}

#[test]
fn each_statement_over_the_threshold_is_kept_with_its_begin_and_end() {
    let (slow, measured) = measure(Some(20), Arrivals::Closed, 100);
    assert_eq!((slow.kept.len(), slow.dropped, slow.threshold_us), (10, 0, 20_000));
    for (turn, statement) in (1..).zip(&slow.kept) {
        assert_eq!(statement.to_us - statement.from_us, 30_000, "{statement:?}");
        // each turn has nine statements of 1 ms and one of 30 ms, one after the other
        assert_eq!(statement.to_us - measured.started_us, turn * 39_000, "{statement:?}");
        assert_eq!((statement.connection, statement.class.as_str()), (1, "point_select"));
        assert_eq!((statement.late_us, statement.failed), (0, false));
    }
    let fast = measure(Some(31), Arrivals::Closed, 100).0;
    assert!(fast.kept.is_empty(), "{fast:?}");
}

#[test]
fn without_a_threshold_nothing_is_kept() {
    assert_eq!(measure(None, Arrivals::Closed, 20).1.slow, None);
}

/// In an open loop, the statements after a statement of 30 ms begin late, but are not slow themselves.
#[test]
fn waiting_for_a_connection_makes_no_statement_slow() {
    let (slow, measured) = measure(Some(20), Arrivals::Constant { per_second: 200.0 }, 100);
    assert_eq!(slow.kept.len(), 10, "{slow:?}");
    assert!(measured.transaction.response.percentile_ns(85.0) >= 20 * MS, "others waited as long");
    assert!(slow.kept.iter().all(|statement| statement.to_us - statement.from_us == 30_000), "{slow:?}");
}

#[test]
fn more_than_there_is_room_for_are_counted() {
    let most = slow::MOST as u64;
    let (kept, measured) = measure(Some(1), Arrivals::Closed, most + 5);
    assert_eq!(kept.kept.len() as u64 + kept.dropped, measured.transactions);
    assert_eq!((kept.kept.len() as u64, kept.dropped), (most, 5));
}
