// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls simulate` on the real program: what it prints, and what it refuses.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test

use serde_json::Value;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// The flags are one text, with blanks between them.
fn simulate(flags: &str) -> Value {
    let lab = Lab::new(WRINGER);
    let words = ["stalls", "simulate", "-o", "json"].into_iter().chain(flags.split_whitespace());
    serde_json::from_str(&lab.run(words).expect_code(0).stdout).unwrap()
}

fn figures(json: &Value, key: &str) -> Vec<f64> {
    json["runs"].as_array().unwrap().iter().map(|run| run[key].as_f64().unwrap()).collect()
}

#[test]
fn the_sleep_follows_the_root_of_twice_the_time() {
    for (server, seconds) in [("percona@8.0.29", 5u32), ("percona@5.7.39", 60), ("percona@8.0.32", 500)] {
        let json = simulate(&format!(
            "--server {server} --algorithm backoff --threads 0 --initial-sleep 0 --loop-overhead 0 --time {seconds}"
        ));
        let law = (2.0 * f64::from(seconds) * 1000.0).sqrt() * 1000.0;
        let us = figures(&json, "refiller_sleep_us")[0];
        assert!((us / law - 1.0).abs() < 0.02, "{server}: {us}, not {law}");
    }
}

#[test]
fn the_result_has_every_figure_with_its_source_and_a_band() {
    let json = simulate(
        "--server percona@8.0.29 --algorithm backoff --pages-per-query 0.73 --time 2 --pause 5 --repeat 3 --seed 7",
    );
    assert_eq!(json["schema"], 1);
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let numbers = ["queries_per_second", "max_us", "stalls", "lost_query_us", "wait_free", "refiller_sleep_us"];
        assert!(numbers.iter().all(|key| run[key].is_number()), "{run}");
        assert!(run["stall_p50_us"].is_number() && run["timeline"].as_array().unwrap().len() == 120);
        let parameters = run["parameters"].as_array().unwrap();
        assert!(parameters.iter().all(|it| it["source"].as_str().unwrap().len() > 8), "{parameters:?}");
        let source = |name: &str| {
            let one = parameters.iter().find(|it| it["name"] == name).unwrap();
            one["source"].as_str().unwrap().to_owned()
        };
        assert_eq!(source("pages-per-query"), "the command line");
        assert_ne!(source("service-time"), "the command line");
        let band = &run["band"]["max_us"];
        let longest = run["max_us"].as_f64().unwrap();
        assert!(band["low"].as_f64().unwrap() <= longest && longest <= band["high"].as_f64().unwrap());
        let sum: u64 = run["timeline"].as_array().unwrap().iter().map(|it| it["stalls"].as_u64().unwrap()).sum();
        assert_eq!(sum, run["stalls"].as_u64().unwrap());
    }
}

#[test]
#[allow(clippy::cast_possible_truncation)] // whole numbers of the sweep
fn a_sweep_has_a_run_for_each_value_and_two_sweeps_all_combinations() {
    let json = simulate(
        "--server mariadb@10.1.23 --time 1 --starts 0 --sweep lru-scan-depth=128..512/128 --sweep threads=1..3/2",
    );
    let swept: Vec<(u64, u64)> = json["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            (run["swept"]["lru_scan_depth"].as_f64().unwrap() as u64, run["swept"]["threads"].as_f64().unwrap() as u64)
        })
        .collect();
    let expected: Vec<(u64, u64)> =
        [128, 256, 384, 512].into_iter().flat_map(|depth| [(depth, 1), (depth, 3)]).collect();
    assert_eq!(swept, expected);
    let speeds = figures(&json, "queries_per_second");
    assert!(speeds.windows(4).all(|two| two[2] > two[0] * 1.1), "a longer list serves more queries: {speeds:?}");
}

