// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls advise --from`: a saved reading for each kind of server, put together by hand from the variables that its manual documents, and the advice
//! for it; and files that are no reading.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a test

use serde_json::Value;
use std::path::PathBuf;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const LEGACY: &str = "SET GLOBAL innodb_empty_free_list_algorithm = legacy;";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/readings").join(format!("{name}.json"))
}

fn advised(name: &str, more: &[&str]) -> Value {
    let file = file(name);
    let words =
        ["stalls", "advise", "-o", "json", "--from", file.to_str().unwrap()].into_iter().chain(more.iter().copied());
    let ran = Lab::new(WRINGER).run(words).expect_code(0);
    let it: Value = serde_json::from_str(&ran.stdout).unwrap();
    for advice in it["advice"].as_array().unwrap() {
        let has = |key: &str| advice[key].as_str().is_some_and(|it| it.len() > 5);
        assert!(has("why") && has("price") && has("source") && has("basis"), "{advice:#}");
        assert_eq!(advice["statement"].is_null(), advice["dynamic"].is_null(), "{advice:#}");
    }
    assert!(it["notes"].to_string().contains("by hand"), "{it:#}");
    it
}

/// Without the simulation.
fn quick(name: &str) -> Value {
    advised(name, &["--starts=0"])
}

fn statements(it: &Value) -> Vec<&str> {
    it["advice"].as_array().unwrap().iter().filter_map(|advice| advice["statement"].as_str()).collect()
}

fn counter<'a>(it: &'a Value, name: &str) -> &'a Value {
    let mut counters = it["counters"].as_array().unwrap().iter();
    counters.find(|counter| counter["name"] == name).unwrap_or_else(|| panic!("no {name}: {it:#}"))
}

#[test]
fn backoff_on_a_clean_list_is_to_be_left() {
    for name in ["percona-5.6-backoff", "percona-5.7-backoff-clean", "xtradb-10.1"] {
        let it = quick(name);
        assert_eq!((&it["applicable"], &it["algorithm"]), (&Value::Bool(true), &Value::from("backoff")), "{name}");
        assert_eq!(statements(&it), [LEGACY, "SET GLOBAL innodb_lru_scan_depth = 1536;"], "{name}: {it:#}");
        assert_eq!(it["advice"][0]["dynamic"], true);
        assert_eq!(it["dirty_tail"]["verdict"], "clean", "{name}");
        assert_eq!(
            (&it["longest_sleep_us"], &it["page_demand_per_second"]),
            (&Value::from(1_000_000), &Value::from(2000.0))
        );
        assert_eq!(
            (&it["free_ratio"]["share"], &it["free_ratio"]["verdict"]),
            (&Value::from(0.125), &Value::from("acceptable"))
        );
        assert!(counter(&it, "Innodb_buffer_pool_wait_free")["means"].as_str().unwrap().contains("a clock"), "{name}");
        // a server of this version was loaded, of the others none was had
        let basis = if name == "xtradb-10.1" { "measured" } else { "assumed" };
        assert_eq!(it["advice"][0]["basis"], basis, "{name}");
    }
}

#[test]
fn where_dirty_pages_reach_the_end_of_the_list_legacy_may_be_worse() {
    let it = quick("percona-5.7-backoff-dirty");
    assert_eq!(it["dirty_tail"]["verdict"], "dirty");
    let share = it["dirty_tail"]["dirty_share"].as_f64().unwrap();
    assert!((share - 0.45).abs() < 1e-9, "{share}");
    assert!(it["advice"][0]["why"].as_str().unwrap().contains("legacy may be worse"), "{it:#}");
    assert!(statements(&it).contains(&"SET GLOBAL innodb_io_capacity = 400;"), "{it:#}");
}

#[test]
fn a_counter_with_a_known_fault_is_not_believed() {
    let it = quick("percona-5.7-zero-says-nothing");
    assert_eq!(it["dirty_tail"]["verdict"], "not_known", "a 0 of PS-6860");
    let flushed = counter(&it, "Innodb_buffer_pool_pages_LRU_flushed");
    assert_eq!((&flushed["trust"], &flushed["bugs"][0]["name"]), (&Value::from("doubtful"), &Value::from("PS-6860")));
    // 8 instances of 1024 pages, in 8 GiB
    assert_eq!(
        (&it["free_ratio"]["share"], &it["free_ratio"]["verdict"]),
        (&Value::from(0.015_625), &Value::from("fine"))
    );
    assert_eq!(statements(&it), [LEGACY], "the list of 1024 pages an instance lasts through a second");
    let scanned = quick("percona-8.0-backoff");
    assert!(counter(&scanned, "buffer_LRU_search_scanned")["bugs"].to_string().contains("PS-8785"));
}

