// SPDX-License-Identifier: Apache-2.0
//! `wringer load` against real servers, beside the real sysbench.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use std::process::Command;
use testkit::{Lab, Ran};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A server of this flavour that stands, and its connection string; `None` where there is none to be had.
fn serving(lab: &Lab, flavour: &str) -> Option<String> {
    let deployed = lab.run(["sandbox", "deploy", flavour, "--name", flavour, "--start"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        return None;
    }
    deployed.expect_code(0);
    Some(lab.run(["sandbox", "export", flavour, "dsn"]).expect_code(0).stdout.trim().to_owned())
}

macro_rules! serving {
    ($lab:expr, $flavour:expr) => {
        match serving($lab, $flavour) {
            Some(dsn) => dsn,
            None => testkit::skip!("no {} to be had", $flavour),
        }
    };
}

fn load(lab: &Lab, dsn: &str, flags: &[&str]) -> Ran {
    Ran::of(lab.command([&["load"], flags].concat()).env("WRINGER_DSN", dsn))
}

#[test]
fn bulk_insert_makes_its_tables_and_leaves_others_alone() {
    for flavour in ["mariadb", "postgresql"] {
        let lab = Lab::new(WRINGER);
        let dsn = serving!(&lab, flavour);
        let flags = ["bulk_insert", "--threads=2", "--events=20", "--time=0", "-o", "json"];
        for _ in 0..2 {
            let said = json(&load(&lab, &dsn, &flags).expect_code(0));
            let measured = &said["load"]["measured"];
            assert_eq!(measured["transactions"], 20, "{flavour}: {said:#}");
            assert!(measured["errors"].as_object().unwrap().is_empty(), "{flavour}: {said:#}");
        }
        let sql = |text: &str| lab.run(["sandbox", "use", flavour, text]).expect_code(0).stdout;
        assert!(
            sql("SELECT count(*) FROM (SELECT id FROM sbtest1 UNION ALL SELECT id FROM sbtest2) t").contains("10000")
        );
        sql("DROP TABLE sbtest2");
        sql("CREATE TABLE sbtest2 (id INTEGER PRIMARY KEY, treasure INTEGER)");
        sql("INSERT INTO sbtest2 VALUES (1, 4711)");
        load(&lab, &dsn, &flags).expect_code(3).expect_said(&["sbtest2", "id, treasure", "another database"]);
        assert!(sql("SELECT treasure FROM sbtest2").contains("4711"));
        assert!(sql("SELECT count(*) FROM sbtest1").contains("00"), "its rows are there");
        lab.run(["sandbox", "stop", flavour]).expect_code(0);
    }
}

/// The lines `read:` to `total:` of a summary in sysbench's shape.
fn queries(summary: &str) -> Vec<u64> {
    let figure = |name: &str| summary.lines().find_map(|line| line.trim().strip_prefix(name));
    let parse = |name| figure(name).unwrap_or_else(|| panic!("no {name} in {summary}")).trim().parse().unwrap();
    ["read:", "write:", "other:", "total:"].map(parse).to_vec()
}

/// Half of the rows that are written to are not there.
#[test]
fn writes_that_change_nothing_count_as_with_sysbench() {
    let lab = Lab::new(WRINGER);
    let dsn = serving!(&lab, "mariadb");
    let Some(sysbench) = host::tool::find("sysbench") else { testkit::skip!("needs sysbench") };
    let connection = json(&lab.run(["sandbox", "status", "mariadb", "-o", "json"]).expect_code(0));
    let socket = connection["sandboxes"][0]["socket"].as_str().unwrap().to_owned();
    let password = dsn.split(['@', ':']).nth(2).unwrap();
    let fill = ["fill", "--tables=1", "--table-size=500"];
    Ran::of(lab.command(fill).env("WRINGER_DSN", &dsn)).expect_code(0);
    let of_sysbench = |workload: &str| {
        let flags = [
            workload.to_owned(),
            "--db-driver=mysql".into(),
            format!("--mysql-socket={socket}"),
            "--mysql-user=wringer".into(),
            format!("--mysql-password={password}"),
            "--table-size=1000".into(),
            "--rand-type=uniform".into(),
            "--events=400".into(),
            "--time=0".into(),
            "run".into(),
        ];
        queries(&String::from_utf8(Command::new(&sysbench).args(flags).output().unwrap().stdout).unwrap())
    };
    let flags = ["--table-size=1000", "--events=400", "--time=0", "-o", "sysbench"];
    let of_wringer = |workload| queries(&load(&lab, &dsn, &[&[workload], &flags[..]].concat()).expect_code(0).stdout);
    for workload in ["oltp_update_index", "oltp_update_non_index"] {
        let (theirs, ours) = (of_sysbench(workload), of_wringer(workload));
        assert_eq!((ours[0], ours[3]), (theirs[0], theirs[3]), "{workload}: {ours:?} {theirs:?}");
        for figures in [&theirs, &ours] {
            assert!((120..280).contains(&figures[1]), "{workload}: {ours:?} {theirs:?}");
            assert_eq!(figures[1] + figures[2], 400, "{workload}: {ours:?} {theirs:?}");
        }
    }
    lab.run(["sandbox", "stop", "mariadb"]).expect_code(0);
}

#[test]
fn assertions_decide_the_exit_code() {
    let lab = Lab::new(WRINGER);
    for (wrong, why) in [("p99<20", "has no unit"), ("speed>3", "none of the figures"), ("nonsense", "no <, <=")] {
        let said = lab.run(["load", "oltp_point_select", "--assert", wrong]);
        said.expect_code(2).expect_said(&[why, "[CLASS | connect] [response | service] FIGURE RELATION VALUE"]);
    }
    let dsn = serving!(&lab, "mariadb");
    lab.run(["fill", "--table-size=1000", "--sandbox", "mariadb"]).expect_code(0);
    lab.run(["load", "oltp_point_select", "--events=1", "--rand-type=special", "--sandbox=mariadb"]).expect_code(0);
    lab.run(["load", "oltp_point_select", "--sandbox=none"]).expect_code(3);
    let flags =
        ["oltp_read_only", "--table-size=1000", "--events=100", "--time=0", "--threads=2", "--assert", "errors=0"];
    let with = |more: &[&str]| load(&lab, &dsn, &[&flags[..], more].concat());
    let met =
        ["--assert=p99<1h", "--assert=point_select service p99.99<1h", "--assert=connect max<1h", "--assert=qps>0"];
    let said = with(&met).expect_code(0).expect_said(&["no --rand-type was given, so keys are drawn uniformly"]).stdout;
    assert_eq!(said.lines().filter(|line| line.starts_with("  met ")).count(), 5, "{said}");
    with(&["--assert=max<1ns", "-o", "sysbench"]).expect_code(1).expect_said(&[
        "  FAILED  max<1ns",
        "  met     errors=0",
        "1 of 2 assertions failed: max<1ns: measured",
    ]);
    let failed = with(&["--assert=queries/s>1000000000", "-o", "json"]);
    let verdicts = json(&failed.expect_code(1))["assertions"].clone();
    assert_eq!((&verdicts[0]["passed"], &verdicts[0]["measured"]), (&true.into(), &0.0.into()));
    assert!(verdicts[1]["measured_per_second"].as_f64().unwrap() > 0.0 && verdicts[1]["passed"] == false, "{verdicts}");
    // every statement fails: that is no load
    for sql in ["CREATE DATABASE other", "CREATE TABLE other.sbtest1 (id INTEGER PRIMARY KEY)"] {
        lab.run(["sandbox", "use", "mariadb", sql]).expect_code(0);
    }
    let other = dsn.replace("/sbtest", "/other");
    let textual = ["oltp_point_select", "--events=10", "--time=0", "--db-ps-mode=disable"];
    let ran = load(&lab, &other, &textual).expect_code(4);
    let ran = ran.expect_said(&["no transaction was completed; 10 x 1054: Unknown column 'c'", "hint: "]);
    assert!(ran.stdout.contains("\n  1054: Unknown column 'c'"), "{}", ran.stdout);
    let refused = load(&lab, &dsn, &["oltp_point_select", "--mysql-ssl=verify-ca"]).expect_code(2);
    refused.expect_said(&[
        "the server's certificate cannot be checked: no file with CA certificates was named",
        "--mysql-ssl-ca",
    ]);
    with(&["--assert=point_selects p99<1s"]).expect_code(2).expect_said(&[
        "'point_selects'",
        "begin, commit",
        "point_select",
    ]);

    with(&["--assert=skipped=0"]).expect_code(2).expect_said(&["without --rate nothing is skipped"]);
    // keys that no row has: all is quick, and finds nothing
    let said = load(&lab, &dsn, &["oltp_point_select", "--table-size=100000000", "--events=100", "--time=0"]);
    let said = said.expect_code(0).stdout;
    assert!(said.contains("of 100 reads found no row") && said.contains("as many rows as the load asks for"), "{said}");

    let series = ["oltp_point_select", "--table-size=1000", "--events=40", "--time=0", "--threads=1,4,20"];
    let said = load(&lab, &dsn, &series).expect_code(0).stdout;
    let table: Vec<&str> = said.lines().rev().take(4).collect();
    assert!(table[3].trim_start().starts_with("connections  transactions/s"), "{said}");
    let firsts: Vec<_> = table.iter().rev().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(firsts, ["1", "4", "20"], "{said}");
    let said = json(&load(&lab, &dsn, &[&series[..], &["-o", "json", "--assert=errors=0"]].concat()).expect_code(0));
    let runs = said["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["load"]["connections"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4, 20]);
    assert!(
        runs.iter().all(|run| run["load"]["measured"]["transactions"] == 40 && run["assertions"][0]["passed"] == true)
    );
    lab.run(["sandbox", "stop", "mariadb"]).expect_code(0);
}

/// PostgreSQL ends the connection of a client that thinks for too long within its transaction. No transaction comes to its end.
fn hangs_up(lab: &Lab, flavour: &str, dsn: &str) {
    let thinks = "schema = 1\n[[transaction]]\nbegin = true\nstatements = [\"SELECT 1\", { sql = \"SELECT 2\", think = \"9s\" }]\n";
    lab.write("thinks.toml", thinks);
    let limit = "ALTER ROLE wringer SET idle_in_transaction_session_timeout = '50ms'";
    lab.run(["sandbox", "use", flavour, limit]).expect_code(0);
    let ran = load(lab, dsn, &["thinks.toml", "--events=2", "--time=0", "-o", "json"]).expect_code(4);
    let ran = ran.expect_said(&[
        "no transaction was completed; 2 x 25P03: terminating connection due to idle-in-transaction timeout",
    ]);
    let measured = &json(&ran)["load"]["measured"];
    assert_eq!(measured["errors"], serde_json::json!({ "25P03": 2 }), "once for each connection that broke");
    assert_eq!(measured["error_messages"]["25P03"], "terminating connection due to idle-in-transaction timeout");
}

/// Before anything is sent, and with the word for what to set.
#[test]
fn more_connections_than_can_be_had_are_refused_beforehand() {
    let wide = ["oltp_point_select", "--threads=1,700", "--time=1"];
    for flavour in ["mariadb", "postgresql"] {
        let lab = Lab::new(WRINGER);
        let dsn = serving!(&lab, flavour);
        let refused = load(&lab, &dsn, &wide).expect_code(3).expect_said(&[
            "the load wants 700 connections, but the server allows ",
            "max_connections",
            "hint:",
        ]);
        assert!(refused.stdout.is_empty(), "nothing was run: {}", refused.stdout);
        if flavour == "mariadb" {
            lab.run(["sandbox", "use", flavour, "SET GLOBAL max_prepared_stmt_count = 19"]).expect_code(0);
            // five kinds of SELECT on each of two tables
            load(&lab, &dsn, &["oltp_read_only", "--tables=2", "--threads=1,2", "--time=1"])
                .expect_code(3)
                .expect_said(&["2 connections prepare 20 statements", "max_prepared_stmt_count is 19", "--db-ps-mode"]);
        } else {
            hangs_up(&lab, flavour, &dsn);
        }
        lab.run(["sandbox", "stop", flavour]).expect_code(0);
    }
    // the limit of this process goes first: no server is needed
    let lab = Lab::new(WRINGER);
    let limited = format!("ulimit -n 256; exec {WRINGER} load {}", wide.join(" "));
    Ran::of(Command::new("sh").args(["-c", &limited]).env("WRINGER_HOME", lab.home())).expect_code(3).expect_said(&[
        "700 connections need",
        "this process may have 256",
        "ulimit -Hn",
    ]);
}
