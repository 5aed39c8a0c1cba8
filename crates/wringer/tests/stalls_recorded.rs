// SPDX-License-Identifier: Apache-2.0
//! Stalls that are watched are in a recording: of `stalls watch --to`, also when the server ends, and of a run with `observe.stalls`, where the load's
//! slow statements get the causes that the watch saw.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, PATIENCE, Server, json};
use evidence::{LOGGED, STALL, STALL_VICTIM, STALLS_WATCHED, Span};
use load::admin::Connection;
use recording::Recording;
use serde_json::Value;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;
use testkit::{Lab, wait_until};

const UPDATE: &str = "UPDATE shop.t SET a = 471147114711471 WHERE id = 1";

fn number(connection: &mut Connection) -> String {
    connection.query("SELECT CONNECTION_ID()").unwrap().text(0, 0).unwrap().to_owned()
}

/// The victim waits for the holder's row for so long.
fn wait_for_a_row(holder: &mut Connection, victim: &mut Connection, ms: u64) {
    holder.execute("BEGIN").unwrap();
    holder.execute(UPDATE).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| victim.execute(UPDATE).unwrap());
        thread::sleep(Duration::from_millis(ms));
        holder.execute("ROLLBACK").unwrap();
        waiting.join().unwrap();
    });
}

fn watch(server: &Server, name: &'static str, args: &[&str]) -> Child {
    let args = [&["stalls", "watch", "--sandbox", "s", "-o", "json"], args].concat();
    let child = server.lab.start(name, &args);
    assert!(wait_until(PATIENCE, || server.lab.said(name).contains("watching ")), "{}", server.lab.said(name));
    child
}

fn explained(server: &Server, folder: &Path) -> Value {
    json(&server.lab.run(["stalls", "explain", folder.to_str().unwrap(), "-o", "json"]).expect_code(0))
}

/// The recording has a longer stall than this, and none of an hour.
fn expect_to_fail_on_stall(lab: &Lab, folder: &Path, limit: &str) {
    let explain = |limit| ["stalls", "explain", folder.to_str().unwrap(), "--fail-on-stall", limit];
    lab.run(explain(limit)).expect_code(1).expect_said(&["--fail-on-stall"]);
    lab.run(explain("1h")).expect_code(0);
}

/// Those of this connection, of 200 ms and more.
fn stalls_of<'a>(arm: &'a Value, connection: &str) -> Vec<&'a Value> {
    let of = |stall: &&Value| {
        let is_its = stall["victims"].as_array().unwrap().iter().any(|it| it["connection"] == connection);
        is_its && stall["length_us"].as_u64() >= Some(200_000)
    };
    arm["stalls"].as_array().unwrap().iter().filter(of).collect()
}

/// The server's slow log has it, too.
#[track_caller]
fn expect_logged(stall: &Value, connection: &str) {
    let said = format!("the slow log has 1 of 1 victim: connection {connection} took ");
    let evidence = stall["evidence"]["for"].as_array().unwrap();
    assert!(evidence.iter().any(|it| it.as_str().unwrap().starts_with(&said)), "{stall:#}");
}

/// The slow log goes on in another file, as logrotate does it.
fn rotate(connection: &mut Connection) {
    let of = |connection: &mut Connection, name: &str| {
        connection.query(&format!("SELECT @@{name}")).unwrap().text(0, 0).unwrap().to_owned()
    };
    let log = Path::new(&of(connection, "datadir")).join(of(connection, "slow_query_log_file"));
    std::fs::rename(&log, log.with_extension("1")).unwrap();
    connection.execute("FLUSH SLOW LOGS").unwrap();
}

