// SPDX-License-Identifier: Apache-2.0
//! A standing server that has ended by itself: `stop`, `start` and `delete` end its run, too. One that is being started is left alone.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::fs;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn run(lab: &Lab, args: &[&str]) -> Ran {
    lab.run(["sandbox"].iter().chain(args))
}

/// Kills it, and waits until nothing of its run is left but the journal.
fn kill(lab: &Lab) {
    let sandboxes = json(&run(lab, &["status", "dead", "-o", "json"]));
    signal(sandboxes["sandboxes"][0]["pid"].as_u64().unwrap(), Signal::KILL);
    let runs = || status(lab)["runs"].as_array().unwrap().clone();
    let is_over = || runs().iter().all(|run| run["processes"].as_array().unwrap().is_empty());
    assert!(wait_until(PATIENCE, is_over), "{:#?}", runs());
    assert_eq!(runs().len(), 1, "its journal is there still");
}

#[track_caller]
fn expect_no_run(lab: &Lab) {
    assert_eq!(status(lab)["runs"].as_array().unwrap().len(), 0, "{:#}", status(lab));
    let folders = fs::read_dir(lab.home().join("journal")).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = folders.filter(|name| name.to_string_lossy().starts_with("20")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn stop_start_and_delete_end_the_run_of_a_server_that_died() {
    let lab = Lab::new(WRINGER);
    let deployed = run(&lab, &["deploy", "postgresql", "--name", "dead"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        testkit::skip!("no postgresql to be had: {}", deployed.stderr);
    }
    deployed.expect_code(0);
    run(&lab, &["start", "dead"]).expect_code(0);
    kill(&lab);
    // two at the same moment: neither ends the other's run
    let both = ["one", "two"].map(|name| lab.start(name, ["sandbox", "start", "dead"]));
    let mut codes = both.map(|mut child| child.wait().unwrap().code());
    codes.sort();
    assert_eq!(codes, [Some(0), Some(3)], "{}\n{}", lab.said("one"), lab.said("two"));

    kill(&lab);
    run(&lab, &["stop", "dead"]).expect_code(0).expect_said(&["had ended by itself"]);
    expect_no_run(&lab);
    run(&lab, &["stop", "dead"]).expect_code(3).expect_said(&["is not running"]);

    run(&lab, &["start", "dead"]).expect_code(0);
    kill(&lab);
    run(&lab, &["delete", "dead"]).expect_code(0);
    expect_no_run(&lab);
}
