// SPDX-License-Identifier: Apache-2.0
//! Real servers, once for each mechanism: the stand-in of the other tests sleeps, these write.

use super::WRINGER;
use super::standing::{expect_as_before, json, status, why_not_offline};
use std::process::Stdio;
use testkit::{Lab, Ran, Snapshot, alone, announce_cases, is_root, takes_every_case};

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
ram = { RAM }
server_ram = "SERVER_RAM"
disk = { read = "1ms" }
"#;

const HOLDER: &str = r#"hide = "64M""#;

fn experiment(lab: &Lab, flavour: &str, ram: &str, server_ram: &str) -> String {
    let text = EXPERIMENT.replace("FLAVOUR", flavour).replace("SERVER_RAM", server_ram).replace("RAM", ram);
    lab.write(&format!("{flavour}.toml"), &text).to_str().unwrap().to_owned()
}

/// Layer, memory cgroup, server in both, RAM: so far apart that each point falls between others.
const POINTS: [u32; 5] = [8, 14, 20, 27, 40];

fn a_run_is_killed(flavour: &str, watchdog_too: bool) {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = experiment(&lab, flavour, HOLDER, "256M");
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
    expect_left_over(&lab);
    announce_cases(&format!("real_servers::a_run_is_killed ({flavour})"), crashes);
    assert!(crashes >= 4, "only {crashes} of {} runs were killed: the points are too far out", POINTS.len());
}

/// No undo deletes data: the sandboxes of the killed runs are there, and are called what they are.
fn expect_left_over(lab: &Lab) {
    let list = json(&lab.run(["sandbox", "list", "-o", "json"]).expect_code(0));
    let sandboxes = list["sandboxes"].as_array().unwrap();
    assert!(!sandboxes.is_empty() && sandboxes.iter().all(|it| it["left_over"] == true), "{list:#}");
    let said = lab.run(["sandbox", "list"]).expect_code(0).stdout;
    let name = sandboxes[0]["name"].as_str().unwrap();
    assert!(said.contains(&format!("`wringer sandbox delete {name}`")), "{said}");
    lab.run(["sandbox", "delete", name]).expect_code(0);
}

/// Supervisor and watchdog are killed when RAM is hidden beside a server under load.
fn killed_with_ram_hidden(lab: &Lab, flavour: &str, ram: &str, step: &str) {
    let file = experiment(lab, flavour, ram, "none");
    let before = Snapshot::take();
    let mut hidden = 0;
    let points = if takes_every_case() { &RAM_POINTS[..] } else { &RAM_POINTS[1..] };
    for point in points {
        let mut command = lab.command(["run", &file, "--yes", "--to", &format!("out-{flavour}-{point}")]);
        command.env("WRINGER_CRASH", point.to_string()).env("WRINGER_CRASH_WATCHDOG", "1").stdout(Stdio::null());
        let ran = Ran::of(&mut command);
        assert_eq!(ran.code, None, "{ram}: point {point} is not reached: {ran:?}");
        hidden += usize::from(status(lab)["runs"][0]["steps"].to_string().contains(step));
        lab.run(["undo"]).expect_code(0);
        expect_as_before(&before);
        assert!(lab.run(["undo"]).expect_code(0).stdout.contains("nothing to undo"));
    }
    assert!(hidden > 0, "{ram}: nothing was hidden at any of {points:?}");
    announce_cases(&format!("real_servers::killed_with_ram_hidden ({flavour}, {ram})"), points.len());
}

/// While RAM is being hidden beside the server, and when both are being given back: the second one alone in the sample.
const RAM_POINTS: [u32; 2] = [32, 35];

#[test]
fn a_run_that_hides_ram_by_a_pool_or_a_balloon_is_killed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    killed_with_ram_hidden(&lab, "mysql", r#"hide = "64M", mechanism = "pool""#, "huge pages of the pool");
    killed_with_ram_hidden(&lab, "postgresql", r#"hide = "64M", mechanism = "balloon""#, "holder");
}

#[test]
fn a_run_that_takes_memory_blocks_offline_is_killed() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    if let Some(why) = why_not_offline(&lab) {
        testkit::skip!("{why}");
    }
    killed_with_ram_hidden(&lab, "mariadb", r#"hide = "128M", mechanism = "offline""#, "memory blocks offline");
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
    let file = experiment(&lab, "mariadb", HOLDER, "16M");
    let before = Snapshot::take();
    lab.run(["run", &file, "--yes", "--to", "out"]).expect_code(2).expect_said(&["does not hold"]);
    expect_as_before(&before);
    announce_cases("real_servers::a_server_that_does_not_fit_is_refused", 1);
}
