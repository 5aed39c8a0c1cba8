// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: an experiment on a copy of somebody's own data.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Reads goods by their key, in whatever database the connection is to.
const WORKLOAD: &str = r#"
schema = 1
[parameters]
id = { type = "uniform", min = 1, max = 3 }
[[transaction]]
statements = ["SELECT * FROM goods WHERE id = :id"]
"#;

fn experiment(flavour: &str, fill: &str) -> String {
    format!(
        "schema = 1\nname = \"own\"\n[server]\nflavour = \"{flavour}\"\n[fill]\n{fill}\n[load]\nworkload = \"goods.toml\"\n\
         time = \"1s\"\n[[arm]]\nname = \"one\"\n[[arm]]\nname = \"two\"\nload.threads = 2\n"
    )
}

fn lab() -> Lab {
    let lab = Lab::new(WRINGER);
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dumps/mariadb-10.11.sql");
    fs::create_dir(lab.home().join("files")).unwrap();
    fs::copy(dump, lab.home().join("files/shop.sql")).unwrap();
    lab.write("files/goods.toml", WORKLOAD);
    lab
}

#[test]
fn an_experiment_runs_on_a_copy_of_a_dump() {
    let lab = lab();
    let file = lab.write("files/own.toml", &experiment("mariadb", "from = \"shop.sql\""));
    let plan = lab.run(["plan", file.to_str().unwrap()]).expect_code(0).stdout;
    assert!(plan.contains("begin with a copy of shop.sql"), "{plan}");
    runs_on_a_copy(&lab, &file, "SQL dump of mariadb");
}

#[test]
fn an_experiment_runs_on_a_copy_of_a_data_directory() {
    let lab = lab();
    lab.run(["sandbox", "deploy", "postgresql", "--name", "a", "--start"]).expect_code(0);
    let statements = "CREATE TABLE goods (id int PRIMARY KEY); INSERT INTO goods VALUES (1), (2), (3)";
    lab.run(["sandbox", "use", "a", statements]).expect_code(0);
    lab.run(["sandbox", "stop", "a"]).expect_code(0);
    let from = format!("from = \"{}\"", lab.home().join("sandboxes/a/data").display());
    let file = lab.write("files/own.toml", &experiment("postgresql", &from));
    runs_on_a_copy(&lab, &file, "data directory of postgresql");
    lab.run(["sandbox", "use", "a", "SELECT 1"]).expect_code(3);
    lab.run(["sandbox", "delete", "a"]).expect_code(0);
}

fn runs_on_a_copy(lab: &Lab, file: &Path, what: &str) {
    lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(0);
    let evidence = recording::Recording::read(&lab.home().join("out/recording.sqlite")).unwrap();
    for arm in &evidence.arms {
        let measured = &arm.load.as_ref().unwrap().measured;
        assert!(measured.transactions > 0 && measured.errors.is_empty(), "{}: {:?}", arm.name, measured.errors);
    }
    assert!(evidence.events.iter().any(|event| event.text.contains(what)), "{:?}", evidence.events);
}

#[test]
fn what_cannot_be_is_told_before_anything_starts() {
    let lab = lab();
    let told = |fill: &str, code: i32, words: &[&str]| {
        let file = lab.write("files/own.toml", &experiment("mariadb", fill));
        for command in ["plan", "run"] {
            lab.run([command, file.to_str().unwrap()]).expect_code(code).expect_said(words);
        }
    };
    told("from = \"none.sql\"", 3, &["none.sql"]);
    told("from = \"shop.sql\"\nrows_per_page = 4", 2, &["rows_per_page", "nothing is filled"]);
    told("tables = 2", 2, &["from = "]);
}
