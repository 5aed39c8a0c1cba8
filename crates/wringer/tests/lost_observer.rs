// SPDX-License-Identifier: Apache-2.0
//! The connection that reads the server's counters in a run is lost in the middle: the samples go on.
#![allow(clippy::unwrap_used)]

use std::time::Duration;
use testkit::{Lab, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const EXPERIMENT: &str = r#"
schema = 1
name = "lost"
[server]
flavour = "mariadb"
[fill]
rows = 500
[observe]
interval = "100ms"
[load]
workload = "oltp_point_select"
rate = 20
arrivals = "constant"
time = "8s"
"#;

/// The connections of the server but the one that asks.
fn connections(lab: &Lab, sandbox: &str) -> Vec<String> {
    let sql = "SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND user = 'wringer'";
    let ran = lab.run(["sandbox", "use", sandbox, sql, "-o", "json"]).expect_code(0);
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    answer["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_lost_connection_does_not_end_the_servers_samples() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("lost.toml", EXPERIMENT);
    let mut run = lab.start("run", ["run", file.to_str().unwrap(), "--to", "out"]);
    let measuring = wait_until(Duration::from_secs(180), || {
        lab.said("run").contains("measuring") || run.try_wait().unwrap().is_some()
    });
    assert!(measuring && run.try_wait().unwrap().is_none(), "{}", lab.said("run"));
    let mut sandboxes = std::fs::read_dir(lab.home().join("sandboxes")).unwrap().flatten().map(|entry| entry.path());
    let sandbox = sandboxes.find(|path| path.is_dir()).unwrap();
    let sandbox = sandbox.file_name().unwrap().to_str().unwrap();
    let mut killed = Vec::new();
    let both = wait_until(Duration::from_secs(60), || {
        killed = connections(&lab, sandbox);
        killed.len() >= 2
    });
    assert!(both, "the load's connection and the observer's: {killed:?}");
    for id in &killed {
        let _ = lab.run(["sandbox", "use", sandbox, &format!("KILL {id}")]);
    }
    assert!(run.wait().unwrap().success(), "{}", lab.said("run"));

    let evidence = recording::Recording::read(&lab.home().join("out/recording.sqlite")).unwrap();
    let arm = &evidence.arms[0];
    let phase = &arm.load.as_ref().unwrap().measured;
    let served = evidence.samples.iter().filter(|series| series.source == "server.status");
    let last_us = served.flat_map(|series| series.points.iter().map(|point| point.at_us)).max().unwrap();
    let end_us = phase.started_us + phase.elapsed_us;
    assert!(last_us + 1_500_000 > end_us, "the last sample is of {last_us} us, the load ended at {end_us} us");
    assert!(lab.said("run").contains("no --rand-type was given, so keys are drawn uniformly"), "{}", lab.said("run"));
}
