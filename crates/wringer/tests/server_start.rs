// SPDX-License-Identifier: Apache-2.0
//! What the server of an arm is started with: huge pages, pgBouncer, another malloc; asked and got, and a host that is as before.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use recording::Recording;
use serde_json::Value;
use std::path::{Path, PathBuf};
use testkit::{Lab, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const WORKLOAD: &str = include_str!("../../../experiments/workloads/write-then-read-all.toml");
const POOL_BYTES: f64 = 128.0 * 1024.0 * 1024.0;

/// `experiments/article-5-huge-pages.toml`, small: a transaction that has begun is ended, so each connection reads all of it once.
const TABLES: &str = r#"
schema = 1
name = "tables"
[server]
flavour = "postgresql"
thp = "never"
pgbouncer = 8
[server.options]
shared_buffers = "128MB"
wal_buffers = "1MB"
enable_seqscan = false
enable_bitmapscan = false
max_parallel_workers_per_gather = 0
jit = false
autovacuum = false
[fill]
size = "0.8x pool"
rows_per_page = 2
[load]
workload = "write-then-read-all.toml"
threads = 8
time = "2s"
[[arm]]
name = "4 KiB"
[[arm]]
name = "huge"
server.huge_pages = true
"#;

fn may_have_huge_pages() -> bool {
    let pool = Path::new("/proc/sys/vm/nr_hugepages");
    is_root() && rustix::fs::access(pool, rustix::fs::Access::WRITE_OK).is_ok()
}

fn result(lab: &Lab) -> Value {
    serde_json::from_str(&std::fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap()
}

fn measured<'a>(result: &'a Value, arm: &str, what: &str) -> &'a Value {
    let found = result["measured"].as_array().unwrap().iter().find(|it| it["arm"] == arm && it["what"] == what);
    found.unwrap_or_else(|| panic!("{arm}: {what}: {:#}", result["measured"]))
}

fn got(result: &Value, arm: &str, what: &str) -> f64 {
    measured(result, arm, what)["got"]["value"].as_f64().unwrap()
}

/// The server's processes at the end of an arm, as the recording has them.
fn processes(recording: &Path, arm: &str) -> Vec<Value> {
    let evidence = Recording::read_for(recording, |_| false).unwrap();
    let mut snapshots = evidence.snapshots.iter();
    let of_arm = snapshots.find(|it| it.source == "memory.processes" && it.arm.as_deref() == Some(arm)).unwrap();
    serde_json::from_str(&of_arm.content).unwrap()
}

