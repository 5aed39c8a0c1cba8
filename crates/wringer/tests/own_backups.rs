// SPDX-License-Identifier: Apache-2.0
//! A sandbox from the backup that mariadb-backup takes of a server while that is written to: refused until it is prepared, and then the
//! rows of one moment.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use load::Target;
use load::admin::Connection;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const PROGRAM: &str = "mariadb-backup";

fn ask(lab: &Lab, name: &str, sql: &str) -> Value {
    let answer = lab.run(["sandbox", "use", name, sql, "-o", "json"]).expect_code(0).stdout;
    serde_json::from_str::<Value>(&answer).unwrap()["rows"][0].take()
}

/// Inserts 1, 2, 3 and on into `shop.goods`, until it is told to stop; the last one that the server has acknowledged.
fn write(target: &Target, last: &AtomicU64, stop: &AtomicBool) {
    let mut connection = Connection::open(target).unwrap();
    while !stop.load(SeqCst) {
        let next = last.load(SeqCst) + 1;
        connection.execute(&format!("INSERT INTO shop.goods VALUES ({next}, repeat('x', 500))")).unwrap();
        last.store(next, SeqCst);
    }
}

fn backup(option_file: &Path, args: &[&str]) {
    let mut command = Command::new(host::tool::find(PROGRAM).unwrap());
    command.arg(format!("--defaults-file={}", option_file.display())).args(args);
    let ran = Ran::of(&mut command).expect_code(0);
    assert!(ran.stderr.contains("completed OK!"), "{}", ran.stderr);
}

#[test]
fn a_backup_of_mariadb_under_writes() {
    if host::tool::find(PROGRAM).is_none() {
        testkit::skip!("needs {PROGRAM}");
    }
    let lab = Lab::new(WRINGER);
    let options = ["-c", "innodb_buffer_pool_size=32M", "-c", "innodb_undo_tablespaces=2", "--start"];
    lab.run(["sandbox", "deploy", "mariadb", "--fetched", "--name", "a"].iter().chain(&options)).expect_code(0);
    let tell = |sql| drop(lab.run(["sandbox", "use", "a", sql]).expect_code(0));
    tell("CREATE DATABASE shop");
    tell("CREATE TABLE shop.goods (id BIGINT PRIMARY KEY, name VARCHAR(500))");
    tell("CREATE TABLE shop.notes (id INT PRIMARY KEY) ENGINE=Aria");
    tell("INSERT INTO shop.notes VALUES (1), (2)");
    tell("CREATE USER alice@localhost IDENTIFIED BY 'hers'");
    let target: Target = lab.run(["sandbox", "export", "a", "dsn"]).expect_code(0).stdout.trim().parse().unwrap();
    let option_file = lab.write("my.cnf", &lab.run(["sandbox", "export", "a", "my.cnf"]).expect_code(0).stdout);
    let folder = lab.home().join("backup");
    let folder_option = format!("--target-dir={}", folder.display());

    let (last, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| write(&target, &last, &stop));
        let has_rows = || last.load(SeqCst) > 50;
        let begun = wait_until(Duration::from_secs(300), has_rows).then(|| last.load(SeqCst));
        if begun.is_some() {
            backup(&option_file, &["--backup", &folder_option]);
        }
        let ended = last.load(SeqCst);
        stop.store(true, SeqCst);
        (begun.expect("it writes"), ended)
    });
    lab.run(["sandbox", "stop", "a"]).expect_code(0);

    let from = folder.to_str().unwrap();
    let deploy = ["sandbox", "deploy", "--fetched", "--from", from, "--name", "b"];
    let refused = lab.run(deploy).expect_code(3);
    refused.expect_said(&["not prepared (backup_type = full-backuped)", "--prepare"]);
    backup(&option_file, &["--prepare", &folder_option]);
    let version = ask_version(&lab);
    lab.run(deploy).expect_code(0).expect_said(&[
        &format!("physical backup of mariadb {version}"),
        "innodb_undo_tablespaces=2",
        "holds   sbtest, shop",
    ]);
    lab.run(["sandbox", "start", "b"]).expect_code(0);
    let rows = ask(&lab, "b", "SELECT count(*), max(id) FROM shop.goods");
    let number = |column: usize| rows[column].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(0), number(1), "every row up to the last one");
    // one more may have been written, and not acknowledged yet
    assert!((before..=after + 1).contains(&number(1)), "{before} <= {} <= {after} + 1", number(1));
    assert!(after > before, "it was written to meanwhile");
    assert_eq!(ask(&lab, "b", "CHECK TABLE shop.goods EXTENDED")[3], "OK");
    assert_eq!(ask(&lab, "b", "SELECT count(*) FROM shop.notes")[0], "2");
    assert_eq!(ask(&lab, "b", "SELECT count(*) FROM mysql.user WHERE user = 'alice'")[0], "1");
    lab.run(["sandbox", "delete", "--force", "a", "b"]).expect_code(0);
}

fn ask_version(lab: &Lab) -> String {
    let status = lab.run(["sandbox", "status", "a", "-o", "json"]).expect_code(0).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    status["sandboxes"][0]["version"].as_str().unwrap().to_owned()
}
