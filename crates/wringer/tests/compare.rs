// SPDX-License-Identifier: Apache-2.0
//! `wringer compare` on recordings made by hand: no server is needed.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // prepares files

#[path = "../../report/tests/common/mod.rs"]
mod common;

use evidence::{ArmOutcome, Evidence};
use host::places::Places;
use lab::{Missed, Outcome};
use recording::{Recording, Start};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use sweep::{Bench, Due, Error, News, Plan, Planned, Sweep, Wish};
use testkit::{Lab, Ran};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// The arm "no delay" alone, so many thousandths of its time long.
fn sample(name: &str, thousandths: u64) -> Evidence {
    let mut evidence = common::sample().evidence;
    evidence.run_id = format!("w-{name}");
    evidence.arms.truncate(1);
    evidence.arms[0].broke_off = None;
    longer(&mut evidence, thousandths);
    evidence
}

fn longer(evidence: &mut Evidence, thousandths: u64) {
    let phase = &mut evidence.arms[0].load.as_mut().unwrap().measured;
    phase.elapsed_us = phase.elapsed_us * thousandths / 1000;
}

/// A recording of the arm "no delay" alone, so many thousandths of its time long.
fn record(lab: &Lab, name: &str, thousandths: u64, change: impl Fn(&mut Evidence)) -> String {
    let mut evidence = sample(name, thousandths);
    change(&mut evidence);
    let folder = lab.home().join(name);
    fs::create_dir_all(&folder).unwrap();
    write(&folder, evidence);
    folder.to_str().unwrap().to_owned()
}

fn write(folder: &Path, evidence: Evidence) {
    let (run_id, started, experiment) = (evidence.run_id, evidence.started, evidence.experiment);
    let start = Start { run_id, started, experiment, files: Vec::new(), is_private: false };
    let recording = Recording::create(&folder.join("recording.sqlite"), &start).unwrap();
    recording.conditions(&evidence.conditions).unwrap();
    (0..).zip(&evidence.arms).for_each(|(position, arm)| recording.arm(position, arm).unwrap());
    evidence.measured.iter().for_each(|measured| recording.measured(measured).unwrap());
    recording.finish(evidence.elapsed_us).unwrap();
}

/// Runs with these lengths.
fn side(lab: &Lab, name: &str, lengths: &[u64], change: fn(&mut Evidence)) -> Vec<String> {
    (1..)
        .zip(lengths)
        .map(|(number, length): (usize, _)| record(lab, &format!("{name}-{number}"), *length, change))
        .collect()
}

