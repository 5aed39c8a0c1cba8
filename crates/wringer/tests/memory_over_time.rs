// SPDX-License-Identifier: Apache-2.0
//! A server's memory over time: recordings with inventories, and what is computed from them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use evidence::{Evidence, INVENTORY, Snapshot};
use ledger::Inventory;
use load::Target;
use load::admin::Connection;
use recording::Recording;
use rustix::process::Signal;
use serde_json::Value;
use standing::{Killed, json, signal};
use std::path::Path;
use std::time::Duration;
use testkit::{Lab, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const MIB: i64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

struct Server {
    lab: Lab,
    pid: u64,
}

impl Server {
    fn start() -> Self {
        let lab = Lab::new(WRINGER);
        let options = ["-c", "innodb_buffer_pool_size=32M", "-c", "performance_schema=ON"];
        let deploy = ["sandbox", "deploy", "mariadb@10.11", "--name", "s", "--start"];
        lab.run([&deploy[..], &options[..]].concat()).expect_code(0);
        let status = json(&lab.run(["sandbox", "status", "s", "-o", "json"]));
        let pid = status["sandboxes"][0]["pid"].as_u64().unwrap();
        Self { lab, pid }
    }

    fn connect(&self) -> Connection {
        let dsn = self.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout;
        let target: Target = dsn.trim().parse().unwrap();
        Connection::open(&target).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lab.run(["sandbox", "delete", "s", "--force"]);
    }
}

fn inventories(seen: &Evidence) -> Vec<(&Snapshot, Inventory)> {
    let of = seen.snapshots.iter().filter(|snapshot| snapshot.source == INVENTORY);
    of.map(|snapshot| (snapshot, serde_json::from_str(&snapshot.content).unwrap())).collect()
}

/// How many there are so far; the recorder writes on.
fn count(recording: &Path) -> usize {
    Recording::read(recording).map_or(0, |seen| inventories(&seen).len())
}

fn leaf(leaves: &Value, path: &str) -> i64 {
    let found = leaves.as_array().unwrap().iter().find(|leaf| leaf["path"] == path);
    found.map_or(0, |leaf| leaf["resident_bytes"].as_i64().unwrap())
}

/// A table in memory, of this session alone: 64 MiB.
fn plant(connection: &mut Connection) {
    for statement in [
        "SET SESSION max_heap_table_size = 1 << 30",
        "CREATE DATABASE planted",
        "CREATE TEMPORARY TABLE planted.t (c CHAR(247) CHARACTER SET latin1 NOT NULL) ENGINE=MEMORY",
        "INSERT INTO planted.t SELECT REPEAT('x', 247) FROM seq_1_to_262144",
    ] {
        connection.execute(statement).unwrap();
    }
}

#[test]
fn a_recording_holds_inventories() {
    let server = Server::start();
    let lab = &server.lab;
    let recording = lab.home().join("out/recording.sqlite");
    let record = ["memory", "record", "--sandbox", "s", "--interval=2s", "--to=out"];
    let mut recorder = Killed(lab.start("record", record));
    assert!(wait_until(PATIENCE, || count(&recording) >= 2), "{}", lab.said("record"));
    let mut connection = server.connect();
    plant(&mut connection);
    // the last inventory is taken at the end
    signal(recorder.0.id().into(), Signal::INT);
    assert_eq!(recorder.0.wait().unwrap().code(), Some(0), "{}", lab.said("record"));

    let seen = Recording::read(&recording).unwrap();
    let taken = inventories(&seen);
    assert!(taken.iter().all(|(snapshot, it)| {
        let is_whole = it.processes[0].mappings.is_some() && it.server.is_some() && it.version.is_some();
        snapshot.arm.as_deref() == Some("observed") && is_whole && u64::from(it.processes[0].pid) == server.pid
    }));
    let accounts: Vec<ledger::Account> = taken.iter().map(|(_, it)| ledger::account(it)).collect();
    let grown = accounts.last().unwrap().kernel_total_bytes as i64 - accounts[0].kernel_total_bytes as i64;
    assert!((60 * MIB..110 * MIB).contains(&grown), "{grown}");
}
