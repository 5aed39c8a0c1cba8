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
