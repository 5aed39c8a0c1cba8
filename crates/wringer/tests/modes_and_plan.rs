// SPDX-License-Identifier: Apache-2.0
//! `wringer modes` and `wringer plan` on the real program: what they print, and that they leave nothing behind.
#![allow(clippy::unwrap_used)] // a test

use serde_json::Value;
use std::path::{Path, PathBuf};
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn modes_names_ram_one_read_and_two_reads() {
    let lab = Lab::new(WRINGER);
    let file = text(repository("fixtures/modes/point-select-10ms.csv"));
    let shown = lab.run(["modes", &file, "--delay", "10ms"]).expect_code(0).stdout;
    for line in ["65.42 %", "no read", "26.71 %", "1 read", "7.87 %", "2 reads", "0.4246 reads a query"] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    // each hump's bars have its letter
    assert!(shown.contains("|AAA") && shown.contains("|BBB") && shown.contains("|CCC"), "{shown}");
    let json = lab.run(["modes", &file, "--delay", "10ms", "-o", "json"]).expect_code(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let reads: Vec<_> =
        json["histograms"][0]["modes"].as_array().unwrap().iter().map(|mode| mode["reads"].clone()).collect();
    assert_eq!(reads, [0.0, 1.0, 2.0]);
}

#[test]
fn modes_of_several_runs_are_added_up_and_come_as_a_table() {
    let lab = Lab::new(WRINGER);
    let file = text(repository("fixtures/modes/point-select-10ms.csv"));
    let count = |files: &[&str]| {
        let json = lab.run(["modes", "-o", "json"].iter().chain(files)).expect_code(0).stdout;
        serde_json::from_str::<Value>(&json).unwrap()["histograms"][0]["count"].as_u64().unwrap()
    };
    let one = count(&[&file]);
    assert_eq!(count(&[&file, &file, &file]), 3 * one);
    let csv = lab.run(["modes", "-o", "csv", "--delay", "10ms", &file]).expect_code(0).stdout;
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("histogram,low_us,high_us,count,cumulative_share,hump"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.iter().map(|row| row[3].parse::<u64>().unwrap()).sum::<u64>(), one);
    assert_eq!(rows.last().unwrap()[4], "1.000000");
    let counted =
        |hump: &str| rows.iter().filter(|row| row[5] == hump).map(|row| row[3].parse::<u64>().unwrap()).sum::<u64>();
    let share = |hump| counted(hump) as f64 / one as f64;
    for (hump, expected) in [("A", 0.6542), ("B", 0.2671), ("C", 0.0787)] {
        assert!((share(hump) - expected).abs() < 0.0002, "{hump}: {}", share(hump));
    }
}

#[test]
fn modes_without_a_delay_says_that_it_cannot_tell_reads() {
    let lab = Lab::new(WRINGER);
    let file = text(repository("fixtures/modes/point-select-no-delay.csv"));
    let shown = lab.run(["modes", &file]).expect_code(0).stdout;
    assert!(shown.contains("reads unknown") && shown.contains("no delay was in force"), "{shown}");
}

#[test]
fn modes_of_what_is_no_histogram_is_usage() {
    let lab = Lab::new(WRINGER);
    let file = text(lab.write("prose.txt", "nothing to count here\n"));
    lab.run(["modes", &file]).expect_code(2).expect_said(&["no histogram found", "hint:"]);
    lab.run(["modes", "nowhere.csv"]).expect_code(3).expect_said(&["nowhere.csv"]);
}

/// Everything below a folder.
fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(listing(&entry.path()));
        }
    }
    found
}

#[test]
fn plan_prints_each_change_with_its_undo_and_leaves_nothing() {
    let lab = Lab::new(WRINGER);
    let before = listing(lab.home());
    let file = text(repository("experiments/quick.toml"));
    let plan = lab.run(["plan", &file, "-o", "json"]);
    assert_eq!(listing(lab.home()), before);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    assert!(steps.len() > 10, "{steps:#?}");
    for step in steps {
        assert_eq!(step["change"].is_null(), step["undo"].is_null(), "{step:#}");
    }
}

/// An installed server goes before a fetched one; the plan names the one that the run would take.
#[test]
fn plan_says_where_the_server_comes_from() {
    let lab = Lab::new(WRINGER);
    for flavour in ["mariadb", "postgresql"] {
        let file = lab.write(
            "source.toml",
            &format!(
                "schema = 1\nname = \"source\"\n[server]\nflavour = \"{flavour}\"\n[fill]\nsize = \"64M\"\n[load]\n\
                 workload = \"oltp_point_select\"\ntime = \"5s\"\n[[arm]]\nname = \"one\"\n"
            ),
        );
        let plan = || lab.run(["plan", file.to_str().unwrap()]).stdout;
        let available = lab.run(["sandbox", "available", "-o", "json"]).stdout;
        let available: Value = serde_json::from_str(&available).unwrap();
        let of_flavour = |from: &str| {
            let servers = available["servers"].as_array().unwrap().iter();
            servers.clone().find(|it| it["flavour"] == flavour && it["from"] == from).cloned()
        };
        match (of_flavour("installed"), of_flavour("fetched")) {
            (Some(server), _) => {
                let named = format!("installed: {}, version ", server["place"].as_str().unwrap());
                assert!(plan().contains(&named), "{named} is not in\n{}", plan());
            }
            (None, Some(_)) => assert!(plan().contains("fetched earlier (distribution package "), "{}", plan()),
            (None, None) => {
                assert!(plan().contains("fetch it with") || plan().contains("package client"), "{}", plan())
            }
        }
    }
}

#[test]
fn an_ordinary_user_plans_without_the_hidden_ram_and_is_told() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let experiment = std::fs::read_to_string(repository("experiments/one-read-or-two.toml")).unwrap();
    let plan = lab.run(["plan", &text(lab.write("one.toml", &experiment))]);
    assert!(plan.stdout.contains("as an ordinary user"), "{plan:?}");
    assert!(plan.stdout.contains("left out: squeeze.ram") && plan.stdout.contains("O_DIRECT"), "{plan:?}");
    assert!(!plan.stdout.contains("hide about"), "{plan:?}");
}

#[test]
fn what_exceeds_this_host_is_refused_with_its_line() {
    let lab = Lab::new(WRINGER);
    let experiment = std::fs::read_to_string(repository("experiments/quick.toml")).unwrap();
    let file = text(lab.write("huge.toml", &experiment.replace("[squeeze]", "[squeeze]\nserver_ram = \"900T\"")));
    let line = experiment.lines().position(|line| line == "[squeeze]").unwrap() + 2;
    lab.run(["plan", &file]).expect_code(3).expect_said(&["limits nothing", &format!(":{line}:")]);
}

/// What would refuse to hide the RAM in the middle of a run refuses before it begins.
#[test]
#[allow(clippy::disallowed_methods)] // somebody else, who is the host here
fn pages_that_somebody_may_count_on_are_seen_before_a_run_begins() {
    const POOL: &str = "/proc/sys/vm/nr_hugepages";
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (testkit::alone(), Lab::new(WRINGER));
    let file = lab.write("small.toml", &testkit::small_experiment("1s", "ram = { hide = \"64M\" }"));
    std::fs::write(POOL, "4").unwrap();
    let ran = ["plan", "run"].map(|command| lab.run([command, file.to_str().unwrap()]));
    std::fs::write(POOL, "0").unwrap();
    for ran in ran {
        ran.expect_code(3).expect_said(&["4 huge pages of a pool are free", "vm.nr_hugepages"]);
    }
    assert_eq!(listing(lab.home()).len(), 1, "only the experiment file: {:?}", listing(lab.home()));
}
