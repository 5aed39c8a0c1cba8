// SPDX-License-Identifier: Apache-2.0
//! Logs that real servers wrote of a real load, replayed on real servers: the counts agree, nothing is written unless asked for.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Lab, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const POINT: &str = "select c from sbtest1 where id = ?";
const UPDATE: &str = "update sbtest1 set k = k + ? where id = ?";
const PATIENCE: Duration = Duration::from_secs(60);

fn json(lab: &Lab, args: &[&str]) -> Value {
    serde_json::from_str(&lab.run(args).expect_code(0).stdout).unwrap()
}

fn ask(lab: &Lab, name: &str, sql: &str) -> String {
    json(lab, &["sandbox", "use", name, sql, "-o", "json"])["rows"][0][0].as_str().unwrap().to_owned()
}

fn dsn(lab: &Lab, name: &str) -> String {
    format!("--dsn={}", lab.run(["sandbox", "export", name, "dsn"]).expect_code(0).stdout.trim())
}

fn not_sent(document: &Value, reason: &str) -> u64 {
    let all = document["not_sent"].as_array().unwrap();
    all.iter().find(|it| it["reason"] == reason).map_or(0, |it| it["count"].as_u64().unwrap())
}

/// 40 transactions of reads on three connections, then 12 updates on one.
fn load(lab: &Lab, dsn: &str) -> u64 {
    let read =
        ["load", "oltp_read_only", dsn, "--table-size=1000", "--threads=3", "--events=40", "--time=0", "-o", "json"];
    let reads = json(lab, &read);
    let write = [
        "load",
        "oltp_update_index",
        dsn,
        "--table-size=1000",
        "--events=12",
        "--time=0",
        "--db-ps-mode=disable",
        "-o",
        "json",
    ];
    let writes = json(lab, &write);
    assert_eq!(writes["load"]["measured"]["writes"], 12);
    reads["load"]["measured"]["reads"].as_u64().unwrap()
}