/// Eight bytes for each page that each connection has touched; with huge pages, nothing of that.
#[test]
fn page_tables_follow_the_pages_that_each_connection_has_touched() {
    if !may_have_huge_pages() {
        testkit::skip!("needs root, and a pool of huge pages");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    lab.write("write-then-read-all.toml", WORKLOAD);
    let file = lab.write("tables.toml", TABLES);
    let file = file.to_str().unwrap();
    let plan = lab.run(["plan", file]).expect_code(0).stdout;
    for words in
        ["vm.nr_hugepages raised by 128 MiB", "session pooling, 8 server connections", "give the huge pages back"]
    {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    lab.run(["run", file, "--to", "out"]).expect_code(0);
    before.expect_unchanged();

    let result = result(&lab);
    let [tables, touched] = ["connection.page_tables", "connection.shared_mapped"].map(|what| {
        let (small, huge) = (got(&result, "4 KiB", what), got(&result, "huge", what));
        println!("{what}: {small} and {huge}");
        small - huge
    });
    assert!(touched > 0.75 * POOL_BYTES, "each has read the table: {:#}", result["measured"]);
    let expected = touched / 4096.0 * 8.0;
    println!("{tables} of {expected}: {:.4}", tables / expected);
    // a twentieth, and eight pages of tables: they come in whole pages, and where a mapping begins and ends one is partly used
    assert!(
        (tables - expected).abs() < 0.05 * expected + 8.0 * 4096.0,
        "{tables} bytes, not {expected}: {:#}",
        result["measured"]
    );

    let pages = measured(&result, "huge", "server.huge_pages");
    assert!(pages["got"]["value"].as_f64().unwrap() >= POOL_BYTES && pages["within_tolerance"] == true, "{pages:#}");
    let recording = lab.home().join("out/recording.sqlite");
    for arm in ["4 KiB", "huge"] {
        let seen = processes(&recording, arm);
        let backends: Vec<_> = seen.iter().filter(|it| it["role"] == "client backend").collect();
        // those of pgBouncer, and what looks on
        assert!(backends.len() >= 8, "{arm}: {seen:#?}");
        let in_order = |pair: &[Value]| pair[0]["oom_score"].as_i64() >= pair[1]["oom_score"].as_i64();
        assert!(seen.windows(2).all(in_order) && seen.iter().all(|it| it["pss_bytes"].is_u64()), "{seen:#?}");
    }
    let is_tables = |series: &evidence::Series| series.source.ends_with("page_tables") && series.name == "VmPTE";
    let over_time = Recording::read_for(&recording, is_tables).unwrap().samples;
    let has = |source: &str| over_time.iter().any(|it| it.source == source && !it.points.is_empty());
    assert!(has("process.page_tables") && has("process.each.page_tables"));
}

/// A client that leaks takes all connections from an application, until its account has a limit.
#[test]
fn a_leaking_client_is_kept_to_its_limit() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let shop = "{ account = \"shop\", rate = 20 }";
    let leak = "{ account = \"leak\", rate = 50, keep = true }";
    // room for what the server has refused or closed, and still counts: a second of it
    let text = testkit::small_experiment("5s", "")
        .replace("innodb_buffer_pool_size", "max_connections = 50\ninnodb_buffer_pool_size");
    let arms = format!(
        "[[arm]]\nname = \"alone\"\nload.beside = [{shop}]\n\
         [[arm]]\nname = \"leak\"\nload.beside = [{shop}, {leak}]\n\
         [[arm]]\nname = \"limit\"\nload.beside = [{shop}, {leak}]\n\
         load.before = [\"ALTER USER leak@localhost WITH MAX_USER_CONNECTIONS 5\"]\n"
    );
    let file = lab.write("beside.toml", &(text + &arms));
    let file = file.to_str().unwrap();
    let plan = lab.run(["plan", file]).expect_code(0).stdout;
    for words in
        ["make the accounts shop, leak", "send: ALTER USER leak", "leak opens 50 connections a second and closes none"]
    {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    lab.run(["run", file, "--to", "out"]).expect_code(0);
    let result = result(&lab);
    for arm in ["alone", "limit"] {
        assert!(got(&result, arm, "beside.shop.opened") > 0.0, "{:#}", result["measured"]);
        assert_eq!(got(&result, arm, "beside.shop.refused"), 0.0, "{arm}: {:#}", result["measured"]);
    }
    assert!(got(&result, "leak", "beside.shop.refused") > 0.0, "{:#}", result["measured"]);
    let refused = measured(&result, "leak", "beside.shop.refused")["witness"].as_str().unwrap();
    assert!(refused.contains("1040"), "{refused}");
    assert_eq!(got(&result, "limit", "beside.leak.opened"), 5.0, "{:#}", result["measured"]);
    let limited = measured(&result, "limit", "beside.leak.refused")["witness"].as_str().unwrap();
    assert!(limited.contains("1226"), "{limited}");
}

/// The C library's own malloc with checks: every machine with glibc has it.
fn a_malloc() -> PathBuf {
    let names = ["x86_64-linux-gnu", "aarch64-linux-gnu", ""];
    let files = names.map(|name| PathBuf::from("/lib").join(name).join("libc_malloc_debug.so.0"));
    files.into_iter().find(|path| path.is_file()).expect("glibc's libc_malloc_debug.so.0")
}

#[test]
fn another_malloc_huge_pages_and_none_that_are_transparent_on_mariadb() {
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let with_pages = may_have_huge_pages();
    let huge = if with_pages { "server.huge_pages = true\n" } else { "" };
    let arms = format!(
        "[[arm]]\nname = \"plain\"\nserver.malloc = \"glibc\"\n\
         [[arm]]\nname = \"other\"\nserver.malloc = \"{}\"\nserver.thp = \"never\"\n{huge}",
        a_malloc().display()
    );
    let file = lab.write("start.toml", &(testkit::small_experiment("1s", "") + &arms));
    lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(0);
    before.expect_unchanged();
    let result = result(&lab);
    for (arm, what) in [("plain", "server.malloc"), ("other", "server.malloc"), ("other", "server.thp")] {
        let it = measured(&result, arm, what);
        assert!(it["within_tolerance"] == true && it["got"]["value"] == 1.0, "{it:#}");
    }
    let witness = measured(&result, "plain", "server.malloc")["witness"].as_str().unwrap();
    assert!(witness.contains("glibc"), "{witness}");
    if with_pages {
        let pages = measured(&result, "other", "server.huge_pages");
        assert!(pages["within_tolerance"] == true, "{pages:#}");
    }
}

/// Before a server is made.
#[test]
fn what_cannot_be_had_is_told_with_its_line() {
    let lab = Lab::new(WRINGER);
    let host = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let other = if host.contains("[always]") { "madvise" } else { "always" };
    let text = testkit::small_experiment("1s", "");
    let section = |key: &str| text.replace("flavour = \"mariadb\"\n", &format!("flavour = \"mariadb\"\n{key}\n"));
    let refused = |key: &str, code: i32, words: &[&str]| {
        let file = lab.write("refused.toml", &section(key));
        for command in ["plan", "run"] {
            lab.run([command, file.to_str().unwrap()]).expect_code(code).expect_said(words);
        }
    };
    refused("malloc = \"/no/such/library.so\"", 3, &["refused.toml:6:", "server.malloc: /no/such/library.so"]);
    if testkit::is_root() {
        let file = lab.write("thp.toml", &section(&format!("thp = \"{other}\"")));
        let plan = lab.run(["plan", file.to_str().unwrap()]).expect_code(0).stdout;
        assert!(plan.contains("transparent_hugepage/enabled: ") && plan.contains("by `wringer undo`"), "{plan}");
    } else {
        refused(&format!("thp = \"{other}\""), 3, &["refused.toml:6:", "server.thp", "the host's setting is"]);
    }
    refused("pgbouncer = 4", 2, &["refused.toml:6:", "stands in front of PostgreSQL"]);
    assert!(!lab.home().join("sandboxes").exists(), "something was made");
}
