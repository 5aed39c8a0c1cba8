// SPDX-License-Identifier: Apache-2.0
//! Figures of a recording by the names that assertions have for them.
#![allow(clippy::unwrap_used)] // a test

mod common;

use evidence::{Arm, Evidence, Format, INVENTORY, Phase, SLOW_STATEMENT, Snapshot, Span};
use explain::{Explained, explain, figure_of_arm};
use ledger::{HostSeen, Inventory, ProcessSeen};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// A server of one process with this much memory.
fn inventory(at_us: u64, mib: u64) -> Snapshot {
    let status = [("VmRSS", mib), ("RssAnon", mib), ("VmPTE", 2), ("VmSize", 4 * mib)];
    let status: BTreeMap<String, u64> = status.map(|(name, mib)| (name.to_owned(), mib * MIB)).into();
    let process = ProcessSeen { pid: 7, status, ..ProcessSeen::default() };
    let seen = Inventory { processes: vec![process], host: HostSeen::default(), ..Inventory::default() };
    Snapshot {
        at_us,
        arm: Some("a".into()),
        source: INVENTORY.into(),
        entity: String::new(),
        format: Format::Json,
        content: serde_json::to_string(&seen).unwrap(),
    }
}

fn figure(evidence: &Evidence, explained: &Explained, name: &str) -> Option<f64> {
    figure_of_arm(evidence, explained, "a", name)
}

#[test]
fn the_memory_is_that_of_the_load_and_not_of_the_rest_after_it() {
    let measured = Phase { started_us: 1_000_000, elapsed_us: 4_000_000, ..Phase::default() };
    let arm = Arm { load: Some(common::load("mysql", 1, measured)), ended_us: 9_000_000, ..Arm::begun("a", 0) };
    let snapshots = vec![inventory(2_000_000, 100), inventory(4_900_000, 200), inventory(6_000_000, 50)];
    let evidence = Evidence { arms: vec![arm], snapshots, ..Evidence::default() };
    let explained = explain(&evidence);
    let of = |name: &str| figure(&evidence, &explained, name);
    assert_eq!(of("memory.rss"), Some((200 * MIB) as f64));
    assert_eq!(of("memory.page_tables"), Some((2 * MIB) as f64));
    let (total, unexplained) = (of("memory.total").unwrap(), of("memory.unexplained").unwrap());
    assert!(total >= (200 * MIB) as f64 && unexplained <= total, "{total}, {unexplained}");
    assert!((of("memory.explained").unwrap() - (1.0 - unexplained / total)).abs() < 1e-9);
    assert_eq!(figure_of_arm(&evidence, &explained, "b", "memory.rss"), None, "no memory of another arm");
}

#[test]
fn the_memory_of_a_recording_that_was_cut_off_is_its_last() {
    let snapshots = vec![inventory(2_000_000, 100), inventory(4_900_000, 200)];
    let arm = Arm { name: "a".into(), ..Arm::observed(0) };
    let evidence = Evidence { arms: vec![arm], snapshots, elapsed_us: 5_000_000, ..Evidence::default() };
    assert_eq!(figure(&evidence, &explain(&evidence), "memory.rss"), Some((200 * MIB) as f64));
}

/// An arm whose load kept the statements that took 20 ms or longer: one for each of these lengths, on a connection of its own.
fn slow(lengths_us: &[u64]) -> Evidence {
    let attributes = |all: &[(&str, String)]| all.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let span = |kind: &str, from_us: u64, to_us: u64, told: &[(&str, String)]| Span {
        from_us,
        to_us,
        kind: kind.into(),
        entity: "a".into(),
        attributes: attributes(told),
    };
    let mut spans = vec![span("load.measured", 1_000_000, 5_000_000, &[("slow_threshold_us", "20000".into())])];
    spans.extend((1..).zip(lengths_us).map(|(connection, length_us)| {
        let told = [("connection", format!("{connection}")), ("class", "point_select".to_owned())];
        span(SLOW_STATEMENT, 1_500_000, 1_500_000 + length_us, &told)
    }));
    let mut measured = Phase { started_us: 1_000_000, elapsed_us: 4_000_000, ..Phase::default() };
    let usual = &mut measured.statements.entry("point_select".into()).or_default().service;
    (0..1000).for_each(|_| usual.record(100_000));
    let arm = Arm { load: Some(common::load("mysql", 2, measured)), ended_us: 5_000_000, ..Arm::begun("a", 0) };
    Evidence { arms: vec![arm], spans, conditions: common::conditions("mariadb"), ..Evidence::default() }
}

#[test]
fn stalls_are_counted_where_they_were_looked_for() {
    let none = slow(&[]);
    let explained = explain(&none);
    for name in ["count", "victims", "longest", "lost", "unexplained", "share"] {
        assert_eq!(figure(&none, &explained, &format!("stalls.{name}")), Some(0.0), "{name}");
    }
    let two = slow(&[300_000, 310_000]);
    let explained = explain(&two);
    let of = |name: &str| figure(&two, &explained, name);
    assert_eq!(
        (of("stalls.count"), of("stalls.victims"), of("stalls.longest")),
        (Some(1.0), Some(2.0), Some(310_000.0))
    );
    assert_eq!(of("stalls.lost"), of("stalls.unexplained"), "nothing names the cause");
    assert!(of("stalls.share").is_some_and(|share| share > 0.0));
    let unwatched = Evidence { arms: vec![Arm::begun("a", 0)], ..Evidence::default() };
    assert_eq!(figure(&unwatched, &explain(&unwatched), "stalls.count"), None, "nobody looked");
}
