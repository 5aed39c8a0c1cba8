// SPDX-License-Identifier: Apache-2.0
//! Huge pages for real servers: the number that is advised is the smallest with which they have what they ask for, a server that does without is found, and
//! the pool comes back whatever dies.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use serde_json::Value;
use standing::*;
use std::fs;
use testkit::{Lab, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const POOL: &str = "/proc/sys/vm/nr_hugepages";

fn pool() -> u64 {
    fs::read_to_string(POOL).unwrap().trim().parse().unwrap()
}

fn deployed(server: &str, options: &[&str]) -> Lab {
    let lab = Lab::new(WRINGER);
    let options = options.iter().flat_map(|option| ["-c", option]);
    let deploy: Vec<&str> = ["sandbox", "deploy", server, "--name", "h"].into_iter().chain(options).collect();
    lab.run(&deploy).expect_code(0);
    lab
}

fn advise(lab: &Lab) -> Value {
    json(&lab.run(["hugepages", "advise", "--sandbox", "h", "-o", "json"]).expect_code(0))
}

fn check(lab: &Lab, code: i32) -> Value {
    json(&lab.run(["hugepages", "check", "--sandbox", "h", "-o", "json"]).expect_code(code))
}

/// All of them or none.
fn apply(lab: &Lab, pages: u64) -> Value {
    let pages = pages.to_string();
    let args = ["hugepages", "apply", "--pages", &pages, "--strict", "--drop-caches", "-o", "json"];
    json(&lab.run(args).expect_code(0))
}

fn release(lab: &Lab) {
    lab.run(["hugepages", "release"]).expect_code(0);
}

fn start(lab: &Lab) -> testkit::Ran {
    lab.run(["sandbox", "start", "h"])
}

fn stop(lab: &Lab) {
    lab.run(["sandbox", "stop", "h"]).expect_code(0);
}

#[test]
fn postgresql_starts_with_as_many_and_not_with_one_less() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, before) = (alone(), Snapshot::take());
    let lab = deployed("postgresql", &["shared_buffers=64MB", "max_connections=50"]);
    let told = advise(&lab);
    let pages = told["pages_needed"].as_u64().unwrap();
    assert_eq!(told["need"]["basis"], "server", "before the first start: {told:#}");
    // the server that makes the database would need them, too: it is told at its start
    let start = || lab.run(["sandbox", "start", "h", "--huge-pages", "on"]);
    apply(&lab, pages - 1);
    start().expect_code(4).expect_said(&["could not map anonymous shared memory"]);
    release(&lab);
    let applied = apply(&lab, pages);
    assert_eq!((applied["granted_pages"].as_u64(), pool()), (Some(pages), pages));
    start().expect_code(0);
    let running = advise(&lab);
    assert_eq!(running["pages_needed"], pages, "{running:#}");
    assert!(running["pages_by_vmpeak"].as_u64().unwrap() > pages, "{running:#}");
    assert_eq!(running["page_tables"]["permitted"], 50);
    let in_use = check(&lab, 0);
    assert_eq!((&in_use["huge_pages_in_use"], &in_use["wanted"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!(in_use["mapped_bytes"].as_u64(), Some(pages * 2 * MIB), "{in_use:#}");
    stop(&lab);
    release(&lab);
    lab.run(["sandbox", "delete", "h", "--force"]).expect_code(0);
    expect_as_before(&before);
}

/// Sessions that each touch other pages: the account has as many as the kernel says are in use, also those of sessions that have ended.
#[test]
fn the_account_has_all_huge_pages_of_a_postgresql() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, before) = (alone(), Snapshot::take());
    let lab = deployed("postgresql", &["shared_buffers=64MB", "max_connections=50"]);
    apply(&lab, advise(&lab)["pages_needed"].as_u64().unwrap());
    lab.run(["sandbox", "start", "h", "--huge-pages", "on"]).expect_code(0);
    let dsn = lab.run(["sandbox", "export", "h", "dsn"]).expect_code(0).stdout.trim().to_owned();
    let target: load::Target = dsn.parse().unwrap();
    let mut sessions: Vec<_> = (0..3).map(|_| load::admin::Connection::open(&target).unwrap()).collect();
    for (nth, session) in sessions.iter_mut().enumerate() {
        let make = format!("CREATE TABLE t{nth} AS SELECT i, repeat('x', 1000) FROM generate_series(1, 8000) AS s(i)");
        session.query(&make).unwrap();
    }
    sessions.pop();
    let page = 2 * MIB;
    let in_use = || {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        let of = |name: &str| meminfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        (of("HugePages_Total:").unwrap() - of("HugePages_Free:").unwrap()) * page
    };
    let least = in_use();
    let account = json(&lab.run(["memory", "account", "--sandbox", "h", "-o", "json"]).expect_code(0));
    let most = in_use();
    let leaves = account["leaves"].as_array().unwrap().iter();
    let huge = leaves.filter(|leaf| leaf["path"].as_str().unwrap().starts_with("huge_pages/"));
    let told: u64 = huge.map(|leaf| leaf["resident_bytes"].as_u64().unwrap()).sum();
    assert!(least >= 12 * page && (least..=most).contains(&told), "{least} to {most}: {account:#}");
    assert!(account["uncertainty_bytes"].as_u64().unwrap() < 2 * page, "{account:#}");
    drop(sessions);
    stop(&lab);
    release(&lab);
    lab.run(["sandbox", "delete", "h", "--force"]).expect_code(0);
    expect_as_before(&before);
}