#[test]
fn people_see_a_table_a_picture_and_what_the_band_is() {
    let lab = Lab::new(WRINGER);
    let words = "stalls simulate --server percona@5.7.39 --time 2 --pages-per-query 0.73";
    let shown = lab.run(words.split(' ')).expect_code(0).stdout;
    for part in ["queries/s", "longest query", "refiller sleeps", "█", "5.7.18 to before 5.8", "band:", "wait_free"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert!(lab.run(["stalls", "simulate", "--help"]).expect_code(0).stdout.contains("--burst-every 120"));
}

#[test]
fn what_is_unknown_or_makes_no_sense_is_wrong_usage() {
    let lab = Lab::new(WRINGER);
    let refused = [
        ("--server percona@8.1.0", "8.1.0"),
        ("--server percona@5.5", "5.7.18 to before 5.8"),
        ("--server percona@99.1", "nobody has looked"),
        ("--server mariadb@10.6.12", "10.11.18 to before 10.11.20"),
        ("--server percona", "names no version"),
        ("--server postgresql@15", "no InnoDB"),
        ("--server oracle@9", "oracle"),
        ("--server percona@8.0.29x", "8.0.29x"),
        ("--server mysql@8.0 --algorithm backoff", "backoff"),
        ("--server percona@8.0.29 --sweep depth=1..2/1", "lru-scan-depth"),
        ("--server percona@8.0.29 --sweep threads=1..2/0", "step"),
        ("--server percona@8.0.29 --sweep threads=1..2", "FROM..TO/STEP"),
        ("--server percona@8.0.29 --sweep threads=1..2/1 --sweep threads=4..8/4", "given twice"),
        ("--server percona@8.0.29 --sweep threads=1..200/1 --sweep rate=1..200/1", "10000"),
        ("--server percona@8.0.29 --sweep lru-scan-depth=1..300/100", "scan depth"),
        ("--server percona@8.0.29 --time 0", "time"),
        ("--server percona@8.0.29 --time 99999999999999h", "too large"),
        ("--server percona@8.0.29 --time 20d", "20d"),
        ("--server percona@8.0.29 --threads -1", "-1"),
        ("--server percona@8.0.29 --threads 4294967296", "4294967296"),
        ("--server percona@8.0.29 --threads 100000", "threads"),
        ("--server percona@8.0.29 --rate 0", "rate"),
        ("--server percona@8.0.29 --rate -5", "rate"),
        ("--server percona@8.0.29 --rate nan", "rate"),
        ("--server percona@8.0.29 --pages-per-query inf", "pages"),
        ("--server percona@8.0.29 --pages-per-query -1", "-1"),
        ("--server percona@8.0.29 --service-time 0", "time"),
        ("--server percona@8.0.29 --dirty 1.5", "dirty"),
        ("--server percona@8.0.29 --instances 0", "instances"),
        ("--server mariadb@10.11.19 --instances 2", "instances"),
        ("--server percona@8.0.29 --pool 0", "scan depth"),
        ("--server percona@8.0.29 --pool 4M", "a larger pool, fewer instances"),
        ("--server percona@8.0.29 --pool 99999999999999999999G", "too large"),
        ("--server percona@8.0.29 --algorithm backoff --instances 8", "1280"),
        ("--server percona@8.0.29 --lru-scan-depth 99", "scan depth"),
        ("--server percona@8.0.29 --lru-scan-depth 8000", "scan depth"),
        ("--server percona@8.0.29 --initial-free 9000", "free"),
        ("--server percona@8.0.29 --initial-sleep 2s", "sleep"),
        ("--server percona@8.0.29 --initial-sleep 1500us", "whole milliseconds"),
        ("--server percona@8.0.29 --repeat 0", "repeats"),
        ("--server percona@8.0.29 --repeat 9999 --time 20h", "all loads"),
        ("--server percona@8.0.29 --burst-pages 5", "--burst-every"),
        ("--server percona@8.0.29 --burst-every 5", "--burst-pages"),
        ("--server percona@8.0.29 --pages-per-query 0.73 --sweep table=1G..2G/1G", "--pages-per-query"),
        ("--server percona@8.0.29 --table 1G --sweep pages-per-query=1..2/1", "--table"),
        ("--server percona@8.0.29 --burst-pages 0 --burst-every 5", "burst"),
        ("--server percona@8.0.29 --table 0", "table"),
        ("--server percona@8.0.29 --table 1G --pages-per-query 1", "--pages-per-query"),
        ("", "--server"),
    ];
    for (flags, said) in refused {
        let words = ["stalls", "simulate"].into_iter().chain(flags.split_whitespace());
        lab.run(words).expect_code(2).expect_said(&[said]);
    }
}

/// One of a pair of flags is swept, and the other one is given.
#[test]
fn each_flag_of_a_burst_can_be_swept() {
    for flags in ["--burst-every 1 --sweep burst-pages=100..200/100", "--burst-pages 100 --sweep burst-every=1..2/1"] {
        let told = simulate(&format!("--server percona@8.0.29 --time 2s {flags}"));
        let swept: Vec<&Value> = told["runs"].as_array().unwrap().iter().map(|run| &run["swept"]).collect();
        assert!(swept.len() >= 2 && swept.first() != swept.last(), "{swept:?}");
    }
}
