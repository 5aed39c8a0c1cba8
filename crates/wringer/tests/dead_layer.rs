// SPDX-License-Identifier: Apache-2.0
//! Servers whose slow layer was killed: a clean end is impossible then, and nobody waits for it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use host::permit::Permit;
use host::process::{Identity, StopRequest, Stopped, stop};
use rustix::process::Signal;
use standing::*;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
/// What a sandbox's server is given to end by itself.
const GRACE: Duration = Duration::from_secs(120);

/// A process in `folder` that does not listen to SIGTERM.
fn stubborn(folder: &Path) -> (Killed, Identity) {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' TERM; echo; exec sleep 1000"]).current_dir(folder).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let identity = Identity::of(child.id()).unwrap();
    (Killed(child), identity)
}

/// Another one, on a layer that lives, has all its grace: it was asked first, and is there still.
#[test]
fn whose_layer_is_dead_is_given_no_long_grace() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let mut layers = Vec::new();
    let folders = ["dead", "alive"].map(|name| lab.home().join(name));
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
        lab.run(["disk", "delay", folder.to_str().unwrap(), "--sync", "1ms"]).expect_code(0);
        layers.push(process_of(&lab, "slow layer"));
    }
    let [(dead, in_dead), (mut alive, in_alive)] = folders.map(|folder| stubborn(&folder));
    signal(layers[0], Signal::KILL);
    let request = StopRequest { signal: libc::SIGTERM, grace: Duration::from_secs(20) };
    let control = thread::spawn(move || stop(&Permit::issue(1), &[in_alive], request).unwrap());
    thread::sleep(Duration::from_millis(500));
    assert_eq!(stop(&Permit::issue(1), &[in_dead], request).unwrap(), Stopped::Killed);
    assert!(!control.is_finished() && in_alive.is_alive());
    alive.0.kill().unwrap();
    alive.0.wait().unwrap();
    assert_eq!(control.join().unwrap(), Stopped::Cleanly);
    drop(dead);
    lab.undo_own();
    expect_as_before(&before);
}

/// What the server is given to end by itself is twice what this waits.
#[test]
fn a_sandbox_whose_layer_was_killed_is_stopped_soon() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let deployed = lab.run(["sandbox", "deploy", "mariadb", "--name", "cut"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        testkit::skip!("no mariadb to be had: {}", deployed.stderr);
    }
    deployed.expect_code(0);
    let before = Snapshot::take();
    let data = lab.home().join("sandboxes/cut/data");
    lab.run(["disk", "delay", data.to_str().unwrap(), "--sync", "1ms"]).expect_code(0);
    let layer = process_of(&lab, "slow layer");
    lab.run(["sandbox", "start", "cut"]).expect_code(0);
    signal(layer, Signal::KILL);
    let mut stopped = lab.start("stop", ["sandbox", "stop", "cut"]);
    assert!(wait_until(GRACE / 2, || stopped.try_wait().unwrap().is_some()), "{}", lab.said("stop"));
    assert_eq!(stopped.wait().unwrap().code(), Some(0), "{}", lab.said("stop"));
    lab.undo_own();
    expect_as_before(&before);
    // it recovers
    lab.run(["sandbox", "start", "cut"]).expect_code(0);
    lab.run(["sandbox", "delete", "cut", "--force"]).expect_code(0);
}
