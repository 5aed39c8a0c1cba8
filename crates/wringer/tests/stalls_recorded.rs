// SPDX-License-Identifier: Apache-2.0
//! Stalls that are watched are in a recording: of `stalls watch --to`, also when the server ends, and of a run with `observe.stalls`, where the load's
//! slow statements get the causes that the watch saw. What Wringer planted is in the recording, too, and changes nothing of what is found.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, PATIENCE, Server, json};
use evidence::{Evidence, LOGGED, PLANTED, SERVER_SAID, STALL, STALL_VICTIM, STALLS_WATCHED, Span, THREAD_WAIT};
use load::admin::Connection;
use recording::{Recording, Start};
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
stalls_deep = true
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
    let said = seen.snapshots.iter().find(|it| it.source == STALLS_WATCHED && it.arm.as_deref() == Some("held"));
    let said: Value = serde_json::from_str(&said.unwrap().content).unwrap();
    assert_eq!(said["tiers"][0]["tier"], "deep", "{said:#}");
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
    assert!(seen.spans.iter().filter(|it| it.kind == PLANTED).count() >= 3, "the statements beside the load");
    expect_the_same_without_labels(&lab, &seen, &out);
}

/// What `stalls explain` prints of this recording is the same to the byte without the spans of what was planted, and with wrong ones.
#[track_caller]
/// The stalls are concluded from what the watch saw: neither what was planted nor what the watch concluded at the time is needed, or believed.
fn expect_the_same_without_labels(lab: &Lab, seen: &Evidence, folder: &Path) {
    let no_label = |span: &Span| (span.kind != PLANTED).then(|| span.clone());
    let lies = |span: &Span| {
        let mut span = span.clone();
        if span.kind == PLANTED {
            span.attributes.insert("cause".to_owned(), "buffer_pin".to_owned());
            (span.from_us, span.to_us) = (span.from_us / 2, span.to_us.saturating_mul(2));
        }
        Some(span)
    };
    let is_verdict = |span: &Span| [STALL, STALL_VICTIM].contains(&span.kind.as_str());
    let no_verdict = |span: &Span| (!is_verdict(span)).then(|| span.clone());
    let wrong_verdict = |span: &Span| {
        let mut span = span.clone();
        if is_verdict(&span) {
            span.attributes.insert("cause".to_owned(), "buffer_pin".to_owned());
            span.to_us += 5_000_000;
        }
        Some(span)
    };
    let printed = |folder: &Path| {
        let explain = |form| ["stalls", "explain", folder.to_str().unwrap(), "-o", form];
        ["json", "text"].map(|form| lab.run(explain(form)).expect_code(0).stdout)
    };
    let expected = printed(folder);
    let labels: [(&str, &Relabel<'_>); 4] =
        [("none", &no_label), ("lies", &lies), ("no-verdict", &no_verdict), ("wrong-verdict", &wrong_verdict)];
    for (name, label) in labels {
        let other = lab.home().join(format!("labels-{name}"));
        copy(seen, &other, label);
        assert_eq!(printed(&other), expected, "{name}");
    }
}

/// What becomes of a span in another recording; `None`: it is left out.
type Relabel<'a> = dyn Fn(&Span) -> Option<Span> + 'a;

/// The recording once more, with the spans that `span` makes of its spans.
fn copy(seen: &Evidence, folder: &Path, span: impl Fn(&Span) -> Option<Span>) {
    std::fs::create_dir(folder).unwrap();
    let Evidence { run_id, started, experiment, elapsed_us, .. } = seen.clone();
    let start = Start { run_id, started, experiment, files: Vec::new(), is_private: false };
    let recording = Recording::create(&folder.join("recording.sqlite"), &start).unwrap();
    recording.conditions(&seen.conditions).unwrap();
    (0..).zip(&seen.arms).for_each(|(position, arm)| recording.arm(position, arm).unwrap());
    seen.spans.iter().filter_map(span).for_each(|span| recording.span(&span).unwrap());
    seen.snapshots.iter().for_each(|snapshot| recording.snapshot(snapshot).unwrap());
    seen.events.iter().for_each(|event| recording.event(event).unwrap());
    recording.samples(&seen.samples).unwrap();
    recording.finish(elapsed_us).unwrap();
}

#[test]
fn what_was_planted_is_in_one_recording_with_what_a_watch_saw_of_it() {
    let server = Server::start(MARIADB, &[], &[]);
    let folder = server.lab.home().join("planted");
    let to = format!("--to={}", folder.display());
    let inject = ["stalls", "inject", "--sandbox", "s", "--cause", "row_lock", "--length", "700ms", "-o", "json"];
    let ran = json(&server.lab.run([&inject[..], &[to.as_str()]].concat()).expect_code(0));
    let injected = &ran["injections"][0];
    let seen = Recording::read(&folder.join("recording.sqlite")).unwrap();
    let of_kind = |kind: &str| seen.spans.iter().filter(|it| it.kind == kind).collect::<Vec<&Span>>();
    let [planted] = of_kind(PLANTED)[..] else { panic!("{ran:#}") };
    assert_eq!(
        (planted.entity.as_str(), planted.attributes["cause"].as_str()),
        (seen.arms[0].name.as_str(), "row_lock")
    );
    assert_eq!(injected["length_us"], planted.length_us());
    for (attribute, told) in [
        ("asked_us", &injected["asked_us"]),
        ("witness_value", &injected["witness"]["value"]),
        ("witness_connection", &injected["witness"]["connection"]),
        ("held_by", &injected["held_by"]),
    ] {
        assert_eq!(planted.attributes.get(attribute), Some(&told.to_string()), "{attribute}: {ran:#}");
    }
    // the watch saw the witness wait for the holder, at the time that was planted
    let witness = planted.attributes.get("witness_connection");
    let waits = of_kind(STALL_VICTIM);
    let waited = waits.iter().find(|it| it.attributes.get("connection") == witness);
    let waited = waited.unwrap_or_else(|| panic!("{:#?}", seen.spans));
    let shared_us = waited.to_us.min(planted.to_us).saturating_sub(waited.from_us.max(planted.from_us));
    assert!(shared_us * 2 > planted.length_us(), "{waited:#?} {planted:#?}");
    let stalls = of_kind(STALL);
    let stall = stalls.iter().find(|it| it.attributes["number"] == waited.attributes["stall"]).unwrap();
    assert_eq!(stall.attributes["cause"], "row_lock", "{stall:#?}");
    assert_eq!(stall.attributes.get("held_by"), planted.attributes.get("held_by"), "{stall:#?}");
    // and what it saw before it concluded that
    let of_thread = |kind: &str, key: &str, value: &str| {
        let mut spans = seen.spans.iter().filter(|it| it.kind == kind && it.entity == planted.entity);
        let is_of_it = |it: &Span| it.attributes.get("thread") == waited.attributes.get("thread");
        spans.any(|it| {
            is_of_it(it) && it.attributes[key] == value && it.to_us > waited.from_us && it.from_us < waited.to_us
        })
    };
    assert!(of_thread(THREAD_WAIT, "way", "blocked"), "{:#?}", of_kind(THREAD_WAIT));
    assert!(of_thread(SERVER_SAID, "says", "row_lock"), "{:#?}", of_kind(SERVER_SAID));
    expect_the_same_without_labels(&server.lab, &seen, &folder);
    server.lab.run([&inject[..], &[to.as_str()]].concat()).expect_code(3).expect_said(&["--force"]);
}