/// What `log` says of that load, and what a replay of it makes; how many SELECTs are in it, those that the commands asked beside the load's.
fn check(lab: &Lab, log: &Path, format: &str, dsn: &str, reads: u64) -> u64 {
    let log = log.to_str().unwrap();
    let planned = json(lab, &["replay", log, "--dry-run", "-o", "json"]);
    assert_eq!(planned["log"]["format"], format);
    assert_eq!(planned["to_send"]["classes"][POINT], 400, "{planned:#}");
    assert_eq!(not_sent(&planned, "writes rows"), 12, "{planned:#}");
    assert_eq!(planned["log"]["not_read"]["count"], 0, "{planned:#}");

    let point = format!("--assert={POINT} p99<1h");
    let command =
        ["replay", log, dsn, "--speed=max", "--timeline-interval=10ms", "--assert=errors=0", &point, "-o", "json"];
    let replayed = json(lab, &command);
    let measured = &replayed["replay"]["measured"];
    let slots = measured["timeline"].as_array().unwrap();
    let of = |key: &str| slots.iter().map(|slot| slot[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((of("transactions"), of("queries")), (measured["transactions"].as_u64().unwrap(), of("transactions")));
    assert_eq!(slots.len() as u64, measured["elapsed_us"].as_u64().unwrap().div_ceil(10_000), "a slot each 10 ms");
    assert!(slots.iter().any(|slot| slot["p99_us"].as_u64() > Some(0)), "{measured:#}");
    assert!(measured["client_user_us"].as_u64().unwrap() + measured["client_system_us"].as_u64().unwrap() > 0);
    assert!(replayed["assertions"].as_array().unwrap().iter().all(|it| it["passed"] == true), "{replayed:#}");
    assert!(measured["errors"].as_object().unwrap().is_empty(), "{measured:#}");
    assert_eq!(measured["transactions"], replayed["to_send"]["statements"]);
    assert!(measured["reads"].as_u64().unwrap() >= reads, "{measured:#}");
    assert_eq!((&measured["writes"], &measured["skipped"]), (&Value::from(0), &Value::from(0)));
    let classes = planned["to_send"]["classes"].as_object().unwrap().iter();
    classes.filter(|(class, _)| class.starts_with("select")).map(|(_, count)| count.as_u64().unwrap()).sum()
}

#[test]
fn both_logs_of_mariadb() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", "mariadb", "--name", "a", "-c", "long_query_time=0", "--start"]).expect_code(0);
    let dsn = dsn(&lab, "a");
    lab.run(["fill", &dsn, "--table-size=1000"]).expect_code(0);
    let general = lab.home().join("sandboxes/a/data/general.log");
    let slow = lab.home().join("sandboxes/a/data/slow.log");
    let switch = |on: u32| {
        let files = "SET GLOBAL general_log_file = 'general.log', slow_query_log_file = 'slow.log'";
        let switch = format!("SET GLOBAL general_log = {on}, slow_query_log = {on}");
        for sql in [files, &switch] {
            lab.run(["sandbox", "use", "a", sql]).expect_code(0);
        }
    };
    switch(1);
    let reads = load(&lab, &dsn);
    switch(0);

    let selects = || {
        ask(&lab, "a", "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'com_select'")
    };
    let sum = || ask(&lab, "a", "SELECT sum(k) FROM sbtest1").parse::<u64>().unwrap();
    let (before, k) = (selects().parse::<u64>().unwrap(), sum());
    let logged: u64 = [(&general, "mysql_general"), (&slow, "mysql_slow")]
        .map(|(log, format)| check(&lab, log, format, &dsn, reads))
        .iter()
        .sum();
    // the server's own count: what both logs have, and what was asked here
    let sent = selects().parse::<u64>().unwrap() - before;
    assert!(logged >= 2 * reads && (logged..logged + 10).contains(&sent), "{sent} for {logged} of twice {reads}");
    assert_eq!(sum(), k, "nothing is written");

    let all = json(&lab, &["replay", slow.to_str().unwrap(), &dsn, "--writes", "--speed=50", "-o", "json"]);
    assert_eq!(all["to_send"]["classes"][UPDATE], 12, "{all:#}");
    assert_eq!(all["replay"]["measured"]["writes"], 12);
    assert_eq!(sum(), k + 12);
    let length = all["log"]["length_us"].as_u64().unwrap();
    assert!(
        all["replay"]["measured"]["elapsed_us"].as_u64().unwrap() >= length / 50,
        "no statement starts before its moment"
    );
    let percentiles = all["response"].as_array().unwrap();
    assert_eq!((percentiles.len(), &all["speed_times"]), (3, &Value::from(50.0)));

    // a database that is not there: its statements, of the same names as ours, do not go to ours
    let elsewhere = "261121 22:49:33\t     3 Query\tUSE `not there`\n\t\t     3 Query\tUPDATE sbtest1 SET k = k + 1000000 WHERE id = 1\n\
                     \t\t     3 Query\tINSERT INTO sbtest1 (k) VALUES (1000000)\n261121 22:49:34\t     4 Query\tSELECT 1\n";
    let elsewhere = lab.write("elsewhere.log", elsewhere);
    let replay = ["replay", elsewhere.to_str().unwrap(), &dsn, "--writes", "--speed=max"];
    let sent = json(&lab, &[&replay[..], &["-o", "json"]].concat());
    assert_eq!(sum(), k + 12, "nothing is written into another database");
    let result = &sent["replay"];
    assert_eq!((&result["without_database"], &result["measured"]["skipped"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(
        (&result["measured"]["transactions"], &result["measured"]["errors"]["1049"]),
        (&Value::from(1), &Value::from(3))
    );
    let told = lab.run(replay).expect_code(0).stdout;
    assert!(told.contains("not sent     2 of 4: the server refused their database"), "{told}");

    let mut text = fs::read_to_string(&general).unwrap();
    text.insert_str(0, "junk at the head\n");
    let spoiled = lab.write("spoiled.log", &text);
    let failing = ["--assert=service max<1ns", "--assert=errors=0"];
    let ran = lab.run([&["replay", spoiled.to_str().unwrap(), &dsn, "--speed=max"], &failing[..]].concat());
    let ran = ran.expect_code(1).expect_said(&["1 of 2 assertions failed: service max<1ns: measured"]);
    let shown = ran.stdout;
    for words in [
        "line 1: a line outside of any entry",
        "12         writes rows (first on line",
        POINT,
        "errors       0",
        "client CPU ",
        "FAILED  service max<1ns",
        "met     errors=0",
    ] {
        assert!(shown.contains(words), "'{words}' is not in\n{shown}");
    }
    lab.run(["sandbox", "delete", "--force", "a"]).expect_code(0);
}

#[test]
fn the_three_logs_of_postgresql() {
    let lab = Lab::new(WRINGER);
    let options = [
        "logging_collector=on",
        "log_destination=stderr,csvlog,jsonlog",
        "log_filename=wringer.log",
        "log_line_prefix=%m [%p] %q%u@%d ",
        "log_connections=on",
    ];
    let mut deploy = vec!["sandbox", "deploy", "postgresql", "--fetched", "--name", "a", "--start"];
    deploy.extend(options.iter().flat_map(|option| ["-c", option]));
    lab.run(&deploy).expect_code(0);
    let dsn = dsn(&lab, "a");
    lab.run(["fill", &dsn, "--table-size=1000"]).expect_code(0);
    // a read by its looks; the server knows better
    for sql in [
        "CREATE TABLE seen (a int)",
        "CREATE FUNCTION md5(int) RETURNS int LANGUAGE sql AS 'INSERT INTO seen VALUES (1); SELECT 1'",
        "ALTER SYSTEM SET log_min_duration_statement = 0",
        "SELECT pg_reload_conf()",
    ] {
        lab.run(["sandbox", "use", "a", sql]).expect_code(0);
    }
    let is_set = |to: &str| wait_until(PATIENCE, || ask(&lab, "a", "SHOW log_min_duration_statement") == to);
    assert!(is_set("0"), "its statements are logged");
    let reads = load(&lab, &dsn);
    lab.run(["sandbox", "use", "a", "ALTER SYSTEM RESET log_min_duration_statement"]).expect_code(0);
    lab.run(["sandbox", "use", "a", "SELECT pg_reload_conf()"]).expect_code(0);
    assert!(is_set("-1"), "and no more of them");

    let copy = |ending: &str| -> PathBuf {
        let from = lab.home().join(format!("sandboxes/a/data/log/wringer.{ending}"));
        // a process of its own writes the logs, some time later
        let has_last = || fs::read_to_string(&from).is_ok_and(|text| text.contains("RESET log_min_duration_statement"));
        assert!(wait_until(PATIENCE, has_last), "{} has not all that was logged", from.display());
        let to = lab.home().join(format!("copy.{ending}"));
        fs::copy(from, &to).unwrap();
        to
    };
    let sum = || ask(&lab, "a", "SELECT sum(k) FROM sbtest1");
    let k = sum();
    for (ending, format) in [("log", "postgresql_stderr"), ("csv", "postgresql_csv"), ("json", "postgresql_json")] {
        let _ = check(&lab, &copy(ending), format, &dsn, reads);
    }
    assert_eq!(sum(), k, "nothing is written");

    let sly = "2026-11-21 22:51:57.002 UTC [7] LOG:  statement: SELECT md5(1)\n2026-11-21 22:51:57.102 UTC [7] LOG:  statement: SELECT 1\n";
    let sly = lab.write("sly.log", sly);
    let refused = json(&lab, &["replay", sly.to_str().unwrap(), &dsn, "-o", "json"]);
    assert_eq!(refused["replay"]["measured"]["errors"], serde_json::json!({ "25006": 1 }), "the server itself refuses");
    assert_eq!(
        (&refused["replay"]["measured"]["transactions"], ask(&lab, "a", "SELECT count(*) FROM seen")),
        (&Value::from(1), "0".into())
    );
    lab.run(["sandbox", "delete", "--force", "a"]).expect_code(0);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let lab = Lab::new(WRINGER);
    let notes = lab.write("notes.txt", "nothing\n");
    lab.run(["replay", notes.to_str().unwrap()])
        .expect_code(3)
        .expect_said(&["is no log that is known here", "log_line_prefix"]);
    let packed = lab.home().join("slow.log.gz");
    std::fs::write(&packed, [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).unwrap();
    lab.run(["replay", packed.to_str().unwrap(), "--dry-run"]).expect_code(3).expect_said(&["is packed", "zcat "]);
    lab.run(["replay", "missing.log"]).expect_code(3).expect_said(&["missing.log"]);
    let log = lab.write("general.log", "261121 22:49:33\t     3 Query\tDELETE FROM t\n");
    let log = log.to_str().unwrap();
    lab.run(["replay", log, "--mysql-host=127.0.0.1", "--mysql-port=1"])
        .expect_code(3)
        .expect_said(&["the log has no statement", "--writes"]);
    lab.run(["replay", log, "--writes", "--mysql-host=127.0.0.1", "--mysql-port=1"])
        .expect_code(3)
        .expect_said(&["connect to"]);
    lab.run(["replay", log, "--dsn=postgresql://me@127.0.0.1/x"])
        .expect_code(2)
        .expect_said(&["general log of MySQL or MariaDB"]);
    lab.run(["replay", log, "--speed=fast"]).expect_code(2);
    lab.run(["replay", log, "--timeline-interval=2s"]).expect_code(2).expect_said(&["10 ms to 1 s"]);
    lab.run(["replay", log, "--dry-run", "--writes", "--assert=commit p99<1s"])
        .expect_code(2)
        .expect_said(&["no statements of the class 'commit', but delete from t"]);
    lab.run(["replay", log, "--dry-run", "--assert=backlog=0"]).expect_code(2).expect_said(&["has no backlog"]);
    lab.run(["replay", log, "--dry-run", "--assert=late=0", "--speed=max"])
        .expect_code(2)
        .expect_said(&["--speed max"]);
}