#[test]
fn legacy_is_left_as_it_is() {
    let it = quick("percona-8.0-legacy");
    assert_eq!((&it["applicable"], &it["algorithm"]), (&Value::Bool(true), &Value::from("legacy")));
    assert!(statements(&it).is_empty() && it["advice"].as_array().unwrap().len() == 1, "{it:#}");
    assert!(it["advice"][0]["why"].as_str().unwrap().contains("nobody sets backoff"));
    assert!(it["longest_sleep_us"].is_null(), "a query waits for nobody");
    assert!(
        counter(&it, "Innodb_buffer_pool_wait_free")["means"]
            .as_str()
            .unwrap()
            .contains("neither a free page nor a clean one")
    );
}

#[test]
fn backoff_without_lru_managers_is_never_good() {
    let it = quick("percona-8.4-backoff");
    assert_eq!(statements(&it)[0], LEGACY);
    assert!(it["advice"][0]["why"].as_str().unwrap().contains("only the page cleaner"), "{it:#}");
    let set = quick("percona-8.0-backoff");
    assert_eq!((statements(&set)[0], &set["page_demand_per_second"]), (LEGACY, &Value::from(3000.0)), "{set:#}");
    assert_eq!(set["page_demand"]["from"][0], "buffer_LRU_get_free_search");
}

#[test]
fn threads_that_a_server_starts_with_are_for_its_option_file() {
    let it = quick("percona-9.7-woken");
    let last = it["advice"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["statement"], &last["dynamic"]),
        (&Value::from("[mysqld] innodb_lru_threads = ON"), &Value::Bool(false))
    );
}

#[test]
fn mysql_has_no_backoff_and_other_things_to_look_at() {
    let cheap = quick("mysql-8.4-cheap");
    assert_eq!((&cheap["applicable"], &cheap["algorithm"]), (&Value::Bool(false), &Value::Null));
    assert!(cheap["applicable_why"].as_str().unwrap().starts_with("not applicable"));
    assert!(statements(&cheap).is_empty() && cheap["watch"].to_string().contains("cheap"), "{cheap:#}");
    let dirty = quick("mysql-9.7-dirty");
    assert_eq!(
        (&dirty["dirty_tail"]["verdict"], statements(&dirty)),
        (
            &Value::from("dirty"),
            vec!["SET GLOBAL innodb_io_capacity = 400;", "SET GLOBAL innodb_lru_scan_depth = 1536;"]
        )
    );
    assert!(dirty["missing"].to_string().contains("innodb_monitor_enable = 'buffer_LRU%'"), "{dirty:#}");
}

#[test]
fn mariadb_with_a_way_of_its_own_has_not_this_stall() {
    let it = quick("mariadb-10.11");
    assert_eq!(it["applicable"], false);
    assert!(statements(&it).is_empty(), "{it:#}");
    assert!(counter(&it, "Innodb_buffer_pool_wait_free")["means"].as_str().unwrap().contains("thousands are normal"));
    assert!(it["watch"].to_string().contains("Could not free any blocks"));
}

#[test]
fn a_version_that_nobody_looked_at_gets_no_advice() {
    for name in ["mariadb-10.6-nobody-looked", "percona-12.1-nobody-looked"] {
        let it = quick(name);
        assert_eq!((&it["applicable"], &it["source"]), (&Value::Null, &Value::Null), "{name}");
        assert!(it["applicable_why"].as_str().unwrap().contains("nobody has looked"), "{name}");
        let empty = ["advice", "counters", "trades", "watch"].iter().all(|key| it[*key].as_array().unwrap().is_empty());
        assert!(empty && it["page_demand_per_second"].is_null(), "{name}: {it:#}");
    }
}