fn compare(lab: &Lab, a: &[String], b: &[String], more: &[&str]) -> Ran {
    let words = ["compare", "--a"].into_iter().chain(a.iter().map(String::as_str));
    let words = words.chain(["--b"]).chain(b.iter().map(String::as_str)).chain(more.iter().copied());
    lab.run(words)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

const STEADY: [u64; 4] = [1000, 1010, 995, 1003];

#[test]
fn a_throughput_that_fell_is_shown_and_fails() {
    let lab = Lab::new(WRINGER);
    let (a, b) = (side(&lab, "a", &STEADY, |_| ()), side(&lab, "b", &[1250, 1260, 1245, 1252], |_| ()));
    let ran = compare(&lab, &a, &b, &["-o", "json", "--fail-if", "throughput<0.95x"]).expect_code(1);
    let result = json(&ran);
    let throughput = &result["figures"][0];
    assert_eq!((&throughput["name"], &throughput["verdict"]), (&"throughput".into(), &"lower".into()), "{result:#}");
    assert!((throughput["ratio"].as_f64().unwrap() - 0.8).abs() < 0.01, "{throughput:#}");
    assert_eq!((&result["fail_if"][0]["held"], &result["differs"]), (&"shown".into(), &Value::Array(Vec::new())));
    let text = compare(&lab, &a, &b, &["--paired", "--fail-if", "throughput<0.5x"]).expect_code(0).stdout;
    assert!(text.contains("same conditions") && text.contains("lower") && text.contains("would have been"), "{text}");
}

#[test]
fn what_could_be_hidden_is_said_in_a_sentence() {
    let lab = Lab::new(WRINGER);
    let (a, b) = (side(&lab, "a", &[1000, 1200, 900], |_| ()), side(&lab, "b", &[1010, 880, 1180], |_| ()));
    let ran = compare(&lab, &a, &b, &["--fail-if", "throughput<0.95x"]).expect_code(0);
    assert!(ran.stdout.contains("it is not shown. But these repeats show only what is"), "{}", ran.stdout);
    assert!(ran.stdout.contains("no difference shown"), "{}", ran.stdout);
}

#[test]
fn too_few_repeats_have_no_verdict_and_say_what_to_do() {
    let lab = Lab::new(WRINGER);
    let (a, b) = (record(&lab, "a", 1000, |_| ()), record(&lab, "b", 1300, |_| ()));
    let ran = lab.run(["compare", &a, &b]).expect_code(0);
    assert!(
        ran.stdout.contains("no verdict") && ran.stdout.contains("until there are three runs of each"),
        "{}",
        ran.stdout
    );
    lab.run(["compare", &a, &b, "--fail-if", "p99>1.05x"]).expect_code(3).expect_said(&["3 repeats of each side"]);
    let help = lab.run(["compare", "--help"]).expect_code(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("without --fail-if also when there is no verdict"), "{help}");
}

#[test]
fn what_differs_comes_first_and_is_allowed_by_its_key() {
    let lab = Lab::new(WRINGER);
    let other = |evidence: &mut Evidence| {
        evidence.conditions.host.kernel = "9.9.9".into();
        evidence.conditions.tool.version = "0.0.1".into();
        evidence.conditions.server.variables.insert("innodb_buffer_pool_size".into(), "1".into());
    };
    let (a, b) = (side(&lab, "a", &STEADY, |_| ()), side(&lab, "b", &STEADY, other));
    let ran = compare(&lab, &a, &b, &["-o", "json", "--fail-if", "p99>1.05x", "--across", "host"]).expect_code(3);
    let result = json(&ran);
    assert_eq!((&result["verdict"], &result["comparisons"]), (&"not_comparable".into(), &Value::Array(Vec::new())));
    let rows = result["differs"].as_array().unwrap();
    let allowed: Vec<(&str, bool)> =
        rows.iter().map(|row| (row["key"].as_str().unwrap(), row["allowed"].as_bool().unwrap())).collect();
    let variable = "server.variables.innodb_buffer_pool_size";
    assert_eq!(allowed, [("host.kernel", true), (variable, false), ("tool.version", true)]);
    let all =
        ["-o", "json", "--fail-if", "p99>1.05x", "--across", "host.kernel", "--across", "innodb_buffer_pool_size"];
    assert_eq!(json(&compare(&lab, &a, &b, &all).expect_code(0))["verdict"], "compared");
    compare(&lab, &a, &b, &["--across", "host.kernle"]).expect_code(2).expect_said(&["host.kernle"]);
}

/// Names and values are those of two sandboxes of one MariaDB 10.11.19, of MySQL 9.7.4 and of PostgreSQL 15.
#[test]
fn what_is_another_in_each_sandbox_is_no_difference() {
    let lab = Lab::new(WRINGER);
    let other = |suffix: &'static str| {
        move |run: &mut Evidence| {
            let own = [
                ("server_uid", format!("mKPL9QfctvawiELoKat6LJnQYt{suffix}=")),
                ("gtid_binlog_pos", format!("0-1-{suffix}")),
                ("hostname", format!("vm{suffix}")),
                ("general_log_file", format!("vm{suffix}.log")),
                ("log_slow_query_file", format!("vm{suffix}-slow.log")),
                ("wsrep_node_name", format!("vm{suffix}")),
                ("port", format!("2886{suffix}")),
                ("server_uuid", format!("0f7{suffix}")),
                ("data_directory", format!("/var/tmp/{suffix}/data")),
                ("unix_socket_directories", format!("/var/tmp/{suffix}")),
            ];
            own.into_iter().for_each(|(name, value)| {
                run.conditions.server.variables.insert(name.into(), value);
            });
        }
    };
    let (a, b) = (record(&lab, "a", 1000, other("1")), record(&lab, "b", 1000, other("2")));
    let text = lab.run(["compare", &a, &b]).expect_code(0).stdout;
    assert!(text.contains("same conditions"), "{text}");
    let renamed = |run: &mut Evidence| {
        other("2")(run);
        run.conditions.server.variables.insert("log_bin".into(), "ON".into());
    };
    let text = lab.run(["compare", &a, &record(&lab, "c", 1000, renamed)]).expect_code(0).stdout;
    assert!(text.contains("add: --across 'server.variables.log_bin'") && !text.contains("vm2"), "{text}");
}

