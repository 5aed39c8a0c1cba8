// SPDX-License-Identifier: Apache-2.0
//! The same load under several mallocs, on a real server: what a burst leaves behind, the shape of the answer, and a second call that runs nothing.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "allocators/room.rs"]
mod room;

use serde_json::Value;
use testkit::{Lab, Ran};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Each statement of the burst reads all of these rows: a third of the usual 30,000, so a third of the CPU time, and glibc still keeps some hundred MiB.
const FILE: &str = r#"schema = 1
name = "mallocs"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "64M"
[fill]
rows = 10000
[load]
workload = "oltp_point_select"
"#;

fn asked<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["--malloc", "glibc,glibc-trim", "--threads", "2", "--time", "1s", "--wait", "0s", "--to", "out"];
    [&["allocators", file], &usual[..], more].concat()
}

#[test]
fn a_burst_tells_mallocs_apart_and_a_second_call_runs_nothing() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("mallocs.toml", FILE);
    let file = file.to_str().unwrap();
    let ran = lab.run(asked(file, &["--repeat", "1", "--idle", "3s", "-o", "json"])).expect_code(0);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let cells = told["cells"].as_array().unwrap();
    let cell = |malloc: &str| cells.iter().find(|it| it["malloc"] == malloc).unwrap_or_else(|| panic!("{told:#}"));
    assert_eq!(cells.len(), 2, "{told:#}");
    for malloc in ["glibc", "glibc-trim"] {
        let it = cell(malloc);
        assert!(it["serving"].as_str().unwrap().starts_with("glibc 2."), "{it:#}");
        let by = it["serving_by"].as_str().unwrap();
        assert!(by.starts_with("the address that") && it["serving_doubts"] == Value::Array(Vec::new()), "{it:#}");
        assert!(it["as_asked"] == true && it["state"] == "done" && it["block"] == 1, "{it:#}");
        assert_eq!(it["preloaded"], Value::Array(Vec::new()), "it has glibc by itself: {it:#}");
        let loads = it["loads"].as_array().unwrap();
        let names: Vec<&str> = loads.iter().map(|load| load["arm"].as_str().unwrap()).collect();
        assert_eq!(names, ["oltp_read_only x2", "oltp_point_select x2"]);
        assert!(loads.iter().all(|load| load["transactions_per_s"].as_f64().unwrap() > 0.0), "{it:#}");
        assert!(loads.iter().all(|load| load["cpu_user_us_per_query"].as_f64().is_some()), "{it:#}");
        let marks: Vec<&Value> = it["footprint"].as_array().unwrap().iter().collect();
        assert!(marks.iter().all(|mark| mark["asked_bytes"].as_u64().is_some_and(|bytes| bytes > 0)), "{it:#}");
    }
    let retained = |malloc: &str| cell(malloc)["retained_bytes"].as_i64().unwrap();
    assert!(retained("glibc") > 32 << 20, "the burst was none: {told:#}");
    assert!(retained("glibc-trim") < retained("glibc") / 2, "{told:#}");
    assert!(told["recommendation"]["take"].is_null(), "of one repeat there is no verdict: {told:#}");
    assert!(told["cells"].as_array().unwrap().iter().all(|cell| cell["disturbed"].is_boolean()), "{told:#}");

    let page = std::fs::read_to_string(lab.home().join("out/report.html")).unwrap();
    assert!(
        page.contains("<h1>No verdict: nothing can be recommended yet</h1>")
            && page.contains("oltp_read_only: transactions a second"),
        "{page}"
    );
    assert!(page.contains("oltp_read_only: longest response time, second by second"), "{page}");

    let again = lab.run(asked(file, &["--repeat", "1", "--idle", "3s"])).expect_code(0);
    assert!(!again.stderr.contains("cell  "), "{}", again.stderr);
    assert!(
        again.stdout.contains("recommendation") && again.stdout.contains("none, because there is no verdict"),
        "{}",
        again.stdout
    );
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_starts() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("mallocs.toml", FILE);
    let file = file.to_str().unwrap();
    let run = |words: &[&str]| lab.run([&["allocators", file, "--to", "out"], words].concat());
    // without a file, a ready one is taken
    lab.run(["allocators", "--to", "out", "--malloc", "glibc,glibc"])
        .expect_code(2)
        .expect_said(&["examples mallocs", "twice"]);
    run(&["--malloc", "jmalloc"]).expect_code(2).expect_said(&["jemalloc-background"]);
    run(&["--malloc", "glibc,glibc"]).expect_code(2).expect_said(&["twice"]);
    run(&["--malloc", "glibc", "--cpus", "4096"]).expect_code(3).expect_said(&["the load needs one of its own"]);
    run(&["--malloc", "mine=/no/such/library.so"])
        .expect_code(3)
        .expect_said(&["error: --malloc mine: /no/such/library.so"]);
    // nor does the server have to be here for that
    let text = lab.write("text.so", "no library").display().to_string();
    let mut command = lab.command(["allocators", file, "--to", "out", "--malloc", &format!("glibc,mine={text}")]);
    let without_servers = Ran::of(command.env("WRINGER_CACHE", lab.home().join("empty")));
    without_servers.expect_code(3).expect_said(&["--malloc mine", "text.so is no library", "a shared library"]);
    let user = Lab::as_ordinary_user(WRINGER);
    if !is_always_on_host() {
        let file = user.write("mallocs.toml", FILE).display().to_string();
        let mut command = user.command(["allocators", &file, "--to", "out", "--malloc", "glibc", "--thp", "always"]);
        let without_servers = Ran::of(command.env("WRINGER_CACHE", user.home().join("empty")));
        without_servers.expect_code(3).expect_said(&["--thp always", "the host's setting is"]);
        assert!(!user.home().join("out").exists(), "the folder was made");
    }
    run(&["--malloc", "glibc", "--threads", "9000"]).expect_code(2).expect_said(&["4096"]);
    let mut command = lab.command(["allocators", file, "--to", "out", "--malloc", "glibc"]);
    Ran::of(command.env("WRINGER_CACHE", lab.home().join("a b"))).expect_code(3).expect_said(&["/a b: no library"]);
    for made in ["sandboxes", "out"] {
        assert!(!lab.home().join(made).exists(), "{made} was made");
    }
}

fn is_always_on_host() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_ok_and(|it| it.contains("[always]"))
}
