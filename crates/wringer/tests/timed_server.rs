// SPDX-License-Identifier: Apache-2.0
//! `wringer sandbox start --for`: the supervisor ends the server when its time is over, and itself when the server does.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use testkit::{Lab, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn server_pid(lab: &Lab) -> Option<u64> {
    json(&lab.run(["sandbox", "status", "timed", "-o", "json"]))["sandboxes"][0]["pid"].as_u64()
}

#[test]
fn a_server_that_dies_ends_its_supervisor_and_can_be_started_again() {
    let lab = Lab::new(WRINGER);
    let deployed = lab.run(["sandbox", "deploy", "postgresql", "--name", "timed"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        testkit::skip!("no postgresql to be had: {}", deployed.stderr);
    }
    deployed.expect_code(0);
    lab.run(["sandbox", "start", "timed", "--for", "10m"]).expect_code(0);
    let supervisor = status(&lab)["runs"][0]["processes"].as_array().unwrap().clone();
    signal(server_pid(&lab).unwrap(), Signal::KILL);
    assert!(
        wait_until(PATIENCE, || supervisor.iter().all(|pid| !is_alive(pid.as_u64().unwrap()))),
        "nothing is left to supervise: {:#}",
        status(&lab)
    );
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
    lab.run(["sandbox", "start", "timed", "--for", "1s"]).expect_code(0);
    assert!(wait_until(PATIENCE, || server_pid(&lab).is_none()), "its time is over");
    assert!(wait_until(PATIENCE, || status(&lab)["runs"].as_array().unwrap().is_empty()));
}
