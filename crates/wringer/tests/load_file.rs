// SPDX-License-Identifier: Apache-2.0
//! A workload that a file describes, on real servers of both families.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use testkit::{Lab, Ran};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const EXAMPLE: &str = include_str!("../../../experiments/workloads/shop.toml");

fn with_dsn(lab: &Lab, dsn: &str, words: &[&str]) -> Ran {
    Ran::of(lab.command(words).env("WRINGER_DSN", dsn))
}

/// The document shows the file that is delivered.
#[test]
fn the_documents_example_is_the_delivered_file() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workloads.md")).unwrap();
    let shown = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let delivered: String = EXAMPLE.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    assert_eq!(shown, delivered);
}

#[test]
fn the_example_runs_on_both_families_and_leaves_what_it_says() {
    for flavour in ["mariadb", "postgresql"] {
        let lab = Lab::new(WRINGER);
        let deployed = lab.run(["sandbox", "deploy", flavour, "--name", flavour, "--start"]);
        if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
            testkit::skip!("no {flavour} to be had");
        }
        deployed.expect_code(0);
        let dsn = lab.run(["sandbox", "export", flavour, "dsn"]).expect_code(0).stdout.trim().to_owned();
        let sql = |text: &str| lab.run(["sandbox", "use", flavour, text]).expect_code(0).stdout;
        lab.write("shop.toml", &EXAMPLE.replace("mean = \"20ms\"", "mean = \"1ms\"").replace("100ms", "1ms"));
        with_dsn(&lab, &dsn, &["fill", "--table-size=1000", "--create-secondary=off"]).expect_code(0);
        let flags = [
            "load",
            "shop.toml",
            "--table-size=1000",
            "--threads=4",
            "--events=400",
            "--time=0",
            "--rand-seed=5",
            "-o",
            "json",
        ];
        let said = json(&with_dsn(&lab, &dsn, &flags).expect_code(0));
        let (load, measured) = (&said["load"], &said["load"]["measured"]);
        assert_eq!((&load["workload"], &measured["transactions"]), (&"shop".into(), &400.into()), "{said:#}");
        assert!(
            measured["errors"]
                .as_object()
                .unwrap()
                .keys()
                .all(|code| ["1213", "1205", "40P01"].contains(&code.as_str())),
            "{said:#}"
        );
        assert!(said["workload_file"].as_str().unwrap().contains("[[transaction]]"));
        assert!(
            load["distribution"].as_str().unwrap().contains("customer zipfian (exp 0.9) from 1 to table_size"),
            "{load:#}"
        );
        // ten of eleven statements read; each sale has added one row, numbered without a gap
        let (reads, writes) = (measured["reads"].as_u64().unwrap(), measured["writes"].as_u64().unwrap());
        let sales = 400 - reads / 7;
        assert!(reads % 7 == 0 && writes >= 2 * sales && (15..75).contains(&sales), "{measured:#}");
        let rows = sql(
            "SELECT CONCAT('rows ', COUNT(*), ' from ', MIN(id), ' to ', MAX(id), ' web ', COUNT(CASE WHEN pad LIKE 'web%' THEN 1 END)) FROM sbtest1 WHERE id > 1000",
        );
        assert!(rows.contains(&format!("rows {sales} from 1001 to {} web {sales}", 1000 + sales)), "{rows} of {sales}");
        // the same seed shows the same first transaction as text, without a server
        let flags = ["load", "shop.toml", "--dsn", dsn.as_str(), "--table-size=1000", "--rand-seed=5"];
        let shown = lab.run([&flags[..], &["--dry-run=400"]].concat()).expect_code(0).stdout;
        assert_eq!(shown.matches("-- transaction ").count(), 400);
        let conflict = if flavour == "mariadb" { "INSERT IGNORE" } else { "ON CONFLICT DO NOTHING" };
        assert!(
            shown.contains(conflict)
                && shown.contains("BEGIN;\nUPDATE sbtest1 SET k = k + ")
                && shown.contains(", 'web')"),
            "{shown}"
        );
        let again = lab.run([&flags[..], &["--dry-run=400"]].concat()).expect_code(0).stdout;
        assert_eq!(again, shown);
        // what the server refuses while it prepares is told with the statement
        lab.write("other.toml", "schema = 1\n[[transaction]]\nstatements = [\"SELECT * FROM no_such_table\"]\n");
        with_dsn(&lab, &dsn, &["load", "other.toml", "--time=1"]).expect_code(3).expect_said(&["no_such_table"]);
        if flavour == "postgresql" {
            let text = "schema = 1\n[parameters]\nid = 3000000000\n[[transaction]]\nstatements = [\"SELECT c FROM sbtest1 WHERE id = :id\"]\n";
            lab.write("large.toml", text);
            let said = json(
                &with_dsn(&lab, &dsn, &["load", "large.toml", "--events=3", "--time=0", "-o", "json"]).expect_code(4),
            );
            assert_eq!(said["load"]["measured"]["errors"]["22P03"], 3, "{said:#}");
            // a number that is written as text is that number; another text is refused, and no number is made of it
            let of_text = |value: &str, code| {
                let statement =
                    "SELECT 1 / (CASE WHEN id = 2024 THEN 1 ELSE 0 END) FROM (SELECT 2024 AS id) AS t WHERE id = :id";
                let text = format!(
                    "schema = 1\n[parameters]\nid = \"{value}\"\n[[transaction]]\nstatements = [\"{statement}\"]\n"
                );
                lab.write("text.toml", &text);
                let flags = ["load", "text.toml", "--events=3", "--time=0", "-o", "json"];
                json(&with_dsn(&lab, &dsn, &flags).expect_code(code))["load"]["measured"].take()
            };
            assert_eq!(of_text("2024", 0)["reads_without_rows"], 0);
            assert_eq!(of_text("2025", 0)["reads_without_rows"], 3);
            assert_eq!(of_text("this", 4)["errors"]["22P03"], 3);
        }
        lab.run(["sandbox", "stop", flavour]).expect_code(0);
    }
}