#[test]
fn unlike_workloads_and_broken_arms_are_not_comparable() {
    let lab = Lab::new(WRINGER);
    let a = side(&lab, "a", &STEADY, |_| ());
    let other = side(&lab, "other", &STEADY, |run| run.arms[0].load.as_mut().unwrap().workload = "oltp_insert".into());
    let text = compare(&lab, &a, &other, &[]).expect_code(0).stdout;
    assert!(text.contains("Not comparable: arm.load.workload") && !text.contains("B / A"), "{text}");
    let fewer_rows = |run: &mut Evidence| {
        let rows = run.measured.iter_mut().find(|measured| measured.what == "fill.rows_per_page").unwrap();
        rows.what = "fill.rows".into();
        rows.got = Some(evidence::Quantity::count(7.0));
    };
    let text = compare(&lab, &a, &side(&lab, "rows", &STEADY, fewer_rows), &[]).expect_code(0).stdout;
    assert!(text.contains("Not comparable: data.rows"), "{text}");
    let limited = |cpus: f64| {
        move |run: &mut Evidence| {
            let limit = run.measured.iter_mut().find(|measured| measured.what == "fill.rows_per_page").unwrap();
            limit.what = "server.cpus.limit".into();
            limit.asked = Some(evidence::Quantity::count(cpus));
        }
    };
    let (half, less) = (record(&lab, "half", 1000, limited(0.5)), record(&lab, "less", 1000, limited(0.45)));
    let text = lab.run(["compare", &half, &less]).expect_code(0).stdout;
    assert!(text.contains("Not comparable: arm.limits.server.cpus.limit"), "{text}");
    lab.run(["compare", &half, &less, "--across", "arm.limits", "--fail-if", "p99>2x"]).expect_code(3);
    let broken = side(&lab, "broken", &STEADY, |run| run.arms[0].broke_off = Some("the server ended by itself".into()));
    let text = compare(&lab, &a, &broken, &[]).expect_code(0).stdout;
    assert!(text.contains("broke off: the server ended by itself"), "{text}");
    compare(&lab, &a, &other, &["--arm", "none such"])
        .expect_code(2)
        .expect_said(&["an arm \"none such\"", "there are"]);
}

#[test]
fn bad_recordings_and_words_are_refused() {
    let lab = Lab::new(WRINGER);
    let a = record(&lab, "a", 1000, |_| ());
    lab.run(["compare", &a, "none-such"]).expect_code(3).expect_said(&["none-such", "does not exist"]);
    let damaged = lab.home().join("damaged.sqlite");
    fs::write(&damaged, "SQLite format 3\0 and then nothing").unwrap();
    let empty = lab.write("empty.sqlite", "");
    for (file, why) in [(damaged, "other content"), (empty, "is empty")] {
        let ran = lab.run(["compare", &a, file.to_str().unwrap()]).expect_code(3);
        assert!(!ran.stderr.contains("database disk") && !ran.stderr.contains("not a database"), "{}", ran.stderr);
        ran.expect_said(&[file.to_str().unwrap(), "is not a recording", why, "hint: name a recording.sqlite"]);
    }
    // a folder without a recording
    let folder = lab.home().to_str().unwrap();
    let said = ["there is no recording in the folder", folder, "hint: name a recording.sqlite"];
    lab.run(["compare", &a, folder]).expect_code(3).expect_said(&said);
    lab.run(["compare", &a, &a]).expect_code(2).expect_said(&["given twice"]);
    lab.run(["compare", &a]).expect_code(2);
    lab.run(["compare", &a, &a, "--fail-if", "p99>5ms"]).expect_code(2).expect_said(&["'p99>1.05x'"]);
    let b = side(&lab, "b", &STEADY, |_| ());
    compare(&lab, &[a], &b, &["--paired"]).expect_code(2).expect_said(&["1 and 4"]);
}