#[test]
fn what_was_watched_is_told_again_from_its_recording_also_when_the_server_ended() {
    let server = Server::start(MARIADB, &["slow_query_log=ON", "long_query_time=0.1"], &[]);
    let (mut holder, mut victim) = (server.connect(), server.connect());
    for sql in [
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, a bigint) ENGINE=InnoDB",
        "INSERT INTO shop.t VALUES (1,0),(2,0)",
    ] {
        holder.execute(sql).unwrap();
    }
    let connection = number(&mut victim);
    let folder = server.lab.home().join("watched");
    let to = format!("--to={}", folder.display());
    let mut watching = watch(&server, "watch", &["--for=3s", "--canary", &to]);
    thread::sleep(Duration::from_millis(300));
    wait_for_a_row(&mut holder, &mut victim, 500);
    assert_eq!(watching.wait().unwrap().code(), Some(0), "{}", server.lab.said("watch"));
    let lines = server.lab.said("watch");
    let lines: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let summary = lines.iter().find(|line| line["kind"] == "summary").unwrap();

    let again = explained(&server, &folder);
    let [arm] = again["arms"].as_array().unwrap().as_slice() else { panic!("{again:#}") };
    let [stall] = stalls_of(arm, &connection)[..] else { panic!("one of connection {connection}: {again:#}") };
    let all = summary["stalls"].as_array().unwrap();
    let told = all.iter().find(|it| it["length_us"] == stall["length_us"]).unwrap();
    assert_eq!(stall["cause"], "row_lock");
    expect_logged(stall, &connection);
    assert_eq!(summary["missing"], serde_json::json!([]), "{summary:#}");
    assert!(summary["cost"]["statements"].as_u64() >= Some(20), "the canary's, ten a second: {summary:#}");
    let mut victims = all.iter().flat_map(|stall| stall["victims"].as_array().unwrap());
    assert!(victims.all(|it| it["statement"] != "select ?"), "the canary is no victim: {all:#?}");
    for key in ["cause", "confidence", "evidence", "lost_query_us", "victim_count", "victims", "ends_within_us"] {
        assert_eq!(stall[key], told[key], "{key}");
    }
    assert_eq!(stall["started_us"], told["started_us"], "on one clock");
    for key in ["lost_query_us", "attributed_query_us", "unexplained_query_us", "wait_free"] {
        assert_eq!(arm["account"][key], summary["account"][key], "{key}: {arm:#}");
    }
    for key in ["cpu_us", "sweeps", "statements"] {
        assert_eq!(arm["watched"]["cost"][key], summary["cost"][key], "{key}");
    }
    expect_to_fail_on_stall(&server.lab, &folder, "300ms");
    let text = std::fs::read(folder.join("recording.sqlite")).unwrap();
    assert!(!text.windows(15).any(|it| it == b"471147114711471"), "statements are stored without their values");
    let report = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("id=\"stalls\"") && report.contains("row_lock"), "the timeline");
    let seen = Recording::read(&folder.join("recording.sqlite")).unwrap();
    let logged = |it: &Span| it.kind == LOGGED && it.attributes["connection"] == connection && it.length_us() > 200_000;
    assert!(seen.spans.iter().any(logged), "the entry of the slow log");
    assert!(seen.samples.iter().any(|it| it.name == "Innodb_buffer_pool_wait_free"), "the counters beside it");
    let refused = server.lab.run(["stalls", "watch", "--sandbox", "s", "--for=1s", &to]).expect_code(3);
    refused.expect_said(&["--force"]);

    let folder = server.lab.home().join("ended");
    let to = format!("--to={}", folder.display());
    let mut watching = watch(&server, "until its end", &["--with-values", &to]);
    rotate(&mut holder);
    wait_for_a_row(&mut holder, &mut victim, 500);
    let is_kept = || {
        let seen = Recording::read(&folder.join("recording.sqlite")).ok();
        seen.is_some_and(|seen| seen.spans.iter().any(|span| span.kind == STALL))
    };
    assert!(wait_until(PATIENCE, is_kept), "a stall is in the recording while the watch goes on");
    server.lab.run(["sandbox", "stop", "s"]).expect_code(0);
    assert_eq!(watching.wait().unwrap().code(), Some(4), "{}", server.lab.said("until its end"));
    let again = explained(&server, &folder);
    let arm = &again["arms"][0];
    let [stall] = stalls_of(arm, &connection)[..] else { panic!("one of connection {connection}: {again:#}") };
    assert_eq!(stall["victims"][0]["statement_with_values"], UPDATE);
    expect_logged(stall, &connection);
    assert!(arm["watched"]["cost"]["sweeps"].as_u64() > Some(10), "{arm:#}");
}

/// The statement beside the load holds all rows, again and again.
const HELD: &str = r#"
schema = 1
name = "held"
[server]
flavour = "mariadb"
version = "10.11"
[fill]
rows = 10
[observe]
stalls = true
stalls_min = "40ms"
[load]
workload = "oltp_update_non_index"
threads = 2
time = "3s"
slow_statements = "100ms"
[[load.at]]
time = "500ms"
every = "1s"
sql = "UPDATE sbtest1 SET k = k + {turn} + 0 * SLEEP(0.03)"
[[arm]]
name = "held"
"#;

#[test]
fn the_slow_statements_of_a_load_get_the_causes_that_the_watch_beside_it_saw() {
    let lab = Lab::new(env!("CARGO_BIN_EXE_wringer"));
    let file = lab.write("held.toml", HELD);
    let out = lab.home().join("out");
    let ran =
        lab.run(["run", file.to_str().unwrap(), "--yes", "--to", out.to_str().unwrap(), "-o", "json"]).expect_code(0);
    let result = json(&ran);
    let seen = Recording::read(&out.join("recording.sqlite")).unwrap();
    for kind in [STALL, STALL_VICTIM] {
        assert!(seen.spans.iter().any(|span| span.kind == kind && span.entity == "held"), "{kind}");
    }
    assert!(seen.snapshots.iter().any(|it| it.source == STALLS_WATCHED && it.arm.as_deref() == Some("held")));
    assert!(seen.events.iter().any(|it| it.text.contains("watching took")), "its own cost: {:?}", seen.events);
    let finding = |code: &str| {
        let findings = result["findings"].as_array().unwrap();
        findings.iter().find(|it| it["id"] == code).unwrap_or_else(|| panic!("{code}: {result:#}"))
    };
    let events = finding("stalls.events")["evidence"]["events"].as_array().unwrap();
    let locks = events.iter().filter(|it| it["cause"] == "row_lock").count();
    assert!(locks >= 2, "three times all rows are held: {events:#?}");
    let by_cause = &finding("stalls.account")["evidence"]["by_cause"];
    assert!(by_cause["row_lock"].as_u64() >= Some(500_000), "{by_cause:#}");
    let again = json(&lab.run(["stalls", "explain", out.to_str().unwrap(), "-o", "json"]).expect_code(0));
    let arm = &again["arms"][0];
    assert_eq!(arm["source"]["format"], "recording", "the load's statements, and the watch's causes");
    assert!(arm["watched"]["cost"]["cpu_share"].as_f64() > Some(0.0), "{arm:#}");
    expect_to_fail_on_stall(&lab, &out, "150ms");
}
