// SPDX-License-Identifier: Apache-2.0
//! `wringer memory account` while the server, or one of its sessions, ends: the reader stops itself at a place that the test names, and goes on when the
//! process is gone.
#![cfg(feature = "failpoints")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;
mod standing;

use accounted::{MARIADB, PATIENCE, Server, expect_sum, json};
use rustix::process::Signal;
use standing::signal;
use std::fs;
use std::process::{Output, Stdio};
use std::time::Duration;
use testkit::{Ran, wait_until};

/// The state of a process, as in `/proc/PID/stat`; `None`: it is gone.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Dead with all its threads, and waited for by its parent.
fn is_gone(pid: u32) -> bool {
    state(pid).is_none()
}

/// `memory account` stops itself at this place, goes on when `act` has returned, and is waited for. `act` says whether it has done what it should.
fn account_with(server: &Server, place: &str, act: impl FnOnce() -> bool) -> Ran {
    let mut command = server.lab.command(["memory", "account", "--sandbox", "s", "-o", "json"]);
    command.env("WRINGER_PAUSE", place).stdout(Stdio::piped()).stderr(Stdio::piped());
    let reader = command.spawn().unwrap();
    let is_paused = wait_until(PATIENCE, || state(reader.id()) == Some('T'));
    let is_done = is_paused && act();
    signal(reader.id().into(), Signal::CONT);
    let Output { status, stdout, stderr } = reader.wait_with_output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let ran = Ran { code: status.code(), stdout, stderr };
    assert!(is_done, "{place}, paused: {is_paused}: {ran:?}");
    ran
}

/// Wherever in the reading a server is killed: its name and exit code 4, and no account of what was read before.
#[test]
fn a_server_that_dies_while_it_is_read() {
    let of_mariadb = [
        "the status of all processes was read",
        "the mappings of a process were read",
        "all processes were read",
        "the server's rows were read",
    ];
    for (flavour, program, places) in
        [(MARIADB, "mariadbd", &of_mariadb[..]), ("postgresql", "postgres", &of_mariadb[1..2])]
    {
        let server = Server::start(flavour, &[], &[]);
        for (nth, place) in places.iter().enumerate() {
            let pid = if nth == 0 { server.pid } else { started_again(&server) };
            let killed = account_with(&server, place, || {
                signal(pid.into(), Signal::KILL);
                wait_until(PATIENCE, || is_gone(pid))
            });
            let said = format!("process {pid} ({program}) ended while it was read");
            let printed = json(&killed.expect_code(4).expect_said(&[&said]));
            let told = printed["error"]["message"].as_str().unwrap();
            assert!(told.contains(&said) && printed["kernel_total_bytes"].is_null(), "{place}: {printed:#}");
        }
    }
}

/// A server that stands still when it is asked, and dies then: exit code 4 and its name, by whatever it was named.
#[test]
fn a_server_that_dies_while_it_is_asked() {
    let server = Server::start(MARIADB, &[], &[]);
    let (pid, socket) = (server.pid, format!("--mysql-socket={}", server.socket()));
    let pid_flag = format!("--pid={pid}");
    let bundle = server.lab.home().join("bundle");
    let bundle = format!("--to={}", bundle.display());
    let mut looking = server.lab.start("audit", ["connections", "audit", "--sandbox=s", "--for=60s"]);
    std::thread::sleep(Duration::from_secs(2));
    signal(pid.into(), Signal::STOP);
    let of_stopped: [&[&str]; 8] = [
        &["memory", "account", "--sandbox=s"],
        &["memory", "oom", "--sandbox=s"],
        &["memory", "bundle", "--sandbox=s", &bundle],
        &["memory", "worst-case", "--sandbox=s", &pid_flag],
        &["memory", "account", &socket, "--mysql-user=nobody"],
        &["hugepages", "check", "--sandbox=s"],
        &["connections", "audit", "--sandbox=s"],
        &["connections", "audit", &socket, "--mysql-user=nobody"],
    ];
    let names: Vec<String> = (0..of_stopped.len()).map(|nth| format!("asked{nth}")).collect();
    let asking: Vec<_> = names.iter().zip(of_stopped).map(|(name, words)| server.lab.start(name, words)).collect();
    let is_connecting = |pid: u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|it| std::fs::read_link(it.path()).ok()).any(|it| it.to_string_lossy().starts_with("socket:"))
    };
    let are_all = wait_until(PATIENCE, || asking.iter().all(|child| is_connecting(child.id())));
    signal(pid.into(), Signal::KILL);
    assert!(are_all, "all of them ask a server that stands still");
    let of_audit = looking.wait().unwrap().code();
    assert_eq!(of_audit, Some(4), "{}", server.lab.said("audit"));
    for ((name, words), mut child) in names.iter().zip(of_stopped).zip(asking) {
        let code = child.wait().unwrap().code();
        let said = server.lab.said(name);
        assert_eq!(code, Some(4), "{words:?}: {said}");
        assert!(said.contains(&format!("process {pid} (mariadbd) ended while")), "{words:?}: {said}");
    }
}

/// A run whose server was killed ends by itself, a moment later.
fn started_again(server: &Server) -> u32 {
    let start = || server.lab.run(["sandbox", "start", "s"]);
    assert!(wait_until(PATIENCE, || start().code == Some(0)), "{:?}", start());
    server.pid_now()
}

/// The end of a session is not the end of the server: the account has the others, and names what is missing.
#[test]
fn a_session_that_ends_while_the_server_is_read() {
    let server = Server::start("postgresql", &[], &[]);
    let mut connection = server.connect();
    let rows = connection.query("SELECT pg_backend_pid()").unwrap();
    let backend: u32 = rows.text(0, 0).unwrap().parse().unwrap();
    let ran = account_with(&server, "the status of all processes was read", move || {
        drop(connection);
        wait_until(PATIENCE, || is_gone(backend))
    });
    let account = json(&ran.expect_code(0));
    expect_sum(&account);
    let missing = account["missing"].as_array().unwrap();
    for what in [format!("process {backend}"), "processes that ended".to_owned()] {
        assert!(missing.iter().any(|it| it["what"] == what), "{what}: {account:#}");
    }
    let processes = account["processes"].as_array().unwrap();
    assert!(processes.iter().any(|it| it["pid"] == server.pid) && processes.iter().all(|it| it["pid"] != backend));
}
