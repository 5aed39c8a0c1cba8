// SPDX-License-Identifier: Apache-2.0
//! `wringer run` with a real server, killed with SIGKILL at crash points all along its journal, its watchdog with it; then
//! `wringer undo` gives the host back. Needs the feature `failpoints`.
#![cfg(feature = "failpoints")]
#![allow(clippy::unwrap_used)]

use std::process::Stdio;
use testkit::{Lab, Ran, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Everything a run can change, and little load.
const EXPERIMENT: &str = r#"
schema = 1
name = "crash"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "16M"
[fill]
rows = 2000
[load]
workload = "oltp_point_select"
time = "1s"
[squeeze]
ram = { hide = "64M" }
server_ram = "256M"
disk = { read = "1ms" }
"#;

/// Watchdog, first server, fill, layer, cgroup, second server, probe, holder, release: so far apart that each falls between others.
const POINTS: [u32; 12] = [1, 2, 4, 7, 11, 16, 20, 24, 28, 33, 40, 48];

fn killed_at_every_point(watchdog_too: bool) {
    if !is_root() {
        testkit::skip!("needs root: only root hides RAM and makes cgroups here");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = lab.write("crash.toml", EXPERIMENT);
    let before = Snapshot::take();
    let mut crashes = 0;
    for point in POINTS {
        let out = format!("out-{point}");
        let mut command = lab.command(["run", file.to_str().unwrap(), "--yes", "--to", &out]);
        command.env("WRINGER_CRASH", point.to_string()).stdout(Stdio::null());
        if watchdog_too {
            command.env("WRINGER_CRASH_WATCHDOG", "1");
        }
        let ran = Ran::of(&mut command);
        crashes += u32::from(ran.code.is_none());
        assert!(ran.code.is_none() || ran.code == Some(0), "point {point}: {ran:?}");
        lab.run(["undo"]).expect_code(0);
        before.expect_equal(&Snapshot::take());
    }
    assert!(crashes >= 8, "only {crashes} of {} runs were killed: the points are too far out", POINTS.len());
}

#[test]
fn the_controller_is_killed() {
    killed_at_every_point(false);
}

#[test]
fn the_controller_and_its_watchdog_are_killed() {
    killed_at_every_point(true);
}