/// It says nothing when it does without.
#[test]
fn mariadb_that_does_without_is_found() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, before) = (alone(), Snapshot::take());
    let lab = deployed("mariadb@10.11", &["innodb_buffer_pool_size=64M", "large_pages=ON"]);
    let by_settings = advise(&lab);
    assert_eq!(by_settings["need"]["basis"], "settings", "{by_settings:#}");
    let pages = by_settings["pages_needed"].as_u64().unwrap();
    let at_least = pages - alignment_pages(&by_settings);
    start(&lab).expect_code(0);
    let without = check(&lab, 1);
    assert_eq!((&without["huge_pages_in_use"], &without["wanted"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(advise(&lab)["pages_needed"], pages, "by its mappings the same as by its settings");
    stop(&lab);
    apply(&lab, at_least - 1);
    start(&lab).expect_code(0);
    let in_part = check(&lab, 1);
    assert_eq!(in_part["huge_pages_in_use"], false, "{in_part:#}");
    assert!(in_part["mapped_bytes"].as_u64().unwrap() > 0, "{in_part:#}");
    stop(&lab);
    release(&lab);
    apply(&lab, pages);
    start(&lab).expect_code(0);
    let all = check(&lab, 0);
    assert_eq!(all["huge_pages_in_use"], true, "{all:#}");
    assert_eq!(all["mapped_bytes"].as_u64(), Some((at_least + alignment_pages(&all)) * 2 * MIB), "{all:#}");
    assert!(alignment_pages(&all) <= alignment_pages(&by_settings), "{all:#}");
    assert_eq!(advise(&lab)["pages_needed"], pages, "for the next start, which may need more for the alignment");
    // while it runs in them: they are its own until it ends
    release(&lab);
    assert_eq!(check(&lab, 0)["huge_pages_in_use"], true);
    stop(&lab);
    lab.run(["sandbox", "delete", "h", "--force"]).expect_code(0);
    expect_as_before(&before);
}

/// Of the parts, the one that differs from start to start.
fn alignment_pages(told: &Value) -> u64 {
    let parts = told["parts"].as_array().unwrap().iter();
    let of_alignment = parts.filter(|part| part["what"] == "pool alignment");
    of_alignment.map(|part| part["bytes"].as_u64().unwrap() / (2 * MIB)).sum()
}

/// Controller and watchdog are dead: the pages stay, `status` says so, and an undo gives them back.
#[test]
fn the_pool_comes_back_by_an_undo() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let applied = apply(&lab, 16);
    let (pid, watchdog) = (applied["pid"].as_u64().unwrap(), process_of(&lab, "watchdog"));
    assert!(applied["until"].is_null() && pool() == 16, "{applied:#}");
    let status = status(&lab);
    assert_eq!((&status["runs"][0]["condition"], &status["hidden_bytes"]), (&Value::from("live"), &Value::from(0)));
    lab.run(["ram", "hide", "256M", "--yes"])
        .expect_code(3)
        .expect_said(&["huge pages for a server", "hugepages release"]);
    lab.run(["ram", "release"]);
    assert_eq!(pool(), 16, "nothing is hidden by it");
    // 16 are there, and nobody claims them
    lab.run(["hugepages", "apply", "--pages", "16"]).expect_code(3);
    kill_together(&[pid, watchdog]);
    assert_eq!(pool(), 16);
    lab.run(["hugepages", "apply", "--pages", "17"]).expect_code(3).expect_said(&["undo"]);
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);
}

/// Nothing is changed by any of these.
#[test]
fn what_is_refused() {
    let lab = Lab::new(WRINGER);
    lab.run(["hugepages", "advise"]).expect_code(2).expect_said(&["whose huge pages?"]);
    lab.run(["hugepages", "check", "--pid", "4000000000"]).expect_code(3);
    let most = u64::MAX.to_string();
    let (_alone, before) = (alone(), pool());
    lab.run(["hugepages", "apply", "--pages", &most]).expect_code(3);
    let planned =
        json(&lab.run(["hugepages", "apply", "--pages", "1", "--dry-run", "-o", "json"]).expect_code(if is_root() {
            0
        } else {
            3
        }));
    assert!(!is_root() || planned["changes"][0]["undo"].is_string(), "{planned:#}");
    assert_eq!(pool(), before);
}
