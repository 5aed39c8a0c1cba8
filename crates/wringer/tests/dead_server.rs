// SPDX-License-Identifier: Apache-2.0
//! A standing server that has ended by itself: `stop`, `start` and `delete` end its run, too. One that is being started is left alone.
//! The shared memory that a killed one has left goes with its data directory. The init program of a killed deployment ends with the deployment.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::{Pid, Signal, kill_process};
use standing::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
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
    let left = mapped(&processes(&lab, "dead"));
    assert!(left.len() >= 2, "its System V segment, and its control segment: {left:?}");
    kill(&lab);
    run(&lab, &["delete", "dead"]).expect_code(0);
    expect_no_run(&lab);
    assert!(!left.iter().any(|it| is_there(it)), "{left:?}");
}

/// A deployment whose init program is stopped, so that this program never ends by itself. `None`: the deployment ended before the program was seen.
fn stopped_in_init(lab: &Lab, name: &str) -> Option<(Child, u64)> {
    let mut deployment = lab.start(name, ["sandbox", "deploy", "mariadb", "--fetched", "--name", name]);
    let is_init = |pid: &u64| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| arguments.contains("--bootstrap"))
    };
    loop {
        if let Some(init) = with_children(deployment.id().into()).into_iter().skip(1).find(is_init) {
            let _ = kill_process(Pid::from_raw(i32::try_from(init).unwrap()).unwrap(), Signal::STOP);
            wait_until(PATIENCE, || is_stopped(init) || !is_alive(init));
            return is_stopped(init).then_some((deployment, init));
        }
        if deployment.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_init_program_of_a_killed_deployment_ends_with_it() {
    let lab = Lab::new(WRINGER);
    if lab.run(["sandbox", "deploy", "mariadb", "--fetched", "--name", "first"]).code == Some(3) {
        testkit::skip!("no mariadb to be had");
    }
    let names = ["second", "third", "fourth", "fifth"];
    let (name, (mut deployment, init)) =
        names.iter().find_map(|name| Some((name, stopped_in_init(&lab, name)?))).expect("an init program is seen");
    deployment.kill().unwrap();
    deployment.wait().unwrap();
    assert!(wait_until(PATIENCE, || !is_alive(init)), "{init} goes on");
    run(&lab, &["deploy", "mariadb", "--fetched", "--name", name]).expect_code(0);
}

/// The processes of a PostgreSQL server, itself first.
fn processes(lab: &Lab, name: &str) -> Vec<u64> {
    let sandboxes = json(&run(lab, &["status", name, "-o", "json"]));
    with_children(sandboxes["sandboxes"][0]["pid"].as_u64().unwrap())
}

fn with_children(server: u64) -> Vec<u64> {
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
    [server].into_iter().chain(children.split_whitespace().map(|pid| pid.parse().unwrap())).collect()
}

fn is_stopped(pid: u64) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// The shared memory with a name that these processes have mapped: `/dev/shm/PostgreSQL.1`, `/SYSV00000001 7` with its number.
fn mapped(processes: &[u64]) -> BTreeSet<String> {
    let maps = processes.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).ok());
    let maps: Vec<String> = maps.collect();
    let words = maps.iter().flat_map(|text| text.lines()).map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter_map(|words| match words.get(5)? {
            path if path.starts_with("/dev/shm/PostgreSQL.") => Some((*path).to_owned()),
            path if path.starts_with("/SYSV") => Some(format!("{path} {}", words[4])),
            _ => None,
        })
        .collect()
}

fn is_there(segment: &str) -> bool {
    let Some((_, number)) = segment.split_once(' ') else { return Path::new(segment).exists() };
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    table.lines().any(|line| line.split_whitespace().nth(1) == Some(number))
}