/// The hint of a limit that cannot be told fits its reason.
#[test]
fn a_limit_that_cannot_be_told_says_what_would_help() {
    let lab = Lab::new(WRINGER);
    let (a, b) = (side(&lab, "a", &STEADY, |_| ()), side(&lab, "b", &STEADY, |_| ()));
    let limit = |name: &str| ["--fail-if".to_owned(), format!("{name}>1.5x")];
    let ran = |a: &[String], b: &[String], name: &str| compare(&lab, a, b, &limit(name).each_ref().map(String::as_str));
    let (figures, three) = ("throughput, p50, p95, p99, p99.9", "hint: a verdict needs three runs");
    ran(&a, &b, "p98").expect_code(2).expect_said(&["no figure \"p98\"", "did you mean \"p9", figures]);
    ran(&a, &b, "latency").expect_code(2).expect_said(&["no figure \"latency\"", figures]);
    let absent = ran(&a, &b, "31 reads: place").expect_code(3);
    absent.expect_said(&["no run has this figure", "hint: these runs have throughput, p50"]);
    ran(&a[..2], &b, "p99").expect_code(3).expect_said(&[three]);
    let other = side(&lab, "other", &STEADY, |run| run.arms[0].load.as_mut().unwrap().workload = "oltp_insert".into());
    ran(&a, &other, "p99").expect_code(3).expect_said(&["arm.load.workload is not the same", "--across"]);
    let broken = side(&lab, "broken", &STEADY, |run| run.arms[0].broke_off = Some("the server ended".into()));
    let told = ran(&a, &broken, "p99").expect_code(3);
    told.expect_said(&["broke off: the server ended", "hint: only runs that measured"]);
    // each figure there is, is a known name
    let all = json(&compare(&lab, &a, &b, &["-o", "json"]).expect_code(0));
    let names = all["figures"].as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap());
    let limits: Vec<String> = names.flat_map(limit).collect();
    assert!(limits.len() > 10, "{limits:?}");
    compare(&lab, &a, &b, &limits.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0);
}

/// What is special in the cell of a block.
type Special = fn(u32, &mut Evidence);

/// Settings of a sweep by hand: id, the values of the two keys, and what is special.
const SETTINGS: [(&str, [&str; 2], Special); 8] = [
    ("first", ["1", "10"], |_, _| ()),
    ("slower", ["2", "10"], |_, run| longer(run, 1250)),
    ("killed", ["3", "10"], |block, run| {
        if block == 2 {
            (run.arms[0].outcome, run.arms[0].broke_off) = (ArmOutcome::OutOfMemory, Some("killed".into()));
        }
    }),
    ("upgraded", ["4", "10"], |block, run| {
        if block > 1 {
            run.conditions.server.version = "99.1".into();
        }
    }),
    ("another server", ["5", "10"], |_, run| run.conditions.server.version = "99.1".into()),
    ("asked for another server", ["1", "99"], |_, run| run.conditions.server.version = "99.1".into()),
    ("another host", ["6", "10"], |block, run| {
        if block == 1 {
            run.conditions.host.kernel = "0.1".into();
        }
    }),
    ("rebuilt", ["7", "10"], |block, run| {
        run.conditions.server.build = format!("build ID {}", if block == 1 { "a1" } else { "b2" });
    }),
];

/// Cells without a server: each leaves a recording.
struct ByHand;

impl Bench for ByHand {
    fn run(&mut self, due: &Due<'_>, begun: &mut dyn FnMut(&str) -> Result<(), Error>) -> Result<Outcome, Error> {
        begun(&format!("w-20260101-000000-{:02x}{:02x}", due.setting, due.cell.block))?;
        let mut evidence = sample(&format!("{}-{}", due.cell.id, due.attempt), 1000 + u64::from(due.cell.block));
        SETTINGS[due.setting].2(due.cell.block, &mut evidence);
        let outcome = evidence.arms[0].outcome;
        write(due.folder, evidence);
        let missed = Missed { phase: "no delay".into(), outcome, why: "the kernel killed it".into() };
        Ok(if outcome == ArmOutcome::Measured { Outcome::Done } else { Outcome::Missed(vec![missed]) })
    }

