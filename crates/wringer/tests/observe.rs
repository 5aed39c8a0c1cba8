// SPDX-License-Identifier: Apache-2.0
//! `wringer observe` beside real servers under load; what it refuses; how it ends.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use evidence::{Evidence, Series};
use recording::Recording;
use rustix::process::Signal;
use serde_json::Value;
use standing::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Lab, Ran, Snapshot, alone, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn recorded(folder: &Path) -> Evidence {
    Recording::read(&folder.join("recording.sqlite")).unwrap()
}

fn series<'e>(seen: &'e Evidence, source: &str, name: &str) -> Option<&'e Series> {
    seen.samples.iter().find(|series| series.source == source && series.name == name)
}

/// What it has from its first reading to its last.
#[track_caller]
fn grown(seen: &Evidence, source: &str, name: &str) -> f64 {
    let series = series(seen, source, name).unwrap_or_else(|| panic!("no {source} {name}"));
    assert!(series.points.len() >= 2, "{source} {name}: {:?}", series.points);
    series.points.last().unwrap().value - series.points[0].value
}

fn finding<'v>(result: &'v Value, id: &str) -> &'v Value {
    let found = result["findings"].as_array().unwrap().iter().find(|it| it["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}: {:#}", result["findings"]))
}

/// A server of this flavour that stands, with a table; `None` where there is none to be had.
fn serving(lab: &Lab, flavour: &str) -> Option<String> {
    let deployed = lab.run(["sandbox", "deploy", flavour, "--name", flavour, "--start"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        return None;
    }
    deployed.expect_code(0);
    let dsn = lab.run(["sandbox", "export", flavour, "dsn"]).expect_code(0).stdout.trim().to_owned();
    Ran::of(lab.command(["fill", "--table-size=1000"]).env("WRINGER_DSN", &dsn)).expect_code(0);
    Some(dsn)
}

/// Looking on has left nothing. PostgreSQL's processes for connections and for its vacuum come and go by themselves.
#[track_caller]
fn expect_nothing_left(before: &Snapshot) {
    let mut changed: Vec<String> = Vec::new();
    let is_as_before = wait_until(PATIENCE, || {
        let after = Snapshot::take();
        let gone = before.lines_not_in(&after).into_iter().filter(|line| !line.starts_with("bdi 0:"));
        changed = after.lines_not_in(before).into_iter().chain(gone).collect();
        changed.retain(|line| !line.contains(" postgres: "));
        changed.is_empty()
    });
    assert!(is_as_before, "the host is not as before: {changed:#?}");
}

/// Looks on for so long at what a load of another process does to a server. To be called alone: it compares the host before and after.
fn look_on(flavour: &str, seconds: u32) -> Option<(Lab, Value, Evidence)> {
    let lab = Lab::new(WRINGER);
    let dsn = serving(&lab, flavour)?;
    let sandbox = json(&lab.run(["sandbox", "status", flavour, "-o", "json"]).expect_code(0))["sandboxes"][0].clone();
    let before = Snapshot::take();
    let dsn_flag = format!("--dsn={dsn}");
    let load = ["load", "oltp_read_only", "--table-size=1000", "--threads=2", "--time=120", "--report-interval=100ms"];
    let mut load = Killed(lab.start("load", [&load[..], &[&dsn_flag]].concat()));
    assert!(wait_until(PATIENCE, || lab.said("load").contains("thds: 2")), "{}", lab.said("load"));
    let out = lab.home().join("out");
    let to = out.to_str().unwrap();
    let time = format!("--time={seconds}s");
    let args = ["observe", &time, "--interval=200ms", "--to", to, "-o", "json"];
    let ran = Ran::of(lab.command(args).env("WRINGER_DSN", &dsn)).expect_code(0);
    assert!(load.0.try_wait().unwrap().is_none(), "the load goes on, untouched");
    drop(load);
    expect_nothing_left(&before);
    let said = format!("process {} (", sandbox["pid"]);
    let until = format!("every 200 ms until {seconds} s are over");
    let ran = ran.expect_said(&[&said, &until, "report     "]);
    let result = json(&ran);
    let seen = recorded(&out);
    // host, process, server; what looking on cost; no secret
    assert!(grown(&seen, "stat", "ctxt") > 0.0 && series(&seen, "meminfo", "MemAvailable").is_some());
    let memory = series(&seen, "process.smaps_rollup", "Pss").expect("memory of the process");
    assert!(memory.entity == "server" && memory.points.iter().all(|point| point.value > 1e6), "{memory:?}");
    assert!(grown(&seen, "process.stat", "utime") + grown(&seen, "process.stat", "stime") > 0.0);
    let arm = &result["arms"][0];
    assert_eq!((&arm["name"], &arm["load"], &arm["driven"]), (&"observed".into(), &Value::Null, &Value::Null));
    let told = finding(&result, "observe.server");
    assert!(told["evidence"]["server_cpu_us"].as_f64().unwrap() > 0.0, "{told:#}");
    assert!(told["evidence"]["elapsed_us"].as_f64().unwrap() >= f64::from(seconds) * 1e6, "{told:#}");
    assert!(finding(&result, "observe.cost")["evidence"]["cpu_us"].as_f64().unwrap() > 0.0);
    assert_eq!(result["conditions"]["server"]["flavour"], flavour);
    assert!(result["conditions"]["server"]["variables"].as_object().unwrap().len() > 100);
    assert!(!result["conditions"]["host"]["storage"].as_str().unwrap().is_empty(), "where its data are");
    assert!(out.join("report.html").exists() && out.join("result.json").exists());
    let text = lab.run(["report", to, "-o", "text"]).expect_code(0).stdout;
    assert!(text.contains("no load of ours") && !text.contains("did not get as far"), "{text}");
    Some((lab, result, seen))
}

#[test]
fn a_loaded_mariadb_is_seen_with_its_host() {
    let _alone = alone();
    let looked = look_on("mariadb", 2);
    let Some((lab, result, seen)) = looked else { testkit::skip!("no mariadb to be had") };
    let rate = finding(&result, "observe.server")["evidence"]["statements"].as_u64().unwrap();
    assert!(rate > 0 && grown(&seen, "server.status", "Com_stmt_execute") > 0.0);
    assert!(grown(&seen, "server.innodb_metrics", "buffer_pool_read_requests") > 0.0);
    // from a home that knows no sandbox, TCP does not tell whose port it is; the process helps
    let sandbox = json(&lab.run(["sandbox", "status", "mariadb", "-o", "json"]).expect_code(0))["sandboxes"][0].clone();
    let password = lab.run(["sandbox", "export", "mariadb", "dsn"]).expect_code(0).stdout;
    let password = password.split(['@', ':']).nth(2).unwrap().to_owned();
    let other = Lab::new(WRINGER);
    let port = format!("--mysql-port={}", sandbox["port"]);
    let args = ["observe", "--mysql-host=127.0.0.1", &port, "--mysql-user=wringer", "--time=100ms", "--to=out"];
    let ask = |more: &[&str]| Ran::of(other.command([&args[..], more].concat()).env("MYSQL_PWD", &password));
    ask(&[])
        .expect_code(3)
        .expect_said(&["this connection does not show which process serves", "--pid \"$(pidof mariadbd)\""]);
    assert!(!other.home().join("out").exists(), "nothing is made for what is refused");
    let pid = format!("--pid={}", sandbox["pid"]);
    ask(&[&pid]).expect_code(0).expect_said(&["(mariadbd)"]);
    let socket = format!("--mysql-socket={}", sandbox["socket"].as_str().unwrap());
    let wrong = ["observe", &socket, "--mysql-user=nobody", "--time=100ms", "--to=new"];
    other.run(wrong).expect_code(3).expect_said(&["1045"]);
    lab.run(["sandbox", "stop", "mariadb"]).expect_code(0);
}

#[test]
fn a_loaded_postgresql_is_seen_with_all_its_processes() {
    let _alone = alone();
    let looked = look_on("postgresql", 1);
    let Some((lab, result, seen)) = looked else { testkit::skip!("no postgresql to be had") };
    // its process for each connection is in it: one alone has one thread
    let threads = series(&seen, "process.stat", "num_threads").unwrap();
    assert!(threads.points.iter().any(|point| point.value >= 4.0), "{threads:?}");
    // and each has a row of its own, which the sum is made of
    let rows =
        |name: &'static str| seen.samples.iter().filter(move |it| it.source == "process.each.stat" && it.name == name);
    let of = |role: &str| rows("utime").filter(|it| it.entity.ends_with(role)).collect::<Vec<_>>();
    assert_eq!((of(" main").len(), of(" checkpointer").len()), (1, 1), "{:?}", rows("utime").map(|it| &it.entity));
    assert!(of(" connection").len() >= 2 && of(" connection").iter().all(|it| it.cumulative), "the load's two");
    let first = |series: &Series| series.points.first().map(|point| (point.at_us, point.value)).unwrap();
    let (at_us, sum) = first(series(&seen, "process.stat", "rss").unwrap());
    let parts: f64 = rows("rss").map(first).filter(|(at, _)| *at == at_us).map(|(_, value)| value).sum();
    assert!(parts > 0.0 && parts <= sum, "{parts} of {sum} bytes in the first reading");
    let backends = series(&seen, "server.pg_stat_database", "numbackends").unwrap();
    assert!(backends.points.iter().any(|point| point.value >= 3.0), "the load's two are among them: {backends:?}");
    assert_eq!(finding(&result, "observe.server")["doubts"][0]["id"], "observe.late_counts");
    lab.run(["sandbox", "stop", "postgresql"]).expect_code(0);
}

/// The client's clock is the server's here, so that the load's own counts must be those of the server.
#[test]
fn a_load_is_joined_on_the_servers_clock() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let Some(dsn) = serving(&lab, "mariadb") else { testkit::skip!("no mariadb to be had") };
    let own = |args: &[&str]| Ran::of(lab.command(args).env("WRINGER_DSN", &dsn));
    let mut observer = lab.command(["observe", "--interval=100ms", "--to=out"]);
    observer.stdout(std::process::Stdio::null()).stderr(std::fs::File::create(lab.home().join("said.err")).unwrap());
    let mut observer = observer.env("WRINGER_DSN", &dsn).spawn().unwrap();
    let out = lab.home().join("out");
    let looks = |seen: Evidence| series(&seen, "server.status", "Questions").is_some_and(|it| !it.points.is_empty());
    let begun = wait_until(PATIENCE, || Recording::read(&out.join("recording.sqlite")).is_ok_and(looks));
    assert!(begun && lab.said("said").contains("until Ctrl-C"), "{}", lab.said("said"));
    let load = own(&["load", "oltp_point_select", "--table-size=1000", "--time=1", "-o", "json"]).expect_code(0);
    signal(observer.id().into(), Signal::TERM);
    assert_eq!(observer.wait().unwrap().code(), Some(0), "{}", lab.said("said"));
    let printed = json(&load);
    let ahead = &printed["server_clock"];
    let bound = ahead["uncertainty_us"].as_i64().unwrap();
    assert!(ahead["ahead_us"].as_i64().unwrap().abs() <= bound + 1000, "one clock: {ahead}");
    lab.write("load.json", &load.stdout);
    let joined = json(&lab.run(["report", "out", "--load=load.json", "-o", "json"]).expect_code(0));
    let arms = joined["arms"].as_array().unwrap();
    assert_eq!(arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect::<Vec<_>>(), ["observed", "load"]);
    assert_eq!(arms[1]["load"]["measured"]["transactions"], printed["load"]["measured"]["transactions"]);
    let told = &finding(&joined, "observe.joined")["evidence"];
    let (sent, counted) = (told["queries"].as_f64().unwrap(), told["statements"].as_f64().unwrap());
    let measured = |key: &str| arms[1]["load"]["measured"][key].as_u64().unwrap();
    let (from_us, to_us) = (measured("started_us"), measured("started_us") + measured("elapsed_us"));
    // How often the server was read is a matter of how busy this machine is. A reading is over when the next one begins: the last one but one
    // before the load has none of its queries. The first one after it has all.
    let seen = recorded(&out);
    let readings = &series(&seen, "server.status", "Questions").unwrap().points;
    let exact_us = u64::try_from(bound).unwrap() + 1000;
    let earlier = readings.iter().take_while(|it| it.at_us + exact_us <= from_us).count().saturating_sub(2);
    let later = readings.iter().position(|it| it.at_us >= to_us + exact_us).unwrap_or(readings.len() - 1);
    let around = readings[later].value - readings[earlier].value;
    assert!(around >= sent && sent > 0.0, "{around} around the load: {told:#}");
    let within: Vec<f64> =
        readings.iter().filter(|it| (from_us..=to_us).contains(&it.at_us)).map(|it| it.value).collect();
    let least = within.last().zip(within.first()).map_or(0.0, |(last, first)| last - first);
    assert!((least - 1.0..=around + 1.0).contains(&counted), "{least} to {around}: {told:#}");
    lab.write("broken.json", &load.stdout.replace("started_unix_us", "begun"));
    lab.run(["report", "out", "--load=broken.json"]).expect_code(3).expect_said(&["started_unix_us"]);
    let apart = printed["started_unix_us"].as_u64().unwrap() + 3_600_000_000;
    let apart = load.stdout.replace(&printed["started_unix_us"].to_string(), &apart.to_string());
    lab.write("apart.json", &apart);
    lab.run(["report", "out", "--load=apart.json"]).expect_code(3).expect_said(&["do not overlap"]);
    lab.run(["sandbox", "stop", "mariadb"]).expect_code(0);
}

