// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls explain` on the real program: what it reads, what it refuses, and how it ends.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a test makes its own files

use evidence::{
    Arm, Arrivals, Conditions, Latencies, LatencyHistogram, LoadResult, Phase, SLOW_STATEMENT, Span, Witness,
};
use recording::{Recording, Start};
use serde_json::Value;
use std::path::{Path, PathBuf};
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
    lab.run(["stalls", "explain", file, "--fail-on-stall", "300ms", "--at-least", "400ms"]).expect_code(2);
    lab.run(["stalls", "watch", "--pid", "1", "--fail-on-stall", "10ms"]).expect_code(2).expect_said(&["50 ms"]);
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

/// What a user meets at first: nothing was slow yet, the file is still packed, the flag is of another server.
#[test]
fn a_log_that_says_nothing_is_told_from_one_that_is_not_known() {
    let lab = Lab::new(WRINGER);
    let explain = |name: &str, bytes: &[u8]| {
        let file = lab.home().join(name);
        std::fs::write(&file, bytes).unwrap();
        lab.run(["stalls", "explain", file.to_str().unwrap()])
    };
    let header = b"/usr/sbin/mysqld, Version: 8.0.29-21 (Percona Server (GPL)). started with:\nTcp port: 3306  Unix socket: /s\n\
        Time                 Id Command    Argument\n";
    let new = explain("new.log", header).expect_code(0);
    assert!(new.stdout.contains("0 entries") && new.stdout.contains("No stall"), "{}", new.stdout);
    let german = b"2026-11-27 01:04:38.468 UTC [7] LOG:  Dauer: 807.433 ms  Anweisung: select 1\n";
    let german = explain("german.log", german);
    let shown = german.expect_code(0).stdout;
    assert!(shown.contains("Nothing could be judged") && !shown.contains("No stall"), "{shown}");
    explain("empty.log", b"").expect_code(3).expect_said(&["is empty", "long_query_time"]);
    explain("slow.log.1.gz", b"\x1f\x8b\x08\x00more").expect_code(3).expect_said(&["is compressed", "zcat "]);
    let log = lab.write("slow.log", &slow_log());
    lab.run(["stalls", "explain", log.to_str().unwrap(), "--server", "postgresql@15", "--wait-free", "3"])
        .expect_code(2)
        .expect_said(&["PostgreSQL does not have it"]);
}

/// Lines between entries belong to no statement, whatever their bytes; entries that two writers wrote into each other are damaged alone.
#[test]
fn garbage_between_entries_is_left_out_and_changes_no_class() {
    let lab = Lab::new(WRINGER);
    let log = slow_log();
    let clean = lab.write("clean.log", &log);
    let explained =
        |path: &Path| json(&lab.run(["stalls", "explain", path.to_str().unwrap(), "-o", "json"]).expect_code(0).stdout);
    let clean = explained(&clean);
    let entries: Vec<&str> = log.split_inclusive(";\n").collect();
    let mut damaged = Vec::new();
    for (number, part) in entries.iter().enumerate() {
        damaged.extend_from_slice(part.as_bytes());
        // behind each statement
        if number % 2 == 1 {
            damaged.extend_from_slice(b"\xff\xfe garbage of another writer\n\x00\x80\n");
        }
    }
    let torn = b"# Time: 2022-11-30T01:40:00.000000Z\n# User@Host: me[me] @ localhost []  Id:    9\n# Query_time: 0.1# Query_time: 0.3\n\
                 SET timestamp=1669772141;\nSELECT 1;\nSELECT 2;\n";
    damaged.extend_from_slice(torn);
    let path = lab.home().join("damaged.log");
    std::fs::write(&path, &damaged).unwrap();
    let found = explained(&path);
    for key in ["stalls", "account", "classes"] {
        assert_eq!(found[key], clean[key], "{key}: {found:#}");
    }
    assert_eq!(found["cost"]["entries"], 54);
    let skipped = found["skipped"].as_array().unwrap();
    let bytes: u64 = skipped.iter().map(|it| it["bytes"].as_u64().unwrap()).sum();
    // the time of the torn entry is no part of it
    assert_eq!(bytes, (damaged.len() - log.len()) as u64 - 36, "{skipped:#?}");
    assert!(skipped.iter().any(|it| it["why"] == "a line after the end of a statement"), "{skipped:#?}");
}

