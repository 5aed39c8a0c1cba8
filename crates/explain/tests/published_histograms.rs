// SPDX-License-Identifier: Apache-2.0
//! The two histograms that showed the reads first, read by eye then and by the finder now.
#![allow(clippy::unwrap_used)] // a test

use explain::histograms;
use modes::{Bin, ReadDelay, find};
use std::path::Path;

fn fixture(name: &str) -> Vec<Bin> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/modes").join(name);
    histograms::read(&std::fs::read_to_string(path).unwrap()).unwrap().remove(0).bins
}

#[test]
fn without_a_delay_two_humps_are_seen_and_not_named() {
    let found = find(&fixture("point-select-no-delay.csv"), None);
    let centers: Vec<_> = found.modes.iter().map(|mode| mode.center_us.round()).collect();
    assert_eq!(centers.len(), 2, "{centers:?}");
    assert!((170.0..190.0).contains(&centers[0]) && (800.0..1000.0).contains(&centers[1]), "{centers:?}");
    assert!(found.modes.iter().all(|mode| mode.reads.is_none()) && found.reads_per_query.is_none());
    assert!(found.reason.unwrap().contains("no delay"));
}

#[test]
fn with_ten_milliseconds_they_are_ram_one_read_and_two_reads() {
    let found = find(&fixture("point-select-10ms.csv"), Some(ReadDelay::added(10_000.0)));
    let modes: Vec<_> = found.modes.iter().map(|mode| (mode.reads, mode.count)).collect();
    // by hand: below 5 ms; from 9.7 to 17.4 ms; from 20 ms
    assert_eq!(modes, [(Some(0.0), 698), (Some(1.0), 285), (Some(2.0), 84)]);
    let by_hand = (285.0 + 2.0 * 84.0) / 1067.0;
    assert!((found.reads_per_query.unwrap() - by_hand).abs() < 1e-9);
    assert!((10_000.0..10_600.0).contains(&found.read_us.unwrap()));
    assert_eq!(found.reason, None);
}

#[test]
fn the_same_humps_are_seen_when_the_delay_is_not_told() {
    let found = find(&fixture("point-select-10ms.csv"), None);
    assert_eq!(found.modes.iter().map(|mode| mode.count).collect::<Vec<_>>(), [698, 285, 84]);
}
