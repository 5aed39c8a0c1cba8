// SPDX-License-Identifier: Apache-2.0
//! The main job on real servers: from the experiment file to the result, with the humps held against both witnesses.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use testkit::{Lab, Snapshot, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn experiment(flavour: &str, options: &str, size: &str, extra: &str) -> String {
    format!(
        "schema = 1\nname = \"truth\"\n[server]\nflavour = \"{flavour}\"\n[server.options]\n{options}\n\
         [fill]\nsize = \"{size}\"\nrows_per_page = 4\n[squeeze]\ndisk = {{ read = \"0\" }}\n{extra}\n\
         [load]\nworkload = \"oltp_point_select\"\npreheat = \"1x rows\"\ntime = \"3s\"\nseed = 7\n\
         [[arm]]\nname = \"no delay\"\n[[arm]]\nname = \"10 ms\"\nsqueeze.disk.read = \"10ms\"\nload.time = \"8s\"\n"
    )
}

/// Runs it, and returns `result.json`; of its home no mount, loop device or process is left.
fn result_of(text: &str) -> Value {
    let lab = Lab::new(WRINGER);
    let file = lab.write("truth.toml", text);
    let ran = lab.run(["run", file.to_str().unwrap(), "--to", "out"]);
    let left = Snapshot::take().lines_of(lab.home());
    assert!(left.is_empty(), "something is left: {left:#?}");
    let _ = ran.expect_code(0);
    for name in ["recording.sqlite", "report.html"] {
        assert!(lab.home().join("out").join(name).metadata().unwrap().len() > 10_000, "{name}");
    }
    serde_json::from_str(&std::fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap()
}

fn modes<'a>(result: &'a Value, arm: &str) -> &'a Value {
    let findings = result["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["id"] == "latency.modes").expect("a finding latency.modes");
    let arms = finding["evidence"]["arms"].as_array().unwrap();
    arms.iter().find(|entry| entry["arm"] == arm).expect("the arm")
}

/// The witnesses count, each on its own side of the system calls: they agree on whatever machine. Humps are of times: the reads that
/// they tell agree with the witness, or the result says that they do not.
fn check(text: &str, witnesses: &[&str]) -> Value {
    let result = result_of(text);
    let undelayed = modes(&result, "no delay");
    assert!(undelayed["reads_per_query_by_modes"].is_null(), "{undelayed:#}");
    let delayed = modes(&result, "10 ms");
    let by = |whom: &str| delayed[format!("reads_per_query_by_{whom}")].as_f64();
    let apart = |one: f64, other: f64| (one - other).abs() / other.max(0.02);
    let counted = witnesses.iter().map(|witness| by(witness).unwrap_or_else(|| panic!("no {witness}: {delayed:#}")));
    let counted: Vec<f64> = counted.collect();
    assert!(counted.iter().all(|count| apart(*count, counted[0]) < 0.05), "{delayed:#}");
    let agree = by("modes").is_some_and(|by_modes| apart(by_modes, counted[0]) <= 0.05);
    let doubts = result["findings"].to_string();
    let doubted = ["witness.disagrees", "modes.unreadable"].iter().any(|doubt| doubts.contains(doubt));
    assert!(agree || doubted, "{} by humps: {delayed:#}", delayed["reads_per_query_by_modes"]);
    result
}

fn why_not() -> Option<&'static str> {
    let open = host::files::open_existing(std::path::Path::new("/dev/fuse")).is_ok();
    (!open).then_some("needs /dev/fuse for ordinary users")
}

#[test]
fn mariadb_reads_per_query_are_what_server_and_layer_count() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let text = experiment("mariadb", "innodb_buffer_pool_size = \"16M\"", "1.5x pool", "");
    let result = check(&text, &["server", "layer"]);
    let delayed = modes(&result, "10 ms");
    assert!(
        delayed["reads_per_query_by_layer"].as_f64().unwrap() > 0.2,
        "a table larger than the pool is read: {delayed:#}"
    );
}

/// MySQL reads by native AIO and serves single pages by pread, as MariaDB does; it has names and defaults of its own.
#[test]
fn mysql_reads_per_query_are_what_server_and_layer_count() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let text = experiment("mysql", "innodb_buffer_pool_size = \"16M\"", "1.5x pool", "");
    let result = check(&text, &["server", "layer"]);
    let delayed = modes(&result, "10 ms");
    assert!(
        delayed["reads_per_query_by_layer"].as_f64().unwrap() > 0.2,
        "a table larger than the pool is read: {delayed:#}"
    );
    let server = &result["conditions"]["server"];
    assert_eq!(server["flavour"], "mysql", "{server:#}");
}

#[test]
fn postgresql_reads_per_query_are_what_the_layer_counts() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    // as root a memory cgroup keeps the page cache small; without, every page is soon in it, and no query needs a read
    let limit = if is_root() { "server_ram = \"96M\"" } else { "" };
    let text = experiment("postgresql", "shared_buffers = \"32MB\"\nautovacuum = false", "4x pool", limit);
    let result = check(&text, &["layer"]);
    let delayed = modes(&result, "10 ms");
    assert_eq!(delayed["reference"], "layer");
    assert_eq!(delayed["unseen_share_by_layer"], 0.0, "{delayed:#}");
    if is_root() {
        let ahead = delayed["read_ahead_share_by_layer"].as_f64().unwrap();
        assert!(ahead > 0.02, "the kernel reads ahead where neighbours are in the page cache: {delayed:#}");
    }
}

/// PostgreSQL's files stay below 1 MiB then, and there is nothing to probe: no reason to give up. A delay of syncs alone, which no
/// probe could hold to a time either way.
#[test]
fn tables_too_small_to_be_probed_are_loaded_all_the_same() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let lab = Lab::new(WRINGER);
    let text = testkit::small_experiment("1s", "disk = { sync = \"1ms\" }");
    let text = text.replace("mariadb", "postgresql").replace("innodb_buffer_pool_size = \"16M\"", "");
    let file = lab.write("tiny.toml", &text.replace("rows = 2000", "rows = 200"));
    lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(0);
}
