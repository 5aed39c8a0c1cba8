// SPDX-License-Identifier: Apache-2.0
//! The supervisor of hidden RAM dies at its crash points, at every third one or with `WRINGER_FAULTS=full` at each; that of a holder does so in `faults`. Needs the feature `failpoints`.
#![cfg(feature = "failpoints")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
/// More than there are; a run that reaches it has stopped counting.
const TOO_MANY: u32 = 200;

/// One way to hide RAM, and how a test sees from outside that it is hidden, and that it is back.
struct Mechanism {
    name: &'static str,
    size: &'static str,
    is_hidden: fn(&Lab) -> bool,
    /// Back without `wringer undo` when the supervisor and its watchdog are dead.
    back_by_itself: bool,
    is_back: fn(&Lab) -> bool,
}

const HOLDER: Mechanism = Mechanism {
    name: "holder",
    size: "64M",
    is_hidden: |_| meminfo("HugePages_Rsvd") == 32 && value(OVERCOMMIT) == "0",
    back_by_itself: true,
    is_back: |_| meminfo("HugePages_Total") == 0,
};

const BALLOON: Mechanism = Mechanism {
    name: "balloon",
    size: "64M",
    is_hidden: |lab| balloons(lab).iter().any(|pid| resident_shared_kib(*pid) >= 64 << 10),
    back_by_itself: true,
    is_back: |lab| balloons(lab).is_empty(),
};

/// Nobody holds it: with supervisor and watchdog dead it stays until `wringer undo`.
const POOL: Mechanism = Mechanism {
    name: "pool",
    size: "64M",
    is_hidden: |_| value("/proc/sys/vm/nr_hugepages") == "32",
    back_by_itself: false,
    is_back: |_| value("/proc/sys/vm/nr_hugepages") == "0",
};

/// Two blocks of 128 MiB.
const OFFLINE: Mechanism = Mechanism {
    name: "offline",
    size: "256M",
    is_hidden: |_| offline_blocks() == 2,
    back_by_itself: false,
    is_back: |_| offline_blocks() == 0,
};

fn value(path: &str) -> String {
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// The balloon processes of this home.
fn balloons(lab: &Lab) -> Vec<u32> {
    let home = format!("WRINGER_HOME={}", lab.home().display());
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let has = |pid: u32, file: &str, word: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
    };
    pids.filter(|pid| has(*pid, "cmdline", "balloon") && has(*pid, "environ", &home)).collect()
}

fn resident_shared_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The order that `ram hide` would give its supervisor.
fn order(lab: &Lab, mechanism: &Mechanism) -> String {
    let args = ["ram", "hide", mechanism.size, "--mechanism", mechanism.name, "--dry-run", "-o", "json"];
    let plan = json(&lab.run(args).expect_code(0))["plan"].take();
    let lasts = serde_json::json!({ "secs": 600, "nanos": 0 });
    let squeeze = serde_json::json!({ "command": ["wringer", "ram"], "lasts": lasts, "strict": false, "squeeze": { "ram": plan } });
    serde_json::json!({ "role": "supervise", "order": { "squeeze": squeeze } }).to_string()
}

/// A supervisor that kills itself at crash point `point`, and whose watchdog dies at its first when `watchdog_too`.
fn supervise(lab: &Lab, order: &str, point: u32, watchdog_too: bool) -> Child {
    supervisor(lab, order, point, watchdog_too).spawn().unwrap()
}

