// SPDX-License-Identifier: Apache-2.0
//! `load.replay`: arms that send the statements of a server's log once more, each with its own pace and squeeze.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const POINT: &str = "select c from sbtest1 where id = ?";
const UPDATE: &str = "update sbtest1 set k = k + ? where id = ?";

fn experiment(flavour: &str, load: &str, arms: &str) -> String {
    format!(
        "schema = 1\nname = \"again\"\n[server]\nflavour = \"{flavour}\"\n[fill]\nrows = 1000\n[load]\n{load}\n{arms}\n"
    )
}

fn result(lab: &Lab) -> Value {
    serde_json::from_str(&fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap()
}

fn run(lab: &Lab, text: &str) -> Value {
    let file = lab.write("again.toml", text);
    lab.run(["run", file.to_str().unwrap(), "--to", "out", "--force"]).expect_code(0);
    result(lab)
}

/// The log of a load that a sandbox had: 30 point selects on two connections, then 7 updates; and its length.
fn logged(lab: &Lab) -> (std::path::PathBuf, u64) {
    let options = ["-c", "long_query_time=0", "-c", "slow_query_log_file=slow.log"];
    lab.run([&["sandbox", "deploy", "mariadb", "--name", "a", "--start"], &options[..]].concat()).expect_code(0);
    let dsn = format!("--dsn={}", lab.run(["sandbox", "export", "a", "dsn"]).expect_code(0).stdout.trim());
    lab.run(["fill", &dsn, "--table-size=1000"]).expect_code(0);
    let sized = [&dsn, "--table-size=1000", "--time=0"];
    let text = "--db-ps-mode=disable";
    let switch = |on: u32| {
        lab.run(["sandbox", "use", "a", &format!("SET GLOBAL slow_query_log = {on}")]).expect_code(0);
    };
    switch(1);
    lab.run([&["load", "oltp_point_select", "--threads=2", "--events=30", text], &sized[..]].concat()).expect_code(0);
    lab.run([&["load", "oltp_update_index", "--events=7", text], &sized[..]].concat()).expect_code(0);
    switch(0);
    let log = lab.home().join("slow.log");
    fs::copy(lab.home().join("sandboxes/a/data/slow.log"), &log).unwrap();
    lab.run(["sandbox", "delete", "--force", "a"]).expect_code(0);
    let planned = lab.run(["replay", log.to_str().unwrap(), "--dry-run", "-o", "json"]).expect_code(0).stdout;
    let planned: Value = serde_json::from_str(&planned).unwrap();
    (log, planned["log"]["length_us"].as_u64().unwrap())
}

#[test]
fn arms_replay_a_servers_own_log() {
    let lab = Lab::new(WRINGER);
    let (_, length_us) = logged(&lab);
    // where an arm has another kind of load, each names its own
    let arms = "[[arm]]\nname = \"max\"\nload = { replay = \"slow.log\", speed = \"max\" }\n\
                [[arm]]\nname = \"writes\"\nload = { replay = \"slow.log\", speed = 4, writes = true }\n\
                assert = [\"errors=0\", \"select c from sbtest1 where id = ? p99<1h\"]\n\
                [[arm]]\nname = \"ours\"\nload = { workload = \"oltp_point_select\", time = \"200ms\" }";
    let text = experiment("mariadb", "cpuset = \"0\"", arms);
    let file = lab.write("again.toml", &text);
    let plan = lab.run(["plan", file.to_str().unwrap()]).expect_code(0).stdout;
    for words in ["replay slow.log, a log of", "4 times as fast as recorded", "writes, too"] {
        assert!(plan.contains(words), "'{words}' is not in\n{plan}");
    }
    let result = run(&lab, &text);
    let arms = result["arms"].as_array().unwrap();
    for arm in &arms[..2] {
        let (name, load) = (&arm["name"], &arm["load"]);
        let measured = &load["measured"];
        assert_eq!((&load["workload"], &load["driver"]), (&"replay slow.log".into(), &"mysql".into()), "{name}");
        assert_eq!(measured["statements"][POINT]["service"]["count"], 30, "{name}: {measured:#}");
        assert!(measured["errors"].as_object().unwrap().is_empty(), "{name}: {measured:#}");
        let updates = if name == "writes" { Value::from(7) } else { Value::Null };
        assert_eq!(measured["statements"][UPDATE]["service"]["count"], updates, "{name}: {measured:#}");
        // on the run's clock: no earlier than the arm, and over before it
        let (from, elapsed) = (measured["started_us"].as_u64().unwrap(), measured["elapsed_us"].as_u64().unwrap());
        let (began, ended) = (arm["started_us"].as_u64().unwrap(), arm["ended_us"].as_u64().unwrap());
        assert!(began < from && from + elapsed < ended, "{name}: {from} and {elapsed} in {began} to {ended}");
        assert!(measured["timeline"][0]["at_us"].as_u64().unwrap() >= from, "{name}");
        assert!(!arm["witnesses"].as_array().unwrap().is_empty(), "{name}: both ends were looked at");
    }
    let paced = &arms[1]["load"];
    assert_eq!(paced["arrivals"], serde_json::json!({ "kind": "recorded", "times": 4.0 }));
    let last_us = length_us / 4;
    assert!(paced["measured"]["elapsed_us"].as_u64().unwrap() >= last_us, "no statement starts before its moment");
    assert_eq!(arms[0]["load"]["arrivals"]["kind"], "closed");
    assert!(arms[1]["assertions"].as_array().unwrap().iter().all(|it| it["passed"] == true), "{:#}", arms[1]);
    assert!(arms[2]["load"]["measured"]["transactions"].as_u64().unwrap() > 0);
}

#[test]
fn a_log_of_postgresql_is_replayed_on_a_squeezed_server() {
    let lab = Lab::new(WRINGER);
    let lines = (0..20).map(|at| {
        format!(
            "2026-11-21 22:51:56.{at:03} UTC [{}] LOG:  statement: SELECT c FROM sbtest1 WHERE id = {}\n",
            at % 3,
            at + 1
        )
    });
    let log: String =
        lines.chain(["2026-11-21 22:51:57 UTC [1] LOG:  statement: DELETE FROM sbtest1\n".into()]).collect();
    fs::create_dir(lab.home().join("logs")).unwrap();
    lab.write("logs/pg.log", &log);
    let fuse = Path::new("/dev/fuse").exists() && testkit::is_root();
    let squeeze = if fuse { "squeeze.disk.sync = \"100us\"\n" } else { "" };
    let result = run(
        &lab,
        &experiment("postgresql", "replay = \"logs/pg.log\"", &format!("[[arm]]\nname = \"one\"\n{squeeze}")),
    );
    let measured = &result["arms"][0]["load"]["measured"];
    assert_eq!((&measured["transactions"], &measured["writes"]), (&Value::from(20), &Value::from(0)), "{measured:#}");
    let evidence = recording::Recording::read(&lab.home().join("out/recording.sqlite")).unwrap();
    let told = |words: &str| evidence.events.iter().any(|event| event.text.contains(words));
    assert!(told("20 statements in 3 sessions are sent") && told("not sent: 1 writes rows"), "{:#?}", evidence.events);
}

#[test]
fn what_cannot_be_replayed_is_told_before_anything_starts() {
    let lab = Lab::new(WRINGER);
    lab.write("general.log", "261121 22:49:33\t     3 Query\tDELETE FROM t\n");
    lab.write("notes.txt", "nothing\n");
    let told = |flavour: &str, load: &str, code: i32, words: &[&str]| {
        let file = lab.write("again.toml", &experiment(flavour, load, "[[arm]]\nname = \"one\""));
        for command in ["plan", "run"] {
            lab.run([command, file.to_str().unwrap()]).expect_code(code).expect_said(words);
        }
        assert!(!lab.home().join("sandboxes").exists(), "nothing was made");
    };
    told("mariadb", "replay = \"none.log\"", 3, &["none.log"]);
    told("mariadb", "replay = \"notes.txt\"", 3, &["is no log that is known here"]);
    told(
        "mariadb",
        "replay = \"general.log\"",
        3,
        &["arm 'one'", "no statement that would be sent", "load.writes = true"],
    );
    told("postgresql", "replay = \"general.log\"", 2, &["general log of MySQL or MariaDB", "server is postgresql"]);
    let asserted = "replay = \"general.log\"\nwrites = true\n[[arm]]\nname = \"two\"\nassert = [\"commit p99<1s\"]";
    told("mariadb", asserted, 2, &["again.toml:12", "no statements of the class 'commit', but delete from t"]);
    told("mariadb", "replay = \"general.log\"\nthreads = 3", 2, &["load.threads has no meaning beside load.replay"]);
}
