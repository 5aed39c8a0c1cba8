// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: an experiment on a copy of somebody's own data. `fill.command`: on data that a program fills.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use testkit::{Lab, Ran};

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
    // what a dump has made is kept, until the dump is another one
    let cache = cache(&lab);
    let dump = lab.home().join("files/shop.sql");
    for (to, how) in [("first", "filled"), ("second", "cloned"), ("third", "filled")] {
        assert_eq!(data_of(&lab, &file, to, &cache), how, "{to}");
        ran_on_a_copy(&lab, to, "SQL dump of mariadb");
        if to == "second" {
            let text = fs::read(&dump).unwrap();
            fs::write(&dump, [&text[..], b"-- another one\n"].concat()).unwrap();
        }
    }
}

/// A cache of the lab's own, with the servers of all labs.
fn cache(lab: &Lab) -> PathBuf {
    let cache = lab.home().join("cache");
    fs::create_dir(&cache).unwrap();
    let servers = testkit::shared_cache(testkit::own_uid()).join("servers");
    std::os::unix::fs::symlink(servers, cache.join("servers")).unwrap();
    cache
}

/// Runs the experiment with this cache. Whether its data were filled or cloned.
fn data_of(lab: &Lab, file: &Path, to: &str, cache: &Path) -> String {
    let mut command = lab.command(["run", file.to_str().unwrap(), "--to", to]);
    let ran = Ran::of(command.env("WRINGER_CACHE", cache).env_remove("WRINGER_FILLS_LIMIT")).expect_code(0);
    let result = fs::read_to_string(lab.home().join(to).join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert!(result["arms"][0]["load"]["measured"]["transactions"].as_u64().unwrap() > 0, "{}", ran.stderr);
    result["conditions"]["data"]["how"].as_str().unwrap().to_owned()
}

#[test]
fn an_experiment_runs_on_a_copy_of_a_data_directory() {
    let lab = lab();
    lab.run(["sandbox", "deploy", "postgresql", "--name", "a", "--start"]).expect_code(0);
    let statements = "CREATE TABLE goods (id int PRIMARY KEY); INSERT INTO goods VALUES (1), (2), (3)";
    lab.run(["sandbox", "use", "a", statements]).expect_code(0);
    lab.run(["sandbox", "stop", "a"]).expect_code(0);
    let data = lab.home().join("sandboxes/a/data");
    let asked = |keep: &str| experiment("postgresql", &format!("from = \"{}\"\n{keep}", data.display()));
    let file = lab.write("files/own.toml", &asked("keep = true"));
    let cache = cache(&lab);
    // a copy is kept because the file asks for it, until the folder is another one
    for (to, how) in [("first", "filled"), ("second", "cloned"), ("third", "filled"), ("fourth", "filled")] {
        assert_eq!(data_of(&lab, &file, to, &cache), how, "{to}");
        ran_on_a_copy(&lab, to, "data directory of postgresql");
        let result = fs::read_to_string(lab.home().join(to).join("result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        // what keeps a copy from acting on the original's surroundings holds for a clone, too
        let variables = &result["conditions"]["server"]["variables"];
        assert_eq!(variables["max_logical_replication_workers"], "0", "{to}");
        assert_eq!(result["conditions"]["data"]["key"] == "", to == "fourth", "{to}");
        match to {
            "second" => {
                // the same bytes, written again: the times of the file are others
                let file = data.join("PG_VERSION");
                let bytes = fs::read(&file).unwrap();
                fs::write(&file, bytes).unwrap();
            }
            "third" => {
                lab.write("files/own.toml", &asked(""));
            }
            _ => {}
        }
    }
    lab.run(["sandbox", "use", "a", "SELECT 1"]).expect_code(3);
    // a wrong name changes nothing
    lab.run(["sandbox", "delete", "a", "nowhere"]).expect_code(3).expect_said(&["no sandbox named 'nowhere'"]);
    lab.run(["sandbox", "delete", "a", "a"]).expect_code(0);
}

fn runs_on_a_copy(lab: &Lab, file: &Path, what: &str) {
    lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(0);
    ran_on_a_copy(lab, "out", what);
}

fn ran_on_a_copy(lab: &Lab, to: &str, what: &str) {
    let evidence = recording::Recording::read(&lab.home().join(to).join("recording.sqlite")).unwrap();
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
    told("command = [\"./none.sh\"]", 3, &["fill.command", "none.sh is no program that can be executed"]);
    told("command = []", 2, &["fill.command names no program"]);
    told("command = [\"sh\", \"{password}\"]", 2, &["would show the password to everybody", "{password_file}"]);
}

fn script(lab: &Lab, text: &str) {
    let path = lab.write("files/fill.sh", &format!("#!/bin/sh\nset -e\n{text}"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

#[test]
fn a_program_fills_a_database_of_its_own() {
    if !on_path("mariadb") {
        testkit::skip!("no client `mariadb` is on this machine");
    }
    let lab = lab();
    let statements = "CREATE TABLE goods (id int PRIMARY KEY); INSERT INTO goods VALUES (1), (2), (3)";
    script(
        &lab,
        &format!(
            "echo \"to $3 with $(wc -l < \"$2\") line\"\nexec mariadb --socket=\"$1\" --user=\"$MYSQL_USER\" shop -e '{statements}'\n"
        ),
    );
    let fill = "database = \"shop\"\ncommand = [\"./fill.sh\", \"{socket}\", \"{password_file}\", \"{database}\"]";
    let file = lab.write("files/own.toml", &experiment("mariadb", fill));
    let plan = lab.run(["plan", file.to_str().unwrap()]).expect_code(0).stdout;
    assert!(plan.contains("run ./fill.sh to fill the server"), "{plan}");
    runs_on_a_copy(&lab, &file, "to shop with 1 line");
    // a second run of the same file has the rows without the program; an edited script fills anew
    let cache = cache(&lab);
    let run = |to: &str| data_of(&lab, &file, to, &cache);
    assert_eq!((run("first"), run("second")), ("filled".to_owned(), "cloned".to_owned()));
    // a plain client finds the sandbox, whatever the machine's option files say; and a file of a subfolder is part of the data
    script(&lab, "exec mariadb shop < sub/goods.sql\n");
    fs::create_dir(lab.home().join("files/sub")).unwrap();
    for (to, more) in [("third", ""), ("fourth", "; INSERT INTO goods VALUES (4)")] {
        lab.write("files/sub/goods.sql", &format!("{statements}{more};\n"));
        assert_eq!(run(to), "filled");
    }
}

#[test]
fn sysbench_itself_fills_both_servers() {
    if !on_path("sysbench") {
        testkit::skip!("no sysbench is on this machine");
    }
    let lab = lab();
    for flavour in ["mariadb", "postgresql"] {
        let command = "command = [\"sysbench\", \"--config-file={sysbench_config}\", \"oltp_read_only\", \"--tables={tables}\", \
                       \"--table-size=700\", \"prepare\"]";
        let text = experiment(flavour, &format!("tables = 2\n{command}")).replace("goods.toml", "oltp_point_select");
        let file = lab.write("files/own.toml", &text);
        lab.run(["run", file.to_str().unwrap(), "--to", flavour]).expect_code(0);
        let evidence = recording::Recording::read(&lab.home().join(flavour).join("recording.sqlite")).unwrap();
        let errors = evidence.arms.iter().map(|arm| arm.load.as_ref().unwrap().measured.errors.len()).sum::<usize>();
        assert_eq!((evidence.arms.len(), errors), (2, 0), "its tables are there, and as many as the load asks for");
        let said = |words: &str| evidence.events.iter().any(|event| event.text.contains(words));
        assert!(said("Inserting 700 records into 'sbtest2'"), "{:#?}", evidence.events);
    }
}

#[test]
fn a_program_that_fails_to_fill_ends_the_run_and_leaves_nothing() {
    let lab = lab();
    script(&lab, "echo 'what went wrong' >&2\nexit 7\n");
    let file = lab.write("files/own.toml", &experiment("mariadb", "command = [\"./fill.sh\"]"));
    let said = &["which was to fill the server, ended with exit code 7", "what went wrong", "WRINGER_DSN"];
    lab.run(["run", file.to_str().unwrap(), "--to", "out"]).expect_code(4).expect_said(said);
    let sandboxes = fs::read_dir(lab.home().join("sandboxes")).into_iter().flatten().flatten();
    let left: Vec<_> = sandboxes.map(|it| it.file_name()).filter(|it| !it.to_string_lossy().starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}
