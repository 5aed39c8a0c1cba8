// SPDX-License-Identifier: Apache-2.0
//! One limit is planted at a time under a real server, and the verdict names that one.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use testkit::{Lab, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A table four times as large as the pool; in the arm of the CPU the pool holds all of it.
const FILE: &str = r#"
schema = 1
name = "planted"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "16M"
innodb_flush_method = "O_DIRECT"
innodb_buffer_pool_dump_at_shutdown = false
innodb_buffer_pool_load_at_startup = false
skip_log_bin = true
[fill]
size = "64M"
rows_per_page = 4
[squeeze]
disk = { read = "0" }
[load]
workload = "oltp_point_select"
threads = 4
distribution = "uniform"
preheat = 4000
time = "4s"
[observe]
interval = "500ms"
"#;
const IOPS: &str =
    "[[arm]]\nname = \"few operations\"\nsqueeze.disk = { read = \"100us\", mode = \"total\", iops = 200 }\n";
const BANDWIDTH: &str =
    "[[arm]]\nname = \"little bandwidth\"\nsqueeze.disk = { read = \"100us\", mode = \"total\", bandwidth = \"2M\" }\n";
const POOL: &str = "[[arm]]\nname = \"small pool\"\nsqueeze.disk = { read = \"10ms\" }\n";
const CPU: &str =
    "[[arm]]\nname = \"little CPU\"\nserver.options.innodb_buffer_pool_size = \"256M\"\nsqueeze.cpus = 0.3\n";

/// With what each arm is to be told of, by the finding and by the verdict's own words.
fn check(arms: &[(&str, &str, &str, &str)]) {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let before = Snapshot::take();
    let text: String = arms.iter().map(|(text, ..)| *text).collect();
    let file = lab.write("planted.toml", &format!("{FILE}{text}"));
    let ran = lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(0);
    before.expect_unchanged();
    let result: Value =
        serde_json::from_str(&std::fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap();
    let rows = result["measured"].as_array().unwrap().iter();
    let way: Vec<&Value> = rows.filter(|row| row["what"] == "disk.way.median").collect();
    if text.contains("preload") {
        assert!(way.is_empty(), "no request goes to a layer: {way:#?}");
    } else {
        let got = way.first().and_then(|row| row["got"]["value"].as_f64());
        assert!(way.len() == 1 && got.is_some_and(|us| us > 0.0), "what is taken off is recorded once: {way:#?}");
    }
    let findings = result["findings"].as_array().unwrap();
    let told: Vec<&Value> = findings.iter().filter(|finding| finding["id"] == "limit.by").collect();
    for (_, arm, limited_by, says) in arms {
        let finding = told.iter().find(|finding| finding["arm"] == *arm).unwrap_or_else(|| panic!("{arm}: {told:#?}"));
        assert_eq!(finding["evidence"]["limited_by"], *limited_by, "{arm}: {finding:#}");
        let says = format!("\"{arm}\" is limited by {says}");
        let sentences = result["verdict"]["sentences"].as_array().unwrap();
        assert!(sentences.iter().any(|said| said.as_str().unwrap().starts_with(&says)), "{says}: {sentences:#?}");
        let printed = ran.stdout.split("\narm ").next().unwrap().replace("\n  ", " ");
        assert!(printed.contains(&says), "above the table: {says}: {}", ran.stdout);
    }
}

#[test]
fn the_limit_of_the_disk_or_the_pool_that_was_planted_is_named() {
    if host::files::open_existing(std::path::Path::new("/dev/fuse")).is_err() {
        testkit::skip!("needs /dev/fuse for ordinary users");
    }
    check(&[
        (IOPS, "few operations", "iops", "the disk's IOPS: it does "),
        (BANDWIDTH, "little bandwidth", "bandwidth", "the disk's bandwidth: it moves "),
        (POOL, "small pool", "pool_misses", "reads that miss the buffer pool: "),
    ]);
}

/// Counted in the programs themselves, in memory that they share with the layer's process.
#[test]
fn without_a_mount_the_same_is_named() {
    let mechanism = |arm: &str| arm.replace("squeeze.disk = {", "squeeze.disk = { mechanism = \"preload\",");
    let (iops, bandwidth) = (mechanism(IOPS), mechanism(BANDWIDTH));
    check(&[
        (&iops, "few operations", "iops", "the disk's IOPS: it does "),
        (&bandwidth, "little bandwidth", "bandwidth", "the disk's bandwidth: it moves "),
    ]);
}

#[test]
fn the_cpu_time_that_was_planted_is_named() {
    if !is_root() || squeeze::cgroup::writable("cpu").is_err() {
        testkit::skip!("needs root, and cgroups of CPU time");
    }
    check(&[(CPU, "little CPU", "cpu_quota", "the CPU time that its server may use: it used 0.")]);
}