/// Nobody looks at a server here: the process is the test's own.
#[test]
fn signals_end_it_in_order() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let own = format!("--pid={}", std::process::id());
    for (name, ends, force) in [("first", Signal::TERM, "--time=0"), ("again", Signal::INT, "--force")] {
        let mut observer = lab.start(name, ["observe", &own, "--to=out", force]);
        let begun = wait_until(PATIENCE, || lab.said(name).contains("until Ctrl-C"));
        assert!(begun, "{}", lab.said(name));
        signal(observer.id().into(), ends);
        assert_eq!(observer.wait().unwrap().code(), Some(0), "{}", lab.said(name));
        let seen = recorded(&lab.home().join("out"));
        assert!(grown(&seen, "observer", "cpu") >= 0.0 && seen.arms[0].ended_us > 0);
        assert!(series(&seen, "process.io", "rchar").is_some() && seen.conditions.server.flavour.is_empty());
        assert!(seen.conditions.server.binary.contains("observe"), "{:?}", seen.conditions.server);
        assert!(lab.home().join("out/report.html").exists());
    }
    lab.run(["observe", "--time=100ms", "--to=out"]).expect_code(3).expect_said(&["is not empty", "--force"]);
}

#[test]
fn a_process_that_ends_is_told_and_what_was_seen_is_kept() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let log = std::fs::File::create(lab.home().join("its.err")).unwrap();
    let child = Killed(Command::new("sleep").arg("600").stderr(log).spawn().unwrap());
    let args = ["observe".to_owned(), format!("--pid={}", child.0.id()), "--to=out".to_owned()];
    let mut observer = lab.start("observer", args);
    let recording = lab.home().join("out/recording.sqlite");
    let has_memory = |seen: Evidence| series(&seen, "process.stat", "rss").is_some_and(|rss| !rss.points.is_empty());
    let read = wait_until(PATIENCE, || Recording::read(&recording).is_ok_and(has_memory));
    assert!(read, "{}", lab.said("observer"));
    let pid = child.0.id();
    drop(child);
    assert_eq!(observer.wait().unwrap().code(), Some(4));
    let said = lab.said("observer");
    assert!(said.contains(&format!("process {pid} ended while it was observed")), "{said}");
    assert!(said.contains("its error log: ") && said.contains("its.err"), "{said}");
    let shown = lab.run(["report", "out", "-o", "text"]).expect_code(0).stdout;
    assert!(shown.contains("The run ended early: process"), "{shown}");
    assert!(has_memory(recorded(&lab.home().join("out"))), "what was seen is kept");
}

