// SPDX-License-Identifier: Apache-2.0
//! An arm whose squeeze cannot come on here: its result is why, and the other arms have theirs. An arm whose server is gone at its end broke off.
#![cfg(feature = "failpoints")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use serde_json::Value;
use standing::{PATIENCE, json, signal};
use std::fs;
use testkit::{Lab, Snapshot, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// No host answers a read in 1 us through a layer.
#[test]
fn a_disk_that_this_host_cannot_imitate_ends_its_arm_and_no_other() {
    if host::files::open_existing(std::path::Path::new("/dev/fuse")).is_err() {
        testkit::skip!("needs /dev/fuse for ordinary users");
    }
    let lab = Lab::new(WRINGER);
    let disk = "disk = { profile = \"io2:iops=256000\", read = \"1us\" }";
    let arms = format!(
        "[[arm]]\nname = \"too fast\"\nsqueeze.{disk}\n[[arm]]\nname = \"slow\"\nsqueeze.disk = {{ read = \"20ms\" }}\n"
    );
    let text =
        testkit::small_experiment("1s", "disk = { read = \"0\" }").replace("rows = 2000", "rows = 20000") + &arms;
    let file = lab.write("missed.toml", &text);
    let ran = lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(4);
    ran.expect_said(&[
        "arm 'too fast' was not measured",
        "What a read takes on this host without any delay came to ",
        "ask for a slower disk",
    ]);
    let left = Snapshot::take().lines_of(lab.home());
    assert!(left.is_empty(), "something is left: {left:#?}");
    let result: Value = serde_json::from_str(&fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap();
    let [too_fast, slow] = [0, 1].map(|at| &result["arms"][at]);
    assert!(too_fast["broke_off"].as_str().is_some_and(|why| why.contains("without any delay")), "{too_fast:#}");
    assert_eq!(slow["broke_off"], Value::Null, "{slow:#}");
    let measured = result["measured"].as_array().unwrap();
    let of = |arm: &str, what: &str| {
        let found = measured.iter().find(|it| it["arm"] == arm && it["what"] == what);
        found.unwrap_or_else(|| panic!("no {what} of {arm}: {measured:#?}"))
    };
    let floor = of("too fast", "disk.floor.median");
    assert_eq!((&floor["asked"]["value"], &floor["within_tolerance"]), (&1.0.into(), &false.into()), "{floor:#}");
    assert!(floor["came_on"].as_f64().unwrap() > 2.0, "{floor:#}");
    let slow = of("slow", "disk.read.median");
    assert_eq!(slow["looks"]["number"], 3, "{slow:#}");
    assert!(slow["got"]["value"].as_f64().unwrap() > 19_000.0, "{slow:#}");
}

fn state(pid: u64) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// After its last question, and before anybody asks it to stop: the server is killed.
#[test]
fn an_arm_whose_server_is_gone_at_its_end_broke_off() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("gone.toml", &testkit::small_experiment("1s", ""));
    let mut command = lab.command(["run", file.to_str().unwrap(), "--to", "out"]);
    command.env("WRINGER_PAUSE", "an arm has ended");
    let log = fs::File::create(lab.home().join("run.err")).unwrap();
    let mut run = command.stderr(log).stdout(std::process::Stdio::null()).spawn().unwrap();
    let is_paused = wait_until(PATIENCE * 2, || state(run.id().into()) == Some('T'));
    let sandboxes = json(&lab.run(["sandbox", "status", "-o", "json"]));
    if let Some(server) = sandboxes["sandboxes"][0]["pid"].as_u64().filter(|_| is_paused) {
        signal(server, Signal::KILL);
        assert!(wait_until(PATIENCE, || state(server).is_none()), "{server} lives");
    }
    if !is_paused {
        // its watchdog gives back what it has changed
        run.kill().unwrap();
    }
    signal(run.id().into(), Signal::CONT);
    let code = run.wait().unwrap().code();
    let said = lab.said("run");
    assert_eq!((is_paused, code), (true, Some(4)), "{said}");
    let result: Value = serde_json::from_str(&fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap();
    let why = result["arms"][0]["broke_off"].as_str();
    assert!(why.is_some_and(|why| why.contains("ended by itself, killed by signal 9")), "{why:?} {said}");
    assert_eq!(said.matches("stopped cleanly in").count(), 1, "after the fill: {said}");
}
