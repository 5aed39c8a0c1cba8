// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls explain` on the real program: what it reads, what it refuses, and how it ends.
#![allow(clippy::unwrap_used)] // a test

use serde_json::Value;
use std::path::Path;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A stall of four connections behind fifty statements that took 70 us each.
fn slow_log() -> String {
    let entry = |time: &str, connection: usize, took: f64| {
        format!(
            "# Time: 2022-11-30T{time}Z\n# User@Host: me[me] @ localhost []  Id:    {connection}\n\
             # Query_time: {took:.6}  Lock_time: 0.000003  Rows_sent: 1  Rows_examined: 1  Rows_affected: 0  Bytes_sent: 197\n\
             #   InnoDB_IO_r_ops: 1  InnoDB_IO_r_bytes: 16384  InnoDB_IO_r_wait: 0.000009\n\
             #   InnoDB_rec_lock_wait: 0.000000  InnoDB_queue_wait: 0.000000\n#   InnoDB_pages_distinct: 4\n\
             SET timestamp=1669772141;\nSELECT c FROM accounts WHERE name='secret-{connection}';\n"
        )
    };
    let quick = (0..50).map(|index| entry(&format!("01:35:{:02}.000000", index), index % 4, 0.000_07));
    let stalled = (0..4).map(|index| entry(&format!("01:37:42.01{index}000"), index, 0.336_5));
    quick.chain(stalled).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_log_is_explained_for_people_and_for_programs() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("slow.log", &slow_log());
    let file = file.to_str().unwrap();
    let shown = lab.run(["stalls", "explain", file]).expect_code(0);
    assert!(!shown.stdout.contains("secret"), "{}", shown.stdout);
    for words in ["2022-11-30 01:37:41.67", "free_list_backoff", "select c from accounts where name = ?", "1.35 s"] {
        assert!(shown.stdout.contains(words), "{words} is not in\n{}", shown.stdout);
    }
    let found = json(&lab.run(["stalls", "explain", file, "-o", "json"]).expect_code(0).stdout);
    assert_eq!(found["schema"], 1);
    let stall = &found["stalls"][0];
    assert_eq!(
        (stall["cause"].as_str(), stall["victims"].as_array().map(Vec::len)),
        (Some("free_list_backoff"), Some(4))
    );
    assert_eq!(stall["lost_query_us"], 4 * (336_500 - 70));
    assert_eq!(found["account"]["attributed_query_us"], found["account"]["lost_query_us"]);
    assert_eq!(
        (found["classes"][0]["count"].as_u64(), found["classes"][0]["median_us"].as_u64()),
        (Some(54), Some(70))
    );
    assert_eq!(found["skipped"], Value::Array(Vec::new()));
    // with values
    let shown = lab.run(["stalls", "explain", file, "--with-values"]).expect_code(0).stdout;
    assert!(shown.contains("name='secret-0'"), "{shown}");
}

#[test]
fn a_stall_that_is_too_long_is_a_finding() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("slow.log", &slow_log());
    let file = file.to_str().unwrap();
    lab.run(["stalls", "explain", file, "--fail-on-stall", "1s"]).expect_code(0);
    lab.run(["stalls", "explain", file, "--fail-on-stall", "300ms"])
        .expect_code(1)
        .expect_said(&["--fail-on-stall 300 ms"]);
    lab.run(["stalls", "explain", file, "--fail-on-stall", "300ms", "--at-least", "400ms"]).expect_code(0);
}

#[test]
fn the_counter_alone_says_how_long_the_stalls_of_the_article_were() {
    let lab = Lab::new(WRINGER);
    let asked =
        ["stalls", "explain", "--server", "percona@8.0.29", "--wait-free", "479", "--victims", "5", "-o", "json"];
    let found = json(&lab.run(asked).expect_code(0).stdout);
    // the article's longest of the five was 554.83 ms
    let length = found["counter"]["length_us"]["likely"].as_f64().unwrap();
    assert!((length - 554_830.0).abs() < 0.03 * 554_830.0, "{length}");
    assert_eq!(found["account"]["wait_free"], 479);
    assert_eq!(found["stalls"][0]["victims"].as_array().map(Vec::len), Some(5));
    let refused = ["stalls", "explain", "--server", "mysql@9.1", "--wait-free", "479", "--victims", "5"];
    lab.run(refused).expect_code(3).expect_said(&["mysql 9.1"]);
    let legacy = ["--algorithm", "legacy"];
    lab.run(asked.iter().chain(&legacy)).expect_code(3);
    lab.run(["stalls", "explain", "--server", "percona", "--wait-free", "1", "--victims", "1"]).expect_code(2);
    lab.run(["stalls", "explain", "--server", "percona@8.0.29", "--wait-free", "1"]).expect_code(2);
    lab.run(["stalls", "explain"]).expect_code(2);
}

#[test]
fn what_is_no_log_is_refused_and_a_damaged_one_is_read_as_far_as_it_goes() {
    let lab = Lab::new(WRINGER);
    let file = |name: &str, text: &str| lab.write(name, text).to_str().unwrap().to_owned();
    lab.run(["stalls", "explain", &file("hosts", "127.0.0.1 localhost\n")]).expect_code(3).expect_said(&["no log"]);
    lab.run(["stalls", "explain", &file("empty", "")]).expect_code(3);
    lab.run(["stalls", "explain", "/no/such"]).expect_code(3);
    lab.run(["stalls", "explain", lab.home().to_str().unwrap()]).expect_code(3).expect_said(&["recording"]);
    let general = file("general.log", "261121 22:49:33\t     3 Query\tSELECT 1\n");
    lab.run(["stalls", "explain", &general]).expect_code(3).expect_said(&["general log"]);
    let cut = format!("torn \u{fffd}\n{}", &slow_log()[..slow_log().len() - 80]);
    let found = json(&lab.run(["stalls", "explain", &file("cut.log", &cut), "-o", "json"]).expect_code(0).stdout);
    assert_eq!(found["cost"]["entries"], 53);
    let skipped = found["skipped"].as_array().unwrap();
    assert_eq!(skipped[0]["offset"], 0);
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert_eq!(skipped[1]["offset"].as_u64().unwrap() + skipped[1]["bytes"].as_u64().unwrap(), cut.len() as u64);
}

#[test]
fn the_page_of_the_manual_and_the_script_that_it_names_are_there() {
    let lab = Lab::new(WRINGER);
    assert!(lab.run(["doc", "stalls-explain"]).expect_code(0).stdout.starts_with("# Stalls in a log"));
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/stalls/logs.sh").is_file());
}