#[test]
fn the_page_of_the_manual_and_the_script_that_it_names_are_there() {
    let lab = Lab::new(WRINGER);
    assert!(lab.run(["doc", "stalls-explain"]).expect_code(0).stdout.starts_with("# Stalls in a log"));
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/stalls/logs.sh").is_file());
}

/// Two arms of one recording. In each, four connections wait for a second each after 0.4 s of quick statements; under `backoff` the counter
/// rose by as much as such waits take.
fn recording(lab: &Lab, keeps_slow: bool) -> PathBuf {
    let path = lab.home().join("recording.sqlite");
    let start = Start {
        run_id: "w-20261123-120000-0001".to_owned(),
        started: "2026-11-23T12:00:00.000000Z".to_owned(),
        ..Start::default()
    };
    let recording = Recording::create(&path, &start).unwrap();
    let server = evidence::Server {
        flavour: "mariadb".to_owned(),
        version: "10.1.23-MariaDB".to_owned(),
        ..evidence::Server::default()
    };
    recording.conditions(&Conditions { server, ..Conditions::default() }).unwrap();
    for (position, (name, algorithm)) in (0..).zip([("first", "backoff"), ("second", "legacy")]) {
        let (began_us, ended_us) = (1_000_000, 3_000_000);
        let mut latencies = Latencies::default();
        latencies.service.record_n(80_000, 5000);
        latencies.service.record_n(336_440_000, 4);
        let measured = Phase {
            started_us: began_us,
            elapsed_us: ended_us - began_us,
            statements: [("point_select".to_owned(), latencies)].into(),
            ..Phase::default()
        };
        let load = LoadResult {
            workload: "oltp_point_select".to_owned(),
            driver: "mysql".to_owned(),
            connections: 4,
            workers: 1,
            arrivals: Arrivals::Closed,
            seed: 1,
            distribution: "uniform".to_owned(),
            prepared_statements: true,
            connect: LatencyHistogram::new(),
            warmup: None,
            measured,
        };
        let counter = |before, after| Witness {
            of: "server".to_owned(),
            counter: "Innodb_buffer_pool_wait_free".to_owned(),
            before,
            after,
        };
        let arm = Arm {
            settings: [("server.options.innodb_empty_free_list_algorithm".to_owned(), algorithm.to_owned())].into(),
            load: Some(load),
            witnesses: vec![if position == 0 { counter(10, 10 + 4 * 62) } else { counter(258, 258) }],
            ended_us,
            ..Arm::begun(name, began_us)
        };
        recording.arm(position, &arm).unwrap();
        let span = |kind: &str, from_us, to_us, told: &[(&str, &str)]| Span {
            from_us,
            to_us,
            kind: kind.to_owned(),
            entity: name.to_owned(),
            attributes: told.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        let kept: &[(&str, &str)] =
            if keeps_slow { &[("slow_threshold_us", "20000"), ("slow_dropped", "2")] } else { &[] };
        recording.span(&span("load.measured", began_us, ended_us, kept)).unwrap();
        for connection in ["1", "2", "3", "4"].into_iter().filter(|_| keeps_slow) {
            let told = [("connection", connection), ("class", "point_select")];
            recording.span(&span(SLOW_STATEMENT, 1_400_000, 1_736_440, &told)).unwrap();
        }
    }
    recording.finish(3_100_000).unwrap();
    path
}

#[test]
fn a_recording_is_explained_arm_by_arm() {
    let lab = Lab::new(WRINGER);
    recording(&lab, true);
    let folder = lab.home().to_str().unwrap();
    let found = json(&lab.run(["stalls", "explain", folder, "-o", "json"]).expect_code(0).stdout);
    let [backoff, legacy] = &found["arms"].as_array().unwrap()[..] else { panic!("{found:#}") };
    let stall = &backoff["stalls"][0];
    assert_eq!(
        (&backoff["arm"], &stall["cause"], &stall["victim_count"]),
        (&"first".into(), &"free_list_backoff".into(), &4.into())
    );
    assert_eq!(stall["started_us"], 1_795_435_201_400_000_u64, "400 ms after the load's begin, by the calendar");
    // a bucket of the histogram is a thousandth wide
    assert_eq!(stall["lost_query_us"].as_u64().unwrap().div_ceil(4000), (336_440_u64 - 80).div_ceil(1000), "{stall:#}");
    let account = &backoff["account"];
    assert_eq!(account["attributed_query_us"], account["lost_query_us"]);
    assert_eq!((&account["wait_free"], &account["wait_free_by_stalls"]), (&248.into(), &252.into()));
    assert!(backoff["notes"][0].as_str().unwrap().starts_with("2 slow statements found no room"));
    assert_eq!((&legacy["stalls"][0]["cause"], &legacy["stalls"][0]["victim_count"]), (&"unknown".into(), &4.into()));

    let shown = lab.run(["stalls", "explain", folder, "--fail-on-stall", "300ms"]).expect_code(1).stdout;
    for words in ["first: ", "second: ", "2026-11-23 12:00:01.400", "free_list_backoff", "rose by 248"] {
        assert!(shown.contains(words), "{words} is not in\n{shown}");
    }
}

#[test]
fn findings_and_report_have_the_stalls_of_a_recording() {
    let lab = Lab::new(WRINGER);
    recording(&lab, true);
    let folder = lab.home().to_str().unwrap();
    let found = json(&lab.run(["explain", folder, "-o", "json"]).expect_code(0).stdout);
    let of = |id: &str| {
        let all = found["findings"].as_array().unwrap().iter();
        all.filter(|finding| finding["id"] == id && finding["arm"] == "first").collect::<Vec<_>>()
    };
    let [events] = of("stalls.events")[..] else { panic!("{found:#}") };
    assert_eq!(events["statement"], "1 stall of up to 336.4 ms hit 4 statements.");
    assert_eq!(events["evidence"]["events"][0]["from_us"], 1_400_000, "by the run's clock");
    assert_eq!(events["doubts"][0]["id"], "stalls.incomplete");
    let [account] = of("stalls.account")[..] else { panic!("{found:#}") };
    // of four connections for two seconds
    let share = account["evidence"]["share"].as_f64().unwrap();
    assert!((share - 4.0 * 0.336_36 / 8.0).abs() < 0.001, "{share}");
    assert_eq!(account["evidence"]["by_cause"]["free_list_backoff"], account["evidence"]["lost_query_us"]);

    let page = lab.run(["report", folder, "--to", "-"]).expect_code(0).stdout;
    let section = page.split_once("<section id=\"stalls\">").unwrap().1.split_once("</section>").unwrap().0;
    for words in [
        "<b>first</b>: 1 stall, 1.35 s of query time lost",
        "class=\"known\" x=\"200.0\" y=\"0.0\" width=\"168.2\"",
        "class=\"unknown\"",
    ] {
        assert!(section.contains(words), "{words} is not in\n{section}");
    }
}

#[test]
fn a_recording_without_slow_statements_says_how_they_are_kept() {
    let lab = Lab::new(WRINGER);
    let path = recording(&lab, false);
    let refused = lab.run(["stalls", "explain", path.to_str().unwrap()]).expect_code(3);
    refused.expect_said(&["no slow statements", "load.slow_statements = \"20ms\""]);
}
