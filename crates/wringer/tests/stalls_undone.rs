// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls inject` is killed together with its watchdog: `wringer undo` ends the stall. Meanwhile no other run can begin on this host.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;
mod injected;

use accounted::Server;
use injected::{READ, cpu_group, cut_short, kill, runs_of_inject};
use serde_json::Value;
use std::fs;
use testkit::alone;

/// The command and its watchdog are killed at the same moment.
#[test]
fn an_undo_puts_back_the_cpu_time_of_a_server() {
    let _alone = alone();
    let server = Server::start("postgresql", &[], &["--cpus", "1"]);
    server.fill();
    let group = cpu_group(server.pid);
    let before = fs::read_to_string(&group).unwrap();
    let id = cut_short(&server, "cpu", READ, |mut child| {
        let runs = runs_of_inject(&server);
        let pids: Vec<u64> = runs[0]["processes"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert!(pids.len() == 2 && pids.contains(&child.id().into()), "{runs:#?}");
        pids.iter().for_each(|pid| kill(u32::try_from(*pid).unwrap(), libc::SIGKILL));
        child.wait().unwrap();
        assert_ne!(fs::read_to_string(&group).unwrap(), before);
        let id = runs[0]["run"].as_str().unwrap().to_owned();
        server.lab.run(["undo", &id]).expect_code(0);
        id
    });
    assert_eq!(fs::read_to_string(&group).unwrap(), before);
    let again = server.lab.run(["undo", &id]);
    assert!(again.code == Some(0) || again.stderr.contains(&id), "there is nothing left of it: {again:?}");
    assert!(runs_of_inject(&server).is_empty());
}