/// Two servers, each in the middle of a parallel query. The one is killed and deleted; the other one loses nothing.
#[test]
fn the_shared_memory_of_a_killed_server_goes_with_its_data_and_no_other() {
    let lab = Lab::new(WRINGER);
    let deployed = run(&lab, &["deploy", "postgresql", "--name", "dead"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        testkit::skip!("no postgresql to be had: {}", deployed.stderr);
    }
    deployed.expect_code(0);
    run(&lab, &["deploy", "postgresql", "--name", "alive"]).expect_code(0);
    // Through a slow layer the server sees the data directory on another device than it has after the undo. Where none can be had, it sees
    // the same one. A delay of reads would be measured, and a microsecond is lost in what a busy host does.
    let data = lab.home().join("sandboxes/dead/data");
    let slow = lab.run(["disk", "delay", data.to_str().unwrap(), "--sync", "1us"]);
    assert!(matches!(slow.code, Some(0 | 3)), "{}", slow.stderr);

    let version = json(&run(&lab, &["status", "dead", "-o", "json"]))["sandboxes"][0]["version"].to_string();
    let major: u32 = version.trim_matches('"').split('.').next().unwrap().parse().unwrap();
    let setting = if major >= 16 { "debug_parallel_query" } else { "force_parallel_mode" };
    let query = format!("SET {setting} = on; SELECT pg_sleep(300)");
    let _clients = ["dead", "alive"].map(|name| {
        run(&lab, &["start", name]).expect_code(0);
        let client = Killed(lab.start(name, ["sandbox", "use", name, &query]));
        // its control segment, and that of the query
        let has_both = || mapped(&processes(&lab, name)).iter().filter(|it| it.starts_with("/dev/shm")).count() >= 2;
        assert!(wait_until(PATIENCE, has_both), "{:?}\n{}", mapped(&processes(&lab, name)), lab.said(name));
        client
    });
    // a server that sees a child die would clear up: it is stopped first; nor does it start or reap another one then
    let server = processes(&lab, "dead")[0];
    signal(server, Signal::STOP);
    assert!(wait_until(PATIENCE, || is_stopped(server)), "{server} does not stop");
    let (all, others) = (with_children(server), mapped(&processes(&lab, "alive")));
    let left = mapped(&all);
    assert_eq!(left.iter().filter(|it| it.starts_with("/SYSV")).count(), 1, "{left:?}");
    assert!(left.is_disjoint(&others));

    all.iter().skip(1).chain(&all[..1]).for_each(|pid| signal(*pid, Signal::KILL));
    assert!(wait_until(PATIENCE, || !all.iter().any(|pid| is_alive(*pid))));
    if slow.code == Some(0) {
        lab.run(["disk", "release"]).expect_code(0);
    }
    assert!(left.iter().all(|it| is_there(it)), "a killed server leaves them: {left:?}");

    // whoever has it attached may be a process of the server that cannot be seen
    let number = left.iter().find_map(|it| it.strip_prefix("/SYSV")?.split_once(' ')?.1.parse().ok()).unwrap();
    // SAFETY: the kernel chooses the address
    let address = unsafe { libc::shmat(number, std::ptr::null(), libc::SHM_RDONLY) };
    assert_ne!(address as isize, -1);
    run(&lab, &["delete", "dead"]).expect_code(3).expect_said(&["has its shared memory attached"]);
    assert!(left.iter().all(|it| is_there(it)));
    // SAFETY: not used any more
    unsafe { libc::shmdt(address) };

    run(&lab, &["delete", "dead"]).expect_code(0);
    let still: Vec<_> = left.iter().filter(|it| is_there(it)).collect();
    assert!(still.is_empty(), "{still:?}");
    assert!(others.iter().all(|it| is_there(it)), "{others:?}");
    assert!(mapped(&processes(&lab, "alive")).is_superset(&others));
    assert!(run(&lab, &["use", "alive", "SELECT 6 * 7"]).expect_code(0).stdout.contains("42"));
    run(&lab, &["delete", "--force", "alive"]).expect_code(0);
    assert!(!others.iter().any(|it| is_there(it)), "the server itself removes them when it is stopped");
}
