// SPDX-License-Identifier: Apache-2.0
//! Which server `sandbox deploy` takes where an installed one and a fetched one fit; and that a sandbox is one without its first database.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use testkit::{Lab, Ran};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// All of PostgreSQL that is looked at to find one. There is no `initdb`: a deployment ends when it has said which server it takes.
fn tree(folder: &Path, version: &str) {
    for (name, text) in [
        ("bin/postgres", format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")),
        ("share/postgres.bki", String::new()),
    ] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_installed_server_is_taken_and_a_newer_fetched_one_is_named() {
    let lab = Lab::new(WRINGER);
    let (installed, cache) = (lab.home().join("installed"), lab.home().join("own-cache"));
    // newer than what the machine itself may have
    tree(&installed, "15.998");
    let entry = cache.join("servers/postgresql-15.999");
    tree(&entry.join("tree"), "15.999");
    let record = r#"{"schema": 1, "flavour": "postgresql", "version": "15.999", "packages": [],
        "source": {"kind": "package", "name": "postgresql-15", "version": "15.999-1"}}"#;
    fs::write(entry.join("fetched.json"), record).unwrap();
    let path = format!("{}:{}", installed.join("bin").display(), std::env::var("PATH").unwrap());
    let deploy = |version: &str| {
        let mut command = lab.command(["sandbox", "deploy", "postgresql", version, "--name", "x"]);
        Ran::of(command.env("PATH", &path).env("WRINGER_CACHE", &cache)).stderr
    };
    let note = "note: postgresql 15.998 is installed here and taken; 15.999 is fetched, too";
    let said = deploy("15");
    assert!(said.contains(note), "{said}");
    for version in ["15.998", "15.999"] {
        let said = deploy(version);
        assert!(!said.contains("note:") && said.contains("initdb"), "{version}: {said}");
    }
}

/// People drop the database that a sandbox begins with: its server starts again, and can be talked to.
#[test]
fn a_sandbox_without_its_database_is_a_sandbox() {
    for flavour in ["mariadb", "postgresql"] {
        let lab = Lab::new(WRINGER);
        lab.run(["sandbox", "deploy", flavour, "--name", "s", "--start"]).expect_code(0);
        let elsewhere = match flavour {
            "postgresql" => "\\connect postgres\n",
            _ => "",
        };
        let sql = |statement: &str| lab.run(["sandbox", "use", "s", statement]).expect_code(0);
        sql(&format!("{elsewhere}DROP DATABASE sbtest"));
        lab.run(["sandbox", "restart", "s"]).expect_code(0).expect_said(&["started s:"]);
        sql("CREATE DATABASE sbtest");
        sql("CREATE TABLE pears (id int primary key)");
        lab.run(["sandbox", "delete", "s", "--force"]).expect_code(0);
    }
}
