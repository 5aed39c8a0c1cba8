// SPDX-License-Identifier: Apache-2.0
//! What a server did while it was observed, when its counters do not simply grow.
#![allow(clippy::unwrap_used)] // a test

mod common;

use common::figures;
use evidence::{Arm, Evidence, Phase, Point, Series, Witness};
use explain::{Finding, explain};
use serde_json::Value;

const SECOND: u64 = 1_000_000;

/// An observed server, and a load of another host that was measured from second 1 to second 11.
fn observed(flavour: &str) -> Evidence {
    let conditions = common::conditions(flavour);
    let measured =
        Phase { started_us: SECOND, elapsed_us: 10 * SECOND, transactions: 1000, reads: 1000, ..Phase::default() };
    let load = common::load("postgresql", 4, measured);
    let mut joined = Arm { load: Some(load), ended_us: 11 * SECOND, ..Arm::begun("load", SECOND) };
    joined.settings.insert("load.host".into(), "within 1 ms".into());
    Evidence {
        elapsed_us: 12 * SECOND,
        conditions,
        arms: vec![Arm { ended_us: 12 * SECOND, ..Arm::observed(0) }, joined],
        ..Evidence::default()
    }
}

/// Readings at the seconds 0, 4, 8 and 12.
fn series(source: &str, name: &str, values: [f64; 4]) -> Series {
    let points = [0, 4, 8, 12].into_iter().zip(values).map(|(at, value)| Point { at_us: at * SECOND, value });
    let (source, name) = (source.into(), name.into());
    Series { source, entity: String::new(), name, unit: String::new(), cumulative: true, points: points.collect() }
}

fn finding(evidence: &Evidence, id: &str) -> Finding {
    let found = explain(evidence).findings.into_iter().filter(|finding| finding.id() == id);
    let mut found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{id}: {found:#?}");
    found.remove(0)
}

fn doubts(finding: &Finding) -> Vec<&str> {
    finding.doubts.iter().map(|doubt| doubt.id.as_str()).collect()
}

/// A backend that ends takes its time out of `utime`, and PostgreSQL's first process has it in `cutime` from then on: that is no new work.
#[test]
fn the_time_of_processes_that_end_counts_once() {
    let mut evidence = observed("postgresql");
    evidence.samples = vec![
        series("process.stat", "utime", [90e6, 94e6, 8e6, 12e6]),
        series("process.stat", "cutime", [0.0, 0.0, 90e6, 90e6]),
        series("stat", "user", [0.0, 8e6, 16e6, 24e6]),
        series("stat", "idle", [0.0, 0.0, 0.0, 0.0]),
    ];
    let joined = finding(&evidence, "observe.joined");
    assert!(joined.statement.contains("the server used 1.00 CPUs"), "{}", joined.statement);
    assert_eq!(figures(&joined)["server_cpu_us"], 10e6);
    assert_eq!(figures(&finding(&evidence, "limit.by"))["server_cpus"], 1.0);
}

#[test]
fn an_observation_that_was_cut_off_goes_until_the_last_reading() {
    let mut evidence = observed("postgresql");
    evidence.samples = vec![series("process.stat", "utime", [0.0, 4e6, 8e6, 12e6])];
    evidence.arms[0].ended_us = 0;
    let found = finding(&evidence, "observe.server");
    assert_eq!(found.statement, "In 12.0 s the server used 1.00 CPUs.");
    assert_eq!(figures(&found)["elapsed_us"], 12e6);
}

#[test]
fn a_counter_that_began_anew_gives_no_number() {
    let check = |evidence: &Evidence, id: &str, counts: &str, key: &str| {
        let finding = finding(evidence, id);
        assert!(finding.statement.contains(&format!("its count of {counts} began anew")), "{}", finding.statement);
        assert!(!finding.statement.contains("it counted"), "{}", finding.statement);
        assert_eq!(figures(&finding)[key], Value::Null);
        assert!(doubts(&finding).contains(&"observe.began_anew"), "{finding:#?}");
        assert!(!doubts(&finding).contains(&"observe.late_counts"), "{finding:#?}");
    };
    let witness =
        |counter: &str, before, after| Witness { of: "server".into(), counter: counter.into(), before, after };
    // it fell; and it fell, but grew above its first value until the end
    for (values, after) in [([900.0, 950.0, 10.0, 60.0], 60), ([900.0, 10.0, 950.0, 1800.0], 1800)] {
        let mut evidence = observed("postgresql");
        evidence.samples = vec![series("server.pg_stat_database", "xact_commit", values)];
        evidence.arms[0].witnesses = vec![witness("pg_stat_database.xact_commit", 900, after)];
        check(&evidence, "observe.server", "transactions", "transactions");
        check(&evidence, "observe.joined", "transactions", "transactions");
    }
    // only both ends were read
    let mut evidence = observed("mariadb");
    evidence.arms[0].witnesses = vec![witness("Questions", 900, 60)];
    check(&evidence, "observe.server", "statements", "statements");
}

#[test]
fn a_counter_that_began_anew_outside_the_load_is_a_number_for_the_load() {
    let mut evidence = observed("mariadb");
    evidence.arms[1].load.as_mut().unwrap().measured.elapsed_us = 3 * SECOND;
    evidence.samples = vec![series("server.status", "Questions", [0.0, 400.0, 800.0, 10.0])];
    let joined = finding(&evidence, "observe.joined");
    assert_eq!(figures(&joined)["statements"], 300.0);
    assert!(joined.statement.contains("it counted 300 statements"), "{}", joined.statement);
}
