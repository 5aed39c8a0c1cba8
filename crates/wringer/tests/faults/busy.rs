// SPDX-License-Identifier: Apache-2.0
//! What is in use when it is to be given back, and helpers of a squeeze that die.

use super::campaign::Bench;
use super::standing::{PATIENCE, is_alive, json, meminfo, process_of, signal};
use rustix::process::Signal;
use std::process::{Child, Command, Stdio};
use testkit::{Lab, announce_cases, is_root, wait_until};

fn delay(lab: &Lab, path: &str) {
    lab.run(["disk", "delay", path, "--read", "1ms"]).expect_code(0);
}

fn sleeper(program: &str, arguments: &[&str], folder: &str) -> Child {
    Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_mount_is_somebodys_working_directory() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::impatient();
    let path = bench.data().to_str().unwrap().to_owned();
    delay(&bench.lab, &path);
    let stands_in_it = sleeper("sleep", &["600"], &path);
    bench.lab.run(["disk", "release", &path]).expect_code(5).expect_said(&["busy", &stands_in_it.id().to_string()]);
    bench.lab.run(["undo"]).expect_code(5);
    end(stands_in_it);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("busy::a_mount_is_somebodys_working_directory", 1);
}

#[test]
fn a_mount_has_another_one_below_it() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let path = bench.data().to_str().unwrap().to_owned();
    let below = format!("{path}/below");
    std::fs::create_dir(&below).unwrap();
    delay(&bench.lab, &path);
    assert!(Command::new("mount").args(["-t", "tmpfs", "theirs", &below]).status().unwrap().success());
    bench.lab.run(["disk", "release", &path]).expect_code(5).expect_said(&["busy"]);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(mounts.contains(&below), "somebody else's mount was taken away");
    assert!(Command::new("umount").arg(&below).status().unwrap().success());
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("busy::a_mount_has_another_one_below_it", 1);
}

/// A namespace that was made meanwhile has a copy of the mount, which is served until it is gone: nobody there is cut off.
#[test]
fn a_mount_is_seen_in_another_namespace() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let path = bench.data().to_str().unwrap().to_owned();
    delay(&bench.lab, &path);
    let elsewhere = sleeper("unshare", &["-m", "--propagation", "private", "sleep", "600"], "/");
    let own = std::fs::read_link("/proc/self/ns/mnt").unwrap();
    let there = || std::fs::read_link(format!("/proc/{}/ns/mnt", elsewhere.id())).is_ok_and(|link| link != own);
    // before `unshare` has executed it, the namespace is not private yet
    let comm = format!("/proc/{}/comm", elsewhere.id());
    let executed = || std::fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep");
    assert!(wait_until(PATIENCE, || there() && executed()));
    let told = format!("(process {}) has it in a mount namespace of its own, at {path}", elsewhere.id());
    bench.lab.run(["disk", "release", &path]).expect_code(5).expect_said(&["is busy: ", &told]);
    assert_eq!(std::fs::read(format!("{path}/file")).unwrap().len(), 64 << 10);
    end(elsewhere);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("busy::a_mount_is_seen_in_another_namespace", 1);
}

/// While it reserves, and while it holds.
#[test]
fn a_holder_is_killed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let hide = bench.lab.command(["ram", "hide", "2G", "--yes"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut hide = hide.unwrap();
    let killed = wait_until(PATIENCE, || {
        let half_way = meminfo("HugePages_Total") > 8;
        let home = format!("WRINGER_HOME={}", bench.lab.home().display());
        let holder = helpers("holder", &home).first().copied();
        holder.filter(|_| half_way).is_some_and(|pid| {
            signal(pid, Signal::KILL);
            true
        })
    });
    assert!(killed && wait_until(PATIENCE, || meminfo("HugePages_Total") == 0));
    hide.wait().unwrap();
    assert_eq!(bench.undone(), Ok(()));

    let said = json(&bench.lab.run(["ram", "hide", "2G", "--yes", "-o", "json"]).expect_code(0));
    signal(process_of(&bench.lab, "holder"), Signal::KILL);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0));
    assert!(
        wait_until(PATIENCE, || !is_alive(said["pid"].as_u64().unwrap())),
        "the squeeze goes on without its holder"
    );
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("busy::a_holder_is_killed", 2);
}

/// Nothing stands unguarded.
#[test]
fn a_watchdog_is_killed() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let data = bench.data();
    for arguments in
        [vec!["ram", "hide", "64M", "--yes"], vec!["disk", "delay", data.to_str().unwrap(), "--read", "1ms"]]
    {
        bench.lab.run(arguments).expect_code(0);
        signal(process_of(&bench.lab, "watchdog"), Signal::KILL);
        assert_eq!(bench.given_back_by_itself().and_then(|()| bench.undone()), Ok(()));
    }
    announce_cases("busy::a_watchdog_is_killed", 2);
}

/// The processes of ours in this role that have this in their environment.
fn helpers(role: &str, variable: &str) -> Vec<u64> {
    let found = Command::new("pgrep").args(["-f", &format!("internal {role}$")]).output().unwrap();
    let pids = String::from_utf8_lossy(&found.stdout).lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<u64>>();
    let has = |pid: &u64| std::fs::read_to_string(format!("/proc/{pid}/environ")).is_ok_and(|it| it.contains(variable));
    pids.into_iter().filter(has).collect()
}
