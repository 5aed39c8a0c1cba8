// SPDX-License-Identifier: Apache-2.0
//! `wringer status` and `wringer undo` with several squeezes, and with none.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use serde_json::Value;
use standing::*;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use testkit::{Lab, Ran, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

#[test]
fn there_is_nothing_to_undo() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    for _ in 0..2 {
        let ran = lab.run(["undo"]).expect_code(0);
        assert!(ran.stdout.contains("nothing to undo"));
    }
    assert_eq!(json(&lab.run(["undo", "-o", "json"]).expect_code(0))["ended"].as_array().unwrap().len(), 0);
    let shown = lab.run(["status"]).expect_code(0);
    assert!(shown.stdout.contains("nothing is changed"));
}

/// However many questions they ask of the host: on a machine with thousands of processes each list of them takes its time.
#[test]
fn status_and_undo_list_the_processes_once() {
    if Command::new("strace").arg("--version").output().is_err() {
        testkit::skip!("needs strace");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    for arguments in [vec!["status"], vec!["undo", "--dry-run"], vec!["undo"]] {
        let log = lab.home().join("opened");
        let ours = lab.command(&arguments);
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-qq", "-e", "trace=open,openat", "-o"])
            .arg(&log)
            .arg(ours.get_program())
            .args(ours.get_args());
        traced.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert!(traced.output().unwrap().status.success(), "{arguments:?}");
        let opened = fs::read_to_string(&log).unwrap();
        let lists = opened.lines().filter(|line| line.contains("\"/proc\", ") || line.contains("\"/proc/\", ")).count();
        assert_eq!(lists, 1, "{arguments:?}\n{opened}");
    }
}

/// Each word that stands behind a run's name.
#[test]
fn the_help_of_status_explains_its_words() {
    let help = Lab::new(WRINGER).run(["status", "--help"]).expect_code(0).stdout;
    for word in ["live", "hot", "standing", "stale", "over", "lost", "foreign"] {
        assert!(help.lines().any(|line| line.split_whitespace().next() == Some(word)), "'{word}' is not in\n{help}");
    }
}

#[test]
fn a_run_that_is_not_there_is_named() {
    let lab = Lab::new(WRINGER);
    lab.run(["undo", "nonsense"]).expect_code(2).expect_said(&["wringer status"]);
    for arguments in [vec!["undo", "w-20200101-000000-0000"], vec!["undo", "w-20200101-000000-0000", "--dry-run"]] {
        lab.run(arguments).expect_code(3).expect_said(&["w-20200101-000000-0000"]);
    }
}

/// An undo leaves a standing server; whoever looks for what a failed test has left must find nothing.
#[test]
fn a_test_that_fails_leaves_no_server() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let home = lab.home().to_owned();
    let deployed = lab.run(["sandbox", "deploy", "postgresql", "--name", "left", "--start"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        testkit::skip!("no postgresql to be had: {}", deployed.stderr);
    }
    deployed.expect_code(0);
    let server = json(&lab.run(["sandbox", "status", "left", "-o", "json"]))["sandboxes"][0]["pid"].as_u64().unwrap();
    let failed = std::thread::spawn(move || {
        let _lab = lab;
        panic!("on purpose");
    });
    assert!(failed.join().is_err());
    assert!(!is_alive(server), "its server stands");
    assert!(!home.exists(), "{} is still there", home.display());
}

/// Two squeezes at once, both cut off: one undo puts both back. Undo of one run leaves the other.
#[test]
fn two_squeezes_live_side_by_side_and_are_undone_together_or_apart() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    let squeeze = || {
        let ram = json(&lab.run(["ram", "hide", "64M", "--yes", "-o", "json"]).expect_code(0));
        let path = folder.to_str().unwrap();
        let disk = json(&lab.run(["disk", "delay", path, "--sync", "1ms", "-o", "json"]).expect_code(0));
        (ram, disk)
    };
    let (ram, disk) = squeeze();
    let live = status(&lab);
    assert!(live["runs"].as_array().unwrap().iter().all(|run| run["condition"] == "live"), "{live:#}");
    lab.run(["undo", ram["run"].as_str().unwrap()]).expect_code(0);
    assert!(testkit::wait_until(SETTLING, || meminfo("HugePages_Total") == 0));
    assert_eq!(status(&lab)["runs"][0]["run"], disk["run"]);
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);

    let (ram, disk) = squeeze();
    let found = status(&lab);
    let watchdogs = found["runs"].as_array().unwrap().iter().map(|run| &run["steps"][0]["processes"][0]);
    let supervisors = [&ram["pid"], &disk["pid"]].into_iter();
    let pids: Vec<u64> = supervisors.chain(watchdogs).map(|it| it.as_u64().unwrap()).collect();
    kill_together(&pids);
    let hot = serde_json::json!([disk["run"]]);
    assert!(
        testkit::wait_until(PATIENCE, || status(&lab)["hot"] == hot),
        "hidden RAM comes back by itself, a mount does not"
    );
    lab.run(["ram", "hide", "64M", "--yes"]).expect_code(3).expect_said(&["was not undone", "wringer undo"]);
    let elsewhere = json(&Lab::new(WRINGER).run(["undo", "-o", "json"]).expect_code(5));
    let cure = format!("WRINGER_HOME={} wringer undo", lab.home().display());
    assert_eq!((&elsewhere["unsure"][0]["run"], &elsewhere["unsure"][0]["cure"]), (&disk["run"], &cure.into()));
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// Of the same user below another home, and of another user: each sees that the other lives, and leaves it alone.
#[test]
fn what_lives_below_another_home_is_told_and_left_alone() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, theirs, own, before) = (alone(), Lab::new(WRINGER), Lab::new(WRINGER), Snapshot::take());
    let stranger = Lab::as_ordinary_user(WRINGER);
    theirs.run(["ram", "hide", "64M", "--yes"]).expect_code(0);
    let holder = process_of(&theirs, "holder");
    let mut squeezed = stranger.command(["squeeze", "--no-probe", "--cpuset", "0", "--", "sleep", "600"]);
    let mut squeezed = Killed(squeezed.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let begun = || status(&stranger)["runs"].as_array().is_some_and(|runs| runs.len() == 1);
    assert!(testkit::wait_until(PATIENCE, begun), "the squeeze does not begin");
    for lab in [&own, &stranger] {
        let ran = lab.run(["status"]).expect_code(0);
        let shown = ran.stdout + &ran.stderr;
        assert!(!shown.contains("lost") && !shown.contains("hot"), "{shown}");
    }
    let ran = own.run(["status"]).expect_code(0);
    let shown = ran.stdout + &ran.stderr;
    let where_it_is = format!("WRINGER_HOME={} wringer status", theirs.home().display());
    assert!(shown.contains("is live, below another WRINGER_HOME") && shown.contains(&where_it_is), "{shown}");
    let _ = own.run(["undo"]).expect_code(0);
    let _ = own.run(["ram", "release"]).expect_code(0);
    assert!(is_alive(holder) && squeezed.0.try_wait().unwrap().is_none(), "an undo of another home ended it");
    let _ = stranger.run(["undo"]).expect_code(0);
    assert!(is_alive(holder), "an undo of another user ended it");
    assert!(testkit::wait_until(PATIENCE, || squeezed.0.try_wait().unwrap().is_some()), "his own is ended");
    let _ = theirs.run(["undo"]).expect_code(0);
    expect_as_before(&before);
}

