// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --disk`: a standing server on a slow disk, also without root, and nothing of it is left afterwards.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use std::time::{Duration, Instant};
use testkit::{Lab, Ran, Snapshot, alone};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const SYNC: Duration = Duration::from_millis(300);

/// The shortest of five commits, each of which waits for the disk once at least; and of five looks in turns with them, which do not.
fn commit_and_look(lab: &Lab) -> (Duration, Duration) {
    let took = |statement: &str| {
        let began = Instant::now();
        lab.run(["sandbox", "use", "slow", statement]).expect_code(0);
        began.elapsed()
    };
    let both = (0..5).map(|_| (took("INSERT INTO t VALUES (1)"), took("SELECT 1")));
    let (commits, looks): (Vec<_>, Vec<_>) = both.unzip();
    (commits.into_iter().min().unwrap(), looks.into_iter().min().unwrap())
}

fn check(lab: &Lab) {
    let run = |words: &[&str]| -> Ran { lab.run([&["sandbox"], words].concat()) };
    run(&["deploy", "mariadb", "--name", "slow", "--start"]).expect_code(0);
    run(&["use", "slow", "CREATE TABLE t (a INT)"]).expect_code(0);
    run(&["use", "slow", "INSERT INTO t VALUES (1), (1), (1), (1), (1)"]).expect_code(0);
    run(&["stop", "slow"]).expect_code(0);

    let disk = format!("sync={}ms,read=5ms", SYNC.as_millis());
    let started = run(&["start", "slow", "--disk", &disk]).expect_code(0);
    assert!(started.stderr.contains("started slow for 1 h"), "{}", started.stderr);
    assert!(started.stderr.contains("  disk    "), "{}", started.stderr);
    let (commit, look) = commit_and_look(lab);
    assert!(commit >= SYNC, "a commit took {commit:?} on the slow disk, a look {look:?}; {}", started.stderr);
    assert!(look < commit, "a look took {look:?}, a commit {commit:?}");
    run(&["stop", "slow"]).expect_code(0);
    assert!(status(lab)["runs"].as_array().unwrap().is_empty(), "{:#}", status(lab));

    // the data are the same, at full speed
    run(&["start", "slow"]).expect_code(0);
    let rows = run(&["use", "slow", "SELECT count(*) FROM t"]).expect_code(0).stdout;
    assert!(rows.contains("10"), "{rows}");
    run(&["stop", "slow"]).expect_code(0);
    run(&["delete", "slow"]).expect_code(0);
}

#[test]
fn a_standing_server_is_on_a_slow_disk() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let before = Snapshot::take();
    check(&lab);
    expect_as_before(&before);
}

#[test]
fn without_root_too() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let before = Snapshot::take();
    check(&lab);
    expect_as_before(&before);
}

#[test]
fn words_that_are_no_disk_are_refused() {
    let lab = Lab::new(WRINGER);
    let ran = lab.run(["sandbox", "start", "none", "--disk", "gp99"]).expect_code(2);
    assert!(ran.stderr.contains("gp99"), "{}", ran.stderr);
}