    fn tell(&mut self, _news: News<'_>) {}
}

/// The sweep of [`SETTINGS`] in the folder `out`, and what its `sweep.json` says.
fn swept(lab: &Lab) -> Value {
    let keys = ["load.threads", "server.version"].map(str::to_owned);
    let planned = |(id, values, _): (&str, [&str; 2], Special)| Planned {
        id: id.into(),
        values: keys.iter().cloned().zip(values.map(str::to_owned)).collect(),
        disk_bytes: 0,
    };
    let plan = Plan {
        name: "by hand".into(),
        keys: keys.to_vec(),
        groups: keys.iter().map(|key| vec![key.clone()]).collect(),
        settings: SETTINGS.map(planned).into(),
        blocks: 3,
        ..Plan::default()
    };
    let (places, folder) = (Places::below(lab.home()), lab.home().join("out"));
    let mut sweep = loop {
        match Sweep::open(&folder, &plan, &places) {
            Err(Error::Run(run::Error::Measured { .. })) => std::thread::sleep(Duration::from_millis(100)),
            opened => break opened.unwrap(),
        }
    };
    let wish = Wish { longest_wait: Duration::ZERO, stop: std::sync::Arc::default() };
    sweep.run(&mut ByHand, &wish).unwrap();
    serde_json::from_slice(&fs::read(folder.join("sweep.json")).unwrap()).unwrap()
}

/// Of each figure what does not depend on how many digits are written.
fn judged(figures: &Value) -> Vec<Value> {
    let of =
        |figure: &Value| ["name", "unit", "repeats_a", "repeats_b", "pairs", "verdict"].map(|key| figure[key].clone());
    figures.as_array().into_iter().flatten().map(|figure| of(figure).to_vec().into()).collect()
}

/// The verdicts of a sweep are those of `wringer compare` on the same folder, and so are the reasons why there is none.
#[test]
fn a_sweep_and_compare_come_to_the_same_verdict() {
    let lab = Lab::new(WRINGER);
    let state = swept(&lab);
    let killed = "[\"block 2 of threads=3 version=10: arm \\\"no delay\\\" ended with out_of_memory\"]";
    let (same, upgraded) = ("[]", "server.version is not the same");
    let expected =
        [same, killed, upgraded, upgraded, same, "host.kernel is not the same", "server.build is not the same"];
    for ((id, [threads, version], _), expected) in SETTINGS[1..].iter().zip(expected) {
        let is_it = |one: &&Value| one["a"] == "first" && one["b"] == *id;
        let own = state["comparisons"].as_array().unwrap().iter().find(is_it).unwrap();
        let (threads, version) = (format!("threads={threads}"), format!("version={version}"));
        let words =
            ["compare", "--sweep", "out", "--a", "threads=1", "version=10", "--b", &threads, &version, "-o", "json"];
        let compared = json(&lab.run(words).expect_code(0));
        assert_eq!(own["verdict"], compared["verdict"], "{id}: {own} {compared}");
        assert_eq!(own["not_comparable"], compared["not_comparable"], "{id}: {own} {compared}");
        assert_eq!(judged(&own["figures"]), judged(&compared["figures"]), "{id}: {own} {compared}");
        let why = own["not_comparable"].to_string();
        assert!(why == expected || (expected != same && why.contains(expected)), "{id}: {why}");
    }
    // an earlier version kept no conditions: the next call reads them from the recordings
    let mut before = state.clone();
    for cell in before["cells"].as_array_mut().unwrap() {
        cell.as_object_mut().unwrap().remove("conditions").unwrap();
    }
    before["comparisons"] = Value::Array(Vec::new());
    lab.write("out/sweep.json", &before.to_string());
    assert_eq!(swept(&lab), state);
    let status = lab.run(["matrix", "status", "out"]).expect_code(0).stdout;
    let row = |threads: &str| status.lines().find(|line| line.starts_with(threads)).unwrap();
    assert!(row("2 ").ends_with("x lower") && row("3 ").ends_with("not comparable"), "{status}");
    assert!(status.contains("out_of_memory") && status.contains("pairs of settings are not comparable: "), "{status}");
}