/// The arm's own workload runs under its squeeze; the recording holds its text.
#[test]
fn an_experiment_runs_a_file_beside_it() {
    let (_alone, lab) = (testkit::alone(), Lab::new(WRINGER));
    std::fs::create_dir(lab.home().join("lab")).unwrap();
    let text = "schema = 1\nname = \"mine\"\n[parameters]\nid = { type = \"uniform\", min = 1, max = \"table_size\" }\n[[transaction]]\n\
                statements = [{ name = \"get\", sql = \"SELECT c FROM sbtest1 WHERE id = :id\" }]\n";
    let experiment = testkit::small_experiment("1s", "").replace("\"oltp_point_select\"", "\"mine.toml\"");
    let file = lab.write("lab/experiment.toml", &experiment);
    let file = file.to_str().unwrap();
    lab.run(["run", file, "--to", "out"]).expect_code(3).expect_said(&["lab/mine.toml"]);
    lab.write("lab/mine.toml", &text.replace(":id", ":di"));
    lab.run(["plan", file]).expect_code(2).expect_said(&["lab/mine.toml:6:", "did you mean \"id\"?"]);
    assert!(!lab.home().join("out").exists(), "nothing was made");
    lab.write("lab/mine.toml", text);
    lab.run(["run", file, "--to", "out"]).expect_code(0);
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(lab.home().join("out/result.json")).unwrap()).unwrap();
    let load = &result["arms"][0]["load"];
    assert_eq!(load["distribution"], "id uniform from 1 to table_size", "{load:#}");
    assert!(load["measured"]["statements"]["get"].is_object(), "{load:#}");
    assert!(load["measured"]["errors"].as_object().unwrap().is_empty(), "{load:#}");
    let recording = std::fs::read(lab.home().join("out/recording.sqlite")).unwrap();
    let has = |words: &str| recording.windows(words.len()).any(|window| window == words.as_bytes());
    assert!(has("file:mine.toml") && has("name = \"get\", sql = \"SELECT c FROM sbtest1 WHERE id = :id\""));
}

