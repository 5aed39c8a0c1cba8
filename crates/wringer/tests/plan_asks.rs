// SPDX-License-Identifier: Apache-2.0
//! What `plan` asks before anything is started: the server's own program about its options, the disk about a profile; and what must not
//! be left out. `run` and `doctor` say the same.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use testkit::{Lab, Ran, small_experiment};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Each command that reads an experiment file, with its words.
fn each(lab: &Lab, file: &Path, more: &[&str]) -> Vec<Ran> {
    let commands = ["plan", "run", "doctor"].into_iter();
    commands.map(|command| lab.run([command, file.to_str().unwrap()].iter().chain(more))).collect()
}

/// No server, no data, no journal of a run.
#[track_caller]
fn expect_nothing_made(lab: &Lab) {
    for folder in ["sandboxes", "recordings", "journal"] {
        let made = fs::read_dir(lab.home().join(folder)).into_iter().flatten().flatten();
        let made: Vec<_> = made.map(|entry| entry.file_name()).filter(|name| name != "locks").collect();
        assert!(made.is_empty(), "{folder}: {made:?}");
    }
}

fn fetched(lab: &Lab, server: &str) -> bool {
    lab.run(["sandbox", "fetch", server]).code == Some(0)
}

#[test]
fn an_option_that_the_server_does_not_know_is_found_before_it_is_started() {
    let lab = Lab::new(WRINGER);
    let good = small_experiment("1s", "");
    let cases = [
        (
            "mariadb",
            good.clone(),
            "innodb_buffer_pool_size",
            "innodb_nonsense = 1",
            "unknown variable 'innodb_nonsense=1'",
        ),
        (
            "postgresql",
            good.replace("\"mariadb\"", "\"postgresql\"")
                .replace("innodb_buffer_pool_size", "shared_buffers")
                .replace("\"16M\"", "\"16MB\""),
            "shared_buffers",
            "work_mem = \"banana\"",
            "invalid value for parameter \"work_mem\"",
        ),
        (
            "mysql",
            good.replace("\"mariadb\"", "\"mysql\""),
            "innodb_buffer_pool_size",
            "innodb_nonsense = 1",
            "unknown variable",
        ),
    ];
    let mut asked = 0;
    for (server, good, before, wrong, words) in cases.into_iter().filter(|(server, ..)| fetched(&lab, server)) {
        asked += 1;
        let file = lab.write("good.toml", &good);
        let ran = lab.run(["plan", file.to_str().unwrap()]).expect_code(0);
        assert!(!ran.stdout.contains("not asked"), "{server}: {}", ran.stdout);
        let bad = good.replace(before, &format!("{wrong}\n{before}"));
        let line = bad.lines().position(|line| line.starts_with(wrong)).unwrap() + 1;
        let file = lab.write("bad.toml", &bad);
        for ran in each(&lab, &file, &[]) {
            ran.expect_code(3).expect_said(&[&format!(":{line}:"), "would not start with", words]);
        }
        expect_nothing_made(&lab);
    }
    if asked == 0 {
        testkit::skip!("no server can be had here");
    }
}

/// One data directory serves all arms; and initdb's options are none of the server's, whose program is not asked about them.
#[test]
fn what_is_decided_with_the_data_directory_is_the_same_in_all_arms() {
    let lab = Lab::new(WRINGER);
    let mariadb = small_experiment("1s", "");
    let postgresql = mariadb.replace("\"mariadb\"", "\"postgresql\"").replace("innodb_buffer_pool_size = \"16M\"", "");
    for (text, key, values, ours) in [
        (&mariadb, "innodb_page_size", ["\"8k\"", "\"4k\""], "another innodb_page_size than arm \"one\""),
        (&mariadb, "innodb-page-size", ["\"8k\"", ""], "another innodb_page_size than arm \"one\""),
        (&postgresql, "wal_segment_size", ["\"32MB\"", "\"64MB\""], "another wal_segment_size than arm \"one\""),
    ] {
        let arms = |values: [&str; 2]| {
            let arm = |(name, value): (&str, &str)| match value {
                "" => format!("[[arm]]\nname = \"{name}\"\n"),
                value => format!("[[arm]]\nname = \"{name}\"\nserver.options.{key} = {value}\n"),
            };
            format!("{text}{}", ["one", "two"].into_iter().zip(values).map(arm).collect::<String>())
        };
        let differ = arms(values);
        let line =
            1 + differ.lines().collect::<Vec<_>>().iter().rposition(|it| it.starts_with("server.options.")).unwrap();
        for ran in each(&lab, &lab.write("differ.toml", &differ), &[]) {
            ran.expect_code(3).expect_said(&[&format!(":{line}:"), ours, "in a [matrix]"]);
        }
        let same = lab.write("same.toml", &arms([values[0]; 2]));
        lab.run(["plan", same.to_str().unwrap()]).expect_code(0);
    }
    if fetched(&lab, "postgresql") {
        let wrong = format!("{postgresql}[[arm]]\nname = \"one\"\nserver.options.wal_segment_size = \"3MB\"\n");
        for ran in each(&lab, &lab.write("wrong.toml", &wrong), &[]) {
            ran.expect_code(3).expect_said(&["wal_segment_size=3MB", "initdb takes a power of two"]);
        }
    }
    expect_nothing_made(&lab);
}

#[test]
fn what_cannot_be_asked_yet_is_named() {
    let lab = Lab::new(WRINGER);
    let text = small_experiment("1s", "disk = { profile = \"hdd-7200\" }");
    // a version that nobody has
    let text = text.replace("flavour = \"mariadb\"", "flavour = \"mariadb\"\nversion = \"99.9\"");
    let file = lab.write("absent.toml", &text);
    let plan = |cache: &Path| {
        let mut command = lab.command(["plan", file.to_str().unwrap(), "-o", "json"]);
        let ran = Ran::of(command.env("WRINGER_CACHE", cache));
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let said = |plan: &Value| plan["not_asked"].as_array().unwrap().iter().map(Value::to_string).collect::<String>();
    let (empty, full) = (lab.home().join("empty"), lab.home().join("full"));
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), vec![1; 4 << 20]).unwrap();
    let without = said(&plan(&empty));
    assert!(without.contains("innodb_buffer_pool_size") && without.contains("not on this machine yet"), "{without}");
    let is_slowed = plan(&empty)["blockers"].as_array().unwrap().is_empty();
    if is_slowed {
        assert!(without.contains("whether this disk is as fast as hdd-7200"), "{without}");
        let with = said(&plan(&full));
        assert!(!with.contains("hdd-7200") || with.contains("Invalid argument"), "a file to read was there: {with}");
    }
}

#[test]
fn what_must_not_be_left_out_is_refused_before_anything_is_started() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let text = small_experiment("1s", "ram = { hide = \"64M\" }");
    let file = lab.write("ram.toml", &text);
    let left = lab.run(["plan", file.to_str().unwrap()]).expect_code(0);
    assert!(left.stdout.contains("left out: squeeze.ram"), "{}", left.stdout);
    for ran in each(&lab, &file, &["--require", "ram"]) {
        ran.expect_code(3).expect_said(&["squeeze.ram is required", "only root's runs"]);
    }
    let required = lab.write("required.toml", &text.replace("[squeeze]", "[squeeze]\nrequired = true"));
    for ran in each(&lab, &required, &[]) {
        ran.expect_code(3).expect_said(&["squeeze.ram is required"]);
    }
    for ran in each(&lab, &file, &["--require", "cpus"]) {
        ran.expect_code(2).expect_said(&["no arm of the experiment asks for squeeze.cpus"]);
    }
    expect_nothing_made(&lab);
}