#[test]
fn what_cannot_be_observed_is_refused_before_anything_is_made() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let refused = |args: &[&str], code: i32, said: &[&str]| {
        let ran = lab.run([&["observe", "--time=100ms", "--to=out"], args].concat());
        ran.expect_code(code).expect_said(said);
        assert!(!lab.home().join("out").exists(), "{args:?}");
    };
    refused(&["--pid=4000000000"], 3, &["there is no process 4000000000", "pidof"]);
    refused(&["--mysql-socket=/nowhere.sock"], 3, &["/nowhere.sock", "is the server up"]);
    refused(&["--mysql-host=h", "--pgsql-host=h"], 2, &["name two servers"]);
    refused(&["--interval=1ms"], 2, &["the shortest is 10 ms"]);
    refused(&["--pid=0"], 2, &["--pid"]);
    let folder: PathBuf = lab.home().join("mine");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("treasure"), "").unwrap();
    let ran = lab.run(["observe", "--time=100ms", "--force", "--to=mine"]).expect_code(3);
    ran.expect_said(&["mine is not empty", "another folder"]);
    // the host alone
    let ran = lab.run(["observe", "--time=100ms", "--interval=10ms", "--to=out", "-o", "json"]).expect_code(0);
    let told = json(&ran);
    let told = &finding(&told, "observe.server")["evidence"];
    assert!(told["host_busy_share"].is_number() && told["server_cpu_us"].is_null(), "{told:#}");
}

/// As the user `nobody`, at a process of root.
#[test]
fn what_this_user_may_not_read_is_told_and_left_out() {
    let _alone = alone();
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    let lab = Lab::as_ordinary_user(WRINGER);
    let own = format!("--pid={}", std::process::id());
    let out = lab.home().join("out");
    let ran = lab.run(["observe", &own, "--time=100ms", "--to", out.to_str().unwrap()]).expect_code(0);
    let ran = ran.expect_said(&["/io: ", "it is left out", "smaps_rollup: ", "process.status is read instead"]);
    assert_eq!(ran.stderr.matches("smaps_rollup").count(), 1, "told once: {}", ran.stderr);
    let seen = recorded(&out);
    assert!(series(&seen, "process.status", "VmRSS").is_some() && series(&seen, "process.stat", "utime").is_some());
    assert!(series(&seen, "process.io", "rchar").is_none() && !seen.conditions.tool.as_root);
}