/// Two further loads beside the load of an arm: one at its own rate, one from a file. The other arm has none.
#[test]
fn further_loads_run_beside_the_load_of_an_arm() {
    let lab = Lab::new(WRINGER);
    lab.write("one.toml", "schema = 1\n[[transaction]]\nstatements = [\"SELECT 1\"]\n");
    let beside = "[{ name = \"reports\", workload = \"select_random_ranges\", threads = 2, rate = 40, arrivals = \"constant\" }, \
        { name = \"own\", workload = \"one.toml\" }]";
    let file = format!(
        "schema = 1\nname = \"beside\"\n[server]\nflavour = \"postgresql\"\n[fill]\nrows = 2000\n[load]\n\
         workload = \"oltp_point_select\"\nthreads = 2\nwarmup = \"500ms\"\ntime = \"2s\"\n[[arm]]\nname = \"alone\"\n\
         [[arm]]\nname = \"both\"\nload.beside = {beside}\n\
         assert = [\"beside.reports.throughput>10\", \"beside.own.throughput>10\", \"beside.reports.errors=0\", \"beside.own.p50<1s\", \
         \"beside.reports.throughput<50\"]\n"
    );
    lab.write("beside.experiment.toml", &file);
    let plan = lab.run(["plan", "beside.experiment.toml"]).expect_code(0).stdout;
    assert!(plan.contains("beside the load, reports sends select_random_ranges over 2 connections"), "{plan}");
    lab.run(["run", "beside.experiment.toml", "--to", "out"]).expect_code(0);
    let recording = recording::Recording::read(&lab.home().join("out/recording.sqlite")).unwrap();
    let of = |arm: &str| {
        let measured = recording.measured.iter().filter(|it| it.arm.as_deref() == Some(arm));
        measured.filter(|it| it.what.starts_with("beside.")).count()
    };
    assert_eq!((of("alone"), of("both")), (0, 12), "six figures of each load");
    let [alone, both] = &recording.arms[..] else { panic!("two arms") };
    assert!(alone.verdicts.is_empty() && both.verdicts.iter().all(|verdict| verdict.passed), "{:?}", both.verdicts);
    // what the arm's own load did is its own
    assert_eq!(both.load.as_ref().unwrap().connections, 2);
}

#[test]
fn a_wrong_file_is_told_with_its_lines_before_anything_is_reached() {
    let lab = Lab::new(WRINGER);
    lab.write("wrong.toml", "schema = 1\n[[transaction]]\nwieght = 2\nstatements = [\"SELECT :id\"]\n");
    let nowhere = ["--mysql-socket=/nowhere/there.sock", "--mysql-user=me"];
    let ran = lab.run([&["load", "wrong.toml"], &nowhere[..]].concat()).expect_code(2);
    ran.expect_said(&[
        "wrong.toml:3:1",
        "did you mean \"weight\"?",
        "wrong.toml:4:15",
        "no parameter \"id\"",
        "page `workloads`",
    ]);
    lab.run(["load", "missing.toml"]).expect_code(3).expect_said(&["read the workload missing.toml"]);
    lab.write("thinks.toml", "schema = 1\nthink = \"1ms\"\n[[transaction]]\nstatements = [\"SELECT 1\"]\n");
    let ran = lab.run([&["load", "thinks.toml", "--rate=10"], &nowhere[..]].concat()).expect_code(2);
    ran.expect_said(&["think between transactions", "remove --rate"]);
    let shown =
        lab.run([&["load", "oltp_point_select", "--dry-run=2", "-o", "json"], &nowhere[..]].concat()).expect_code(0);
    assert_eq!(json(&shown)["transactions"].as_array().unwrap().len(), 2);
}
