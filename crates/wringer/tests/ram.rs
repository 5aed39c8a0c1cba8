// SPDX-License-Identifier: Apache-2.0
//! Hiding the host's RAM with the real program: it is gone, it is measured, and it comes back whatever dies.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
/// Small enough for a small machine, large against what it does by itself.
const HIDE: &str = "512M";
const HIDE_PAGES: u64 = 256;

fn hide(lab: &Lab) -> serde_json::Value {
    json(&lab.run(["ram", "hide", HIDE, "--yes", "-o", "json"]).expect_code(0))
}

#[test]
fn hidden_measured_and_given_back() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let available = meminfo("MemAvailable") * 1024;
    let said = hide(&lab);
    assert_eq!(said["hidden_bytes"], 512 * MIB);
    assert_eq!(meminfo("HugePages_Rsvd"), HIDE_PAGES);
    let fell = available.saturating_sub(meminfo("MemAvailable") * 1024);
    assert!(fell > 100 * MIB, "MemAvailable fell by {fell} bytes only");
    let measured = said["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 2);
    assert!(measured.iter().all(|it| it["within_tolerance"] == true), "{said:#}");
    assert_eq!(
        std::fs::read_to_string("/proc/sys/vm/nr_overcommit_hugepages").unwrap().trim(),
        "0",
        "the cap is back at once"
    );
    let holder = process_of(&lab, "holder");
    let score = std::fs::read_to_string(format!("/proc/{holder}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "1000", "the kernel takes the holder before a database");
    lab.run(["ram", "hide", HIDE, "--yes"]).expect_code(3).expect_said(&["held by run", "ram release"]);
    let shown = lab.run(["ram", "status"]).expect_code(0).stdout;
    assert!(shown.contains("live") && shown.contains("reserved in huge pages 512 MiB"), "{shown}");

    lab.run(["ram", "release"]).expect_code(0);
    assert_eq!(meminfo("HugePages_Total"), 0);
    expect_as_before(&before);
    lab.run(["ram", "release"]).expect_code(0).expect_said(&["no RAM is hidden"]);
}

#[test]
fn a_second_home_is_refused_with_the_run_that_holds_the_ram() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, other, before) = (alone(), Lab::new(WRINGER), Lab::new(WRINGER), Snapshot::take());
    let run = hide(&lab)["run"].as_str().unwrap().to_owned();
    let home = format!("WRINGER_HOME={}", lab.home().display());
    other.run(["ram", "hide", "64M", "--yes"]).expect_code(3).expect_said(&["held by run", &run, &home]);
    assert_eq!(status(&other)["runs"].as_array().unwrap().len(), 0);
    assert_eq!(meminfo("HugePages_Rsvd"), HIDE_PAGES, "the first is untouched");
    lab.run(["ram", "release"]).expect_code(0);
    other.run(["ram", "hide", "64M", "--yes"]).expect_code(0);
    other.run(["ram", "release"]).expect_code(0);
    expect_as_before(&before);
}

#[test]
fn it_ends_by_itself_when_its_time_is_over() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    lab.run(["ram", "hide", HIDE, "--yes", "--for", "1s"]).expect_code(0);
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn nothing_is_hidden_from_a_host_that_is_small_already() {
    let lab = Lab::new(WRINGER);
    let ran = lab.run(["ram", "leave", "512T", "-o", "json"]).expect_code(0);
    assert_eq!(json(&ran)["hidden_bytes"], 0);
    lab.run(["ram", "leave", "512T"]).expect_code(0);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn a_dry_run_shows_each_change_with_its_undo_and_changes_nothing() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let ran = lab.run(["ram", "hide", HIDE, "--dry-run"]).expect_code(0);
    assert!(
        ran.stdout.contains("nr_overcommit_hugepages: 0 -> 256") && ran.stdout.matches("undo:").count() == 2,
        "{}",
        ran.stdout
    );
    let value = json(&lab.run(["ram", "hide", HIDE, "--dry-run", "-o", "json"]).expect_code(0));
    assert_eq!(value["changes"].as_array().unwrap().len(), 2);
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn refusals_say_what_to_do() {
    let ordinary = Lab::as_ordinary_user(WRINGER);
    ordinary.run(["ram", "hide", HIDE, "--yes"]).expect_code(3).expect_said(&["needs root", "sudo"]);
    ordinary.run(["ram", "hide", "lots"]).expect_code(2);
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    lab.run(["ram", "hide", "512T", "--yes"]).expect_code(3).expect_said(&["below the floor", "can be hidden"]);
    lab.run(["ram", "leave", "100M", "--yes"]).expect_code(3).expect_said(&["below the floor", "cgroup"]);
    let database = fake_database(&lab, lab.home());
    lab.run(["ram", "hide", HIDE]).expect_code(3).expect_said(&["not Wringer's", "mariadbd", "--yes"]);
    drop(database);
    expect_as_before(&before);
}

#[test]
fn a_dead_supervisor_gives_it_back() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let supervisor = hide(&lab)["pid"].as_u64().unwrap();
    signal(supervisor, Signal::KILL);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "the watchdog gives the RAM back");
    expect_as_before(&before);
    lab.run(["undo"]).expect_code(0);
}

#[test]
fn a_dead_holder_ends_the_squeeze() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let supervisor = hide(&lab)["pid"].as_u64().unwrap();
    signal(process_of(&lab, "holder"), Signal::KILL);
    assert!(wait_until(PATIENCE, || !is_alive(supervisor)), "nothing is left to supervise");
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn with_supervisor_and_watchdog_dead_the_ram_is_back_and_undo_does_the_rest() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let supervisor = hide(&lab)["pid"].as_u64().unwrap();
    signal(process_of(&lab, "watchdog"), Signal::KILL);
    signal(supervisor, Signal::KILL);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "the holder's lifeline has ended");
    assert!(wait_until(PATIENCE, || status(&lab)["runs"][0]["condition"] == "over"), "{:#}", status(&lab));
    let dry = lab.run(["undo", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.contains("undo holder"), "{}", dry.stdout);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 1, "a dry run changes nothing");

    let undone = json(&lab.run(["undo", "-o", "json"]).expect_code(0));
    assert_eq!(undone["ended"].as_array().unwrap().len(), 1);
    expect_as_before(&before);
    let again = lab.run(["undo"]).expect_code(0);
    assert!(again.stdout.contains("nothing to undo"), "{}", again.stdout);
}
