// SPDX-License-Identifier: Apache-2.0
//! Ending real processes. One test: the wish to stop is counted once for the whole program.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use host::interrupt;
use host::permit::Permit;
use host::process::{Identity, StopRequest, Stopped, stop};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A shell that has run the first line of its script.
fn shell(script: &str) -> (Child, Identity) {
    let mut child = Command::new("sh").arg("-c").arg(script).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let identity = Identity::of(child.id()).unwrap();
    (child, identity)
}

#[test]
fn signal_grace_kill_and_impatience() {
    let permit = Permit::issue(1);
    let request = |seconds| StopRequest { signal: libc::SIGTERM, grace: Duration::from_secs(seconds) };

    let (mut polite, identity) = shell("echo; exec sleep 1000");
    assert_eq!(stop(&permit, &[identity], request(60)).unwrap(), Stopped::Cleanly);
    assert_eq!(stop(&permit, &[identity], request(60)).unwrap(), Stopped::AlreadyGone, "a zombie is gone");
    polite.wait().unwrap();
    assert_eq!(stop(&permit, &[identity], request(60)).unwrap(), Stopped::AlreadyGone);

    let stubborn = "trap '' TERM; echo; exec sleep 1000";
    let (mut killed, identity) = shell(stubborn);
    assert_eq!(stop(&permit, &[identity], request(0)).unwrap(), Stopped::Killed);
    killed.wait().unwrap();

    let (mut cut, identity) = shell(stubborn);
    interrupt::note();
    assert!(interrupt::requested() && !interrupt::impatient());
    let start = Instant::now();
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| stop(&permit, &[identity], request(600)).unwrap());
        interrupt::note();
        assert_eq!(stopping.join().unwrap(), Stopped::Killed, "a second wish to stop cuts the grace, not the undo");
    });
    assert!(start.elapsed() < Duration::from_secs(300));
    cut.wait().unwrap();
}
