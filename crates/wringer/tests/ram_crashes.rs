// SPDX-License-Identifier: Apache-2.0
//! The supervisor of hidden RAM dies at every crash point there is. Needs the feature `failpoints`.
#![cfg(feature = "failpoints")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::process::{Child, Stdio};
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
/// More than there are; a run that reaches it has stopped counting.
const TOO_MANY: u32 = 200;

/// The order that `ram hide 64M` would give its supervisor.
fn order(lab: &Lab) -> String {
    let plan = json(&lab.run(["ram", "hide", "64M", "--dry-run", "-o", "json"]).expect_code(0))["plan"].take();
    let lasts = serde_json::json!({ "secs": 600, "nanos": 0 });
    serde_json::json!({ "command": ["wringer", "ram"], "lasts": lasts, "squeeze": { "ram": plan } }).to_string()
}

/// A supervisor that kills itself at crash point `point`, and whose watchdog dies at its first when `watchdog_too`.
fn supervise(lab: &Lab, order: &str, point: u32, watchdog_too: bool) -> Child {
    let mut command = lab.command(["internal", "supervise", "--order", order]);
    command.env("WRINGER_CRASH", point.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    if watchdog_too {
        command.env("WRINGER_CRASH_WATCHDOG", "1");
    }
    command.spawn().unwrap()
}

/// Lets it apply, asks it to release, and returns whether it reached its crash point.
fn crashed(child: &mut Child) -> bool {
    let mut asked = false;
    let ended = wait_until(PATIENCE, || {
        if !asked && meminfo("HugePages_Rsvd") == 32 && std::fs::read_to_string(OVERCOMMIT).unwrap().trim() == "0" {
            signal(u64::from(child.id()), Signal::TERM);
            asked = true;
        }
        child.try_wait().unwrap().is_some()
    });
    assert!(ended, "the supervisor neither applied nor ended");
    child.wait().unwrap().code().is_none()
}

fn every_point(watchdog_too: bool) {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let order = order(&lab);
    let mut points = 0;
    for point in 1..TOO_MANY {
        let mut child = supervise(&lab, &order, point, watchdog_too);
        if !crashed(&mut child) {
            break;
        }
        points = point;
        assert!(
            wait_until(PATIENCE, || meminfo("HugePages_Total") == 0),
            "point {point}: the RAM is not back by itself"
        );
        lab.run(["undo"]).expect_code(0);
        assert!(wait_until(PATIENCE, || Snapshot::take() == before), "point {point}: the host is not as before");
        let left = status(&lab);
        assert_eq!(left["runs"].as_array().unwrap().len(), 0, "point {point}: {left:#}");
    }
    assert!(points > 10, "only {points} crash points were reached");
    assert!(points < TOO_MANY - 1, "the supervisor never came to its end");
    expect_as_before(&before);
}

#[test]
fn the_supervisor_dies_at_every_point() {
    every_point(false);
}

#[test]
fn the_supervisor_dies_at_every_point_and_its_watchdog_too() {
    every_point(true);
}

/// A point at which the cap is raised, found by trying; supervisor and watchdog are dead, and nothing is undone yet.
fn cut_with_the_cap_raised(lab: &Lab) {
    let order = order(lab);
    for point in 1..TOO_MANY {
        let mut child = supervise(lab, &order, point, true);
        assert!(crashed(&mut child), "the cap is never raised");
        if std::fs::read_to_string(OVERCOMMIT).unwrap().trim() != "0" {
            return;
        }
        lab.run(["undo"]).expect_code(0);
    }
}

/// The comparison that the other tests rest on must see it when an undo leaves something out.
#[test]
fn an_undo_that_forgets_a_step_is_noticed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    cut_with_the_cap_raised(&lab);
    lab.command(["undo"]).env("WRINGER_FORGET", "value").output().unwrap();
    let left = Snapshot::take() != before && std::fs::read_to_string(OVERCOMMIT).unwrap().trim() == "32";
    std::fs::write(OVERCOMMIT, "0").unwrap();
    assert!(left, "the snapshot does not see a value that was not put back");
    expect_as_before(&before);
}

#[test]
fn a_value_that_somebody_else_set_is_left_alone_and_named() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    cut_with_the_cap_raised(&lab);
    std::fs::write(OVERCOMMIT, "77").unwrap();
    let undone = lab
        .run(["undo"])
        .expect_code(5)
        .expect_said(&["now '77'", "echo '0' > '/proc/sys/vm/nr_overcommit_hugepages'"]);
    let kept = std::fs::read_to_string(OVERCOMMIT).unwrap();
    std::fs::write(OVERCOMMIT, "0").unwrap();
    assert_eq!(kept.trim(), "77", "{}", undone.stderr);
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);
}