fn supervisor(lab: &Lab, order: &str, point: u32, watchdog_too: bool) -> Command {
    let mut command = lab.command(["internal", "supervise"]);
    let file = lab.home().join("order.json");
    std::fs::write(&file, order).unwrap();
    command.stdin(std::fs::File::open(file).unwrap());
    command.env("WRINGER_CRASH", point.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    if watchdog_too {
        command.env("WRINGER_CRASH_WATCHDOG", "1");
    }
    command
}

/// Lets it apply, asks it to release, and returns whether it reached its crash point.
fn crashed(lab: &Lab, mechanism: &Mechanism, child: &mut Child) -> bool {
    let mut asked = false;
    let ended = wait_until(PATIENCE, || {
        if !asked && (mechanism.is_hidden)(lab) {
            signal(u64::from(child.id()), Signal::TERM);
            asked = true;
        }
        child.try_wait().unwrap().is_some()
    });
    assert!(ended, "the supervisor neither applied nor ended");
    child.wait().unwrap().code().is_none()
}

fn every_point(mechanism: &Mechanism, watchdog_too: bool) {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let order = order(&lab, mechanism);
    let mut points = 0;
    // a sample takes every third point, and others when the watchdog dies as well
    let is_full = testkit::takes_every_case();
    let step = if is_full { 1 } else { 3 };
    for point in (1 + u32::from(watchdog_too && !is_full)..TOO_MANY).step_by(step) {
        let mut child = supervise(&lab, &order, point, watchdog_too);
        if !crashed(&lab, mechanism, &mut child) {
            break;
        }
        points = point;
        if mechanism.back_by_itself || !watchdog_too {
            assert!(wait_until(PATIENCE, || (mechanism.is_back)(&lab)), "point {point}: the RAM is not back by itself");
        }
        lab.run(["undo"]).expect_code(0);
        if !settles(&before) {
            let _ = writeln!(std::io::stderr(), "point {point}:");
            before.expect_unchanged();
        }
        let left = status(&lab);
        assert_eq!(left["runs"].as_array().unwrap().len(), 0, "point {point}: {left:#}");
    }
    let name = mechanism.name;
    let _ = writeln!(std::io::stderr(), "{name}: crash points up to {points}, watchdog too: {watchdog_too}");
    assert!(points > 10, "only {points} crash points were reached");
    assert!(points < TOO_MANY - 1, "the supervisor never came to its end");
    expect_as_before_by_itself(&before);
}

#[test]
fn the_supervisor_of_a_balloon_dies_at_every_point() {
    every_point(&BALLOON, false);
}

#[test]
fn the_supervisor_of_a_balloon_dies_at_every_point_and_its_watchdog_too() {
    every_point(&BALLOON, true);
}

#[test]
fn the_supervisor_of_a_pool_dies_at_every_point() {
    every_point(&POOL, false);
}

#[test]
fn the_supervisor_of_a_pool_dies_at_every_point_and_its_watchdog_too() {
    every_point(&POOL, true);
}

fn offline_every_point(watchdog_too: bool) {
    let trial = |_alone| why_not_offline(&Lab::new(WRINGER));
    if let Some(why) = trial(alone()) {
        testkit::skip!("{why}");
    }
    every_point(&OFFLINE, watchdog_too);
}

#[test]
fn the_supervisor_of_blocks_offline_dies_at_every_point() {
    offline_every_point(false);
}

#[test]
fn the_supervisor_of_blocks_offline_dies_at_every_point_and_its_watchdog_too() {
    offline_every_point(true);
}

/// A point at which the cap is raised, found by trying; supervisor and watchdog are dead, and nothing is undone yet.
fn cut_with_the_cap_raised(lab: &Lab) {
    let order = order(lab, &HOLDER);
    for point in 1..TOO_MANY {
        let mut child = supervise(lab, &order, point, true);
        assert!(crashed(lab, &HOLDER, &mut child), "the cap is never raised");
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
    expect_as_before_by_itself(&before);
}

/// An undo that leaves the pool out is seen by the same comparison.
#[test]
fn an_undo_that_forgets_the_pool_is_noticed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let order = order(&lab, &POOL);
    let cut = (1..TOO_MANY).any(|point| {
        // its watchdog forgets the pool, too, before it dies
        let mut child = supervisor(&lab, &order, point, true).env("WRINGER_FORGET", "huge_pool").spawn().unwrap();
        assert!(crashed(&lab, &POOL, &mut child), "the pool never grows");
        let grown = value("/proc/sys/vm/nr_hugepages") != "0";
        if !grown {
            lab.run(["undo"]).expect_code(0);
        }
        grown
    });
    assert!(cut, "the pool never grows");
    let ran = testkit::Ran::of(lab.command(["undo"]).env("WRINGER_FORGET", "huge_pool"));
    let pool = value("/proc/sys/vm/nr_hugepages");
    let left = Snapshot::take() != before && pool == "32";
    std::fs::write("/proc/sys/vm/nr_hugepages", "0").unwrap();
    assert!(left, "pool of {pool}, {ran:?}: the snapshot does not see a pool that was not given back");
    expect_as_before_by_itself(&before);
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
    expect_as_before_by_itself(&before);
}
