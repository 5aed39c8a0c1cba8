// SPDX-License-Identifier: Apache-2.0
//! Real servers, once for each mechanism: the stand-in of the other tests sleeps, these write.

use super::WRINGER;
use super::standing::{expect_as_before, status};
use std::process::Stdio;
use testkit::{Lab, Ran, Snapshot, alone, announce_cases, is_root};

/// Everything a run can change, and little load.
const EXPERIMENT: &str = r#"
schema = 1
name = "crash"
[server]
flavour = "FLAVOUR"
[fill]
rows = 2000
[load]
workload = "oltp_point_select"
time = "1s"
[squeeze]
ram = { hide = "64M" }
server_ram = "SERVER_RAM"
disk = { read = "1ms" }
"#;

fn experiment(lab: &Lab, flavour: &str, server_ram: &str) -> String {
    let text = EXPERIMENT.replace("FLAVOUR", flavour).replace("SERVER_RAM", server_ram);
    lab.write(&format!("{flavour}.toml"), &text).to_str().unwrap().to_owned()
}

/// Layer, memory cgroup, server in both, RAM: so far apart that each point falls between others.
const POINTS: [u32; 5] = [8, 14, 20, 27, 40];

fn a_run_is_killed(flavour: &str, watchdog_too: bool) {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = experiment(&lab, flavour, "256M");
    let before = Snapshot::take();
    let mut crashes = 0;
    for point in POINTS {
        let out = format!("out-{point}");
        let mut command = lab.command(["run", &file, "--yes", "--to", &out]);
        command.env("WRINGER_CRASH", point.to_string()).stdout(Stdio::null());
        if watchdog_too {
            command.env("WRINGER_CRASH_WATCHDOG", "1");
        }
        let ran = Ran::of(&mut command);
        crashes += usize::from(ran.code.is_none());
        assert!(ran.code.is_none() || ran.code == Some(0), "point {point}: {ran:?}");
        lab.run(["undo"]).expect_code(0);
        expect_as_before(&before);
        assert!(lab.run(["undo"]).expect_code(0).stdout.contains("nothing to undo"));
    }
    announce_cases(&format!("real_servers::a_run_is_killed ({flavour})"), crashes);
    assert!(crashes >= 4, "only {crashes} of {} runs were killed: the points are too far out", POINTS.len());
}

#[test]
fn a_run_with_mariadb_is_killed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    a_run_is_killed("mariadb", false);
}

#[test]
fn a_run_with_postgresql_is_killed_with_its_watchdog() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    a_run_is_killed("postgresql", true);
}

/// Killed while it starts a server that is to stand, and the server is stopped by undo all the same.
#[test]
fn a_sandbox_start_is_killed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    lab.run(["sandbox", "deploy", "mariadb", "--name", "killed"]).expect_code(0);
    let before = Snapshot::take();
    for point in [5, 7] {
        let mut command = lab.command(["sandbox", "start", "killed"]);
        command.env("WRINGER_CRASH", point.to_string()).env("WRINGER_CRASH_WATCHDOG", "1");
        let ran = Ran::of(&mut command);
        assert_eq!(ran.code, None, "point {point} is not reached: {ran:?}");
        lab.run(["undo"]).expect_code(0);
        expect_as_before(&before);
        assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
    }
    lab.run(["sandbox", "start", "killed"]).expect_code(0);
    lab.run(["sandbox", "stop", "killed"]).expect_code(0);
    lab.run(["sandbox", "delete", "killed"]).expect_code(0);
    expect_as_before(&before);
    announce_cases("real_servers::a_sandbox_start_is_killed", 2);
}

/// It is limited before it starts, so the limit never falls below what it has; one that it could not start in is refused.
#[test]
fn a_server_that_does_not_fit_is_refused() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = experiment(&lab, "mariadb", "16M");
    let before = Snapshot::take();
    lab.run(["run", &file, "--yes", "--to", "out"]).expect_code(2).expect_said(&["does not hold"]);
    expect_as_before(&before);
    announce_cases("real_servers::a_server_that_does_not_fit_is_refused", 1);
}