/// 4 clients and 0.83 pages a query, on the version that was measured.
#[test]
fn what_other_settings_trade_is_simulated_with_its_band() {
    let it = advised("xtradb-10.1", &["--threads=4", "--starts=2"]);
    let trades = it["trades"].as_array().unwrap();
    let found: Vec<(u64, &str)> =
        trades.iter().map(|it| (it["lru_scan_depth"].as_u64().unwrap(), it["algorithm"].as_str().unwrap())).collect();
    let expected = [512, 1024, 2048, 4096].into_iter().flat_map(|depth| [(depth, "backoff"), (depth, "legacy")]);
    assert_eq!(found, expected.collect::<Vec<_>>());
    let figure = |depth: u64, algorithm: &str, key: &str, end: &str| {
        let one = trades.iter().find(|it| it["lru_scan_depth"] == depth && it["algorithm"] == algorithm).unwrap();
        one[key][end].as_f64().unwrap()
    };
    assert!(figure(1024, "backoff", "stalls_per_minute", "low") > 60.0, "{trades:#?}");
    assert_eq!(figure(1024, "legacy", "stalls_per_minute", "high"), 0.0);
    assert!(
        figure(1024, "legacy", "queries_per_second", "low") > figure(1024, "backoff", "queries_per_second", "high")
    );
    assert!(
        figure(512, "backoff", "queries_per_second", "high") < figure(1024, "backoff", "queries_per_second", "high")
    );
    assert!(
        trades.iter().filter(|it| it["is_current"] == true).count() == 1 && trades[0]["free_list_bytes"] == 8 << 20
    );
    assert_eq!(it["trades_of"]["basis"], "simulated");
    assert!(it["trades_of"]["load"][0].as_str().unwrap().contains("as you say"), "{it:#}");
}

#[test]
fn what_is_no_reading_is_refused_with_its_line() {
    let lab = Lab::new(WRINGER);
    let variables = "Variable_name\tValue\nversion\t5.7.39-42\nversion_comment\tPercona Server (GPL)\n";
    let status = "Variable_name\tValue\nInnodb_buffer_pool_wait_free\t10\nUptime\t100\n";
    let half = format!("{variables}{status}SLEEP(10)\n0\nVariable_name\tValue\nInnodb_buffer_pool_wait_free\t10\n");
    for (name, text, said) in [
        ("empty", String::new(), "line 1: "),
        ("words", "no such thing\n".to_owned(), "line 1: expected is a name, a tab, and a value"),
        ("json", "{\"variables\": {\n\"version\": ".to_owned(), "line 2: "),
        ("one", format!("{variables}{status}"), "line 6: one reading"),
        ("half", half, "line 10: SHOW GLOBAL STATUS ends here"),
    ] {
        let path = lab.home().join(name);
        std::fs::write(&path, text).unwrap();
        lab.run(["stalls", "advise", "--from", path.to_str().unwrap()])
            .expect_code(3)
            .expect_said(&[said, "SELECT SLEEP(10)"]);
    }
    lab.run(["stalls", "advise", "--from", "/no/such"]).expect_code(3).expect_said(&["/no/such"]);
}

#[test]
fn what_the_client_prints_is_read_and_shown_with_what_is_missing() {
    let lab = Lab::new(WRINGER);
    let path = lab.home().join("paste");
    let table = |rows: &[(&str, &str)]| {
        let rows = rows.iter().map(|(name, value)| format!("{name}\t{value}\n"));
        format!("Variable_name\tValue\n{}", rows.collect::<String>())
    };
    let variables = table(&[
        ("innodb_empty_free_list_algorithm", "backoff"),
        ("version", "5.7.39-42"),
        ("version_comment", "Percona Server (GPL)"),
    ]);
    let status = |count: &str| table(&[("Innodb_buffer_pool_wait_free", count), ("Uptime", "5")]);
    std::fs::write(&path, format!("{variables}{}SLEEP(10)\n0\n{}", status("0"), status("479"))).unwrap();
    let ran = lab.run(["stalls", "advise", "--from", path.to_str().unwrap()]).expect_code(0);
    for words in [
        "percona 5.7.39, backoff, over 10.0 s",
        LEGACY,
        "Innodb_buffer_pool_wait_free 47.9/s",
        "SHOW GLOBAL VARIABLES LIKE 'innodb_buffer_pool_size'",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
}