/// As root behind sudo starts the server of a sandbox: the user who called sudo sees the server and its cgroup, and not the rest of the run.
#[test]
fn a_run_of_root_is_roots_whoever_its_server_is() {
    if !is_root() || squeeze::cgroup::writable("cpu").is_err() {
        testkit::skip!("needs root, and the right to make a cgroup of the controller cpu");
    }
    let (_alone, theirs, own) = (alone(), Lab::new(WRINGER), Lab::as_ordinary_user(WRINGER));
    let uid = fs::metadata(own.home()).unwrap().uid();
    let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
    let server = ["setpriv", &user, &group, "--clear-groups", "sleep", "600"];
    let _server = Killed(theirs.start("squeezed", ["squeeze", "--cpus", "1", "--"].iter().chain(&server)));
    let mut seen = status(&own)["lost"].take();
    let is_seen = |lost: &Value| lost.to_string().contains("sleep (process");
    assert!(testkit::wait_until(PATIENCE, || is_seen(&seen) || {
        seen = status(&own)["lost"].take();
        false
    }));
    assert_eq!(seen[0]["condition"], "foreign", "{seen:#}");
    let undone = own.run(["undo"]).expect_code(0).expect_said(&["of the user with uid 0"]);
    assert!(undone.stdout.contains("nothing to undo"), "{undone:?}");
}

/// A relative home is the same one from wherever it is looked at.
#[test]
fn a_relative_home_is_told_as_an_absolute_one() {
    let lab = Lab::new(WRINGER);
    let mut command = lab.command(["status"]);
    let ran = Ran::of(command.env("WRINGER_HOME", "relative").current_dir(lab.home())).expect_code(0);
    let journals = format!("journals in {}", lab.home().canonicalize().unwrap().join("relative/journal").display());
    assert!(ran.stderr.contains(&journals), "{}{}", ran.stdout, ran.stderr);
}
