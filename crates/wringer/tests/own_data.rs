// SPDX-License-Identifier: Apache-2.0
//! Sandboxes from data that somebody has: made by a real server, taken away from it, and read again by another sandbox.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use testkit::{Lab, own_uid, shared_cache, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// The first column of the first row, as the sandbox's own account sees it.
fn ask(lab: &Lab, name: &str, sql: &str) -> Value {
    let answer = lab.run(["sandbox", "use", name, sql, "-o", "json"]).expect_code(0).stdout;
    serde_json::from_str::<Value>(&answer).unwrap()["rows"][0][0].clone()
}

fn tell(lab: &Lab, name: &str, statements: &[&str]) {
    for statement in statements {
        lab.run(["sandbox", "use", name, statement]).expect_code(0);
    }
}

/// What a replica says in the end.
fn comes_to(lab: &Lab, name: &str, sql: &str, wanted: &str) {
    let has_come = || {
        let ran = lab.run(["sandbox", "use", name, sql, "-o", "json"]);
        serde_json::from_str::<Value>(&ran.stdout).is_ok_and(|answer| answer["rows"][0][0] == wanted)
    };
    let status = || lab.run(["sandbox", "status", name, "-o", "json"]).stdout;
    assert!(wait_until(Duration::from_secs(60), has_come), "{name}: {sql}: {}", status());
}

fn folder(lab: &Lab, name: &str) -> PathBuf {
    lab.home().join("sandboxes").join(name)
}

/// Each file with size, inode and times of its last writing and change.
fn look(folder: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let it = entry.metadata().unwrap();
            found.insert(entry.path(), (it.len(), it.ino(), it.mtime_nsec(), it.ctime_nsec()));
            if it.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    found
}

/// A program of a fetched server, with its libraries.
fn program(server: &str, name: &str) -> Option<(PathBuf, PathBuf)> {
    let servers = fs::read_dir(shared_cache(own_uid()).join("servers")).ok()?.flatten();
    let tree = servers.map(|it| it.path().join("tree")).find(|tree| tree.to_string_lossy().contains(server))?;
    let found = walk(&tree.join("usr"), name)?;
    Some((found, tree))
}

fn walk(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    let here = entries.iter().find(|it| it.file_name() == name && it.path().is_file()).map(fs::DirEntry::path);
    here.or_else(|| {
        entries.iter().filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).find_map(|it| walk(&it.path(), name))
    })
}

fn run(mut command: Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn pack(program: &str, file: &Path) -> PathBuf {
    run({
        let mut command = Command::new(program);
        command.args(["-q", "-k"]).arg(file);
        command
    });
    let ending = if program == "gzip" { "gz" } else { "zst" };
    PathBuf::from(format!("{}.{ending}", file.display()))
}

#[test]
fn a_data_directory_of_mariadb() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", "mariadb", "--name", "a", "-c", "innodb_page_size=8k"]).expect_code(0);
    lab.run(["sandbox", "start", "a"]).expect_code(0);
    tell(
        &lab,
        "a",
        &[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.goods (id INT PRIMARY KEY, name VARCHAR(20))",
            "INSERT INTO shop.goods VALUES (1, 'pear'), (2, 'plum')",
            "CREATE USER alice@localhost IDENTIFIED BY 'hers'",
            // it follows another server, and has replicas of its own: the sandbox's must not come into their way
            "CREATE USER replicator@'127.0.0.1' IDENTIFIED BY 'theirs'",
            "SET GLOBAL gtid_slave_pos = '0-7-100'",
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'replicator'",
        ],
    );
    let data = folder(&lab, "a").join("data");
    let from = data.to_str().unwrap();
    let refused = lab.run(["sandbox", "deploy", "--from", from, "--name", "b"]).expect_code(3);
    refused.expect_said(&["cannot be taken", "stop that server first"]);
    assert!(!folder(&lab, "b").exists());
    lab.run(["sandbox", "stop", "a"]).expect_code(0);
    fs::set_permissions(data.join("shop"), fs::Permissions::from_mode(0o700)).unwrap();

    let before = look(&data);
    let hers = |name: &str| ask(&lab, name, "SELECT authentication_string FROM mysql.user WHERE user = 'alice'");
    let deploy = ["sandbox", "deploy", "--from", from, "--name", "b", "--replicas", "1"];
    lab.run(deploy).expect_code(0).expect_said(&[
        "data directory of mariadb",
        "aria_log_control",
        "innodb_page_size=8192",
        "holds   sbtest, shop",
        "replica b-r1",
    ]);
    assert_eq!(look(&data), before, "the original is only read");
    lab.run(["sandbox", "start", "b"]).expect_code(0);
    assert_eq!(ask(&lab, "b", "SELECT group_concat(name ORDER BY id) FROM shop.goods"), "pear,plum");
    assert_eq!(ask(&lab, "b", "SELECT @@innodb_page_size"), "8192");
    lab.run(["sandbox", "start", "a"]).expect_code(0);
    assert_eq!(hers("a"), hers("b"), "another account's password");
    comes_to(&lab, "b-r1", "SELECT count(*) FROM shop.goods", "2");
    tell(&lab, "b", &["DELETE FROM shop.goods"]);
    comes_to(&lab, "b-r1", "SELECT count(*) FROM shop.goods", "0");
    assert_eq!(ask(&lab, "b-r1", "SELECT @@innodb_page_size"), "8192");
    assert_eq!(ask(&lab, "a", "SELECT count(*) FROM shop.goods"), "2");

    let wrong = lab.run(["sandbox", "deploy", "postgresql", "--from", from]).expect_code(3);
    wrong.expect_said(&["data directory of mariadb"]);
    fs::write(lab.home().join("notes.txt"), "SELECT 1;\n").unwrap();
    lab.run(["sandbox", "deploy", "--from", "notes.txt"]).expect_code(3).expect_said(&["no dump that is known"]);
    lab.run(["sandbox", "delete", "--force", "a", "b"]).expect_code(0);
}

#[test]
fn a_dump_of_mariadb() {
    let lab = Lab::new(WRINGER);
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dumps/mariadb-10.11.sql");
    lab.run(["sandbox", "deploy", "--from", dump.to_str().unwrap(), "--name", "a", "--replicas", "1"])
        .expect_code(0)
        .expect_said(&["SQL dump of mariadb 10.11", "holds   sbtest, shop"]);
    lab.run(["sandbox", "start", "a"]).expect_code(0);
    // a trigger with semicolons in it, a view, and bytes that are no UTF-8
    tell(&lab, "a", &["INSERT INTO shop.goods (id, name) VALUES (10, 'fig')"]);
    assert_eq!(ask(&lab, "a", "SELECT group_concat(name ORDER BY id) FROM shop.goods"), "it's; a 'pear',plum,fig");
    assert_eq!(ask(&lab, "a", "SELECT count(*) FROM shop.log WHERE what LIKE 'new%; fig'"), "2");
    assert_eq!(ask(&lab, "a", "SELECT hex(picture) FROM shop.goods WHERE id = 1"), "FF00275C3B0A");
    assert_eq!(ask(&lab, "a", "SELECT count(*) FROM shop.cheap"), "1");
    comes_to(&lab, "a-r1", "SELECT group_concat(name ORDER BY id) FROM shop.goods", "it's; a 'pear',plum,fig");

    // what is packed is known by its text
    let copy = lab.home().join("copy.sql");
    fs::copy(&dump, &copy).unwrap();
    for program in ["gzip", "zstd"] {
        let packed = pack(program, &copy);
        let refused = lab.run(["sandbox", "deploy", "postgresql", "--from", packed.to_str().unwrap()]).expect_code(3);
        refused.expect_said(&[&format!("SQL dump ({program}) of mariadb 10.11")]);
    }

    let cut: Vec<u8> = fs::read(&dump).unwrap();
    let at = cut.windows(6).position(|bytes| bytes == b"INSERT").unwrap() + 40;
    fs::write(lab.home().join("cut.sql"), &cut[..at]).unwrap();
    let failed = lab.run(["sandbox", "deploy", "--from", "cut.sql", "--name", "b"]).expect_code(4);
    failed.expect_said(&["the dump ends within"]);
    assert!(!folder(&lab, "b").exists(), "nothing is left of it");
    fs::write(
        lab.home().join("bad.sql"),
        "-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB\n\nSELECT 1;\nCREATE TABEL x;\n",
    )
    .unwrap();
    let failed = lab.run(["sandbox", "deploy", "--from", "bad.sql", "--name", "b"]).expect_code(4);
    failed.expect_said(&["line 4 of", "CREATE TABEL x", "1064"]);
    lab.run(["sandbox", "delete", "--force", "a"]).expect_code(0);
}

#[test]
fn a_data_directory_and_a_dump_of_mysql() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", "mysql@9", "--name", "a", "--start"]).expect_code(0);
    tell(
        &lab,
        "a",
        &[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.goods (id INT PRIMARY KEY, name VARCHAR(20))",
            "INSERT INTO shop.goods VALUES (1, 'pear;'), (2, 'pl''um')",
            "CREATE PROCEDURE shop.twice() BEGIN SELECT 1; SELECT 2; END",
            "SET PERSIST event_scheduler = ON",
        ],
    );
    let dump = lab.home().join("shop.sql");
    let Some((mysqldump, tree)) = program("mysql-9", "mysqldump") else { testkit::skip!("needs mysqldump of mysql 9") };
    let option_file = lab.write("my.cnf", &lab.run(["sandbox", "export", "a", "my.cnf"]).expect_code(0).stdout);
    let loader = walk(&tree, "ld-linux-x86-64.so.2");
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    let mut command = loader.as_ref().map_or_else(|| Command::new(&mysqldump), Command::new);
    if loader.is_some() {
        command.arg("--library-path").arg(&libraries).arg(&mysqldump);
    }
    command.arg(format!("--defaults-file={}", option_file.display()));
    command.args(["--routines", "--databases", "shop"]).arg(format!("--result-file={}", dump.display()));
    run(command);
    lab.run(["sandbox", "stop", "a"]).expect_code(0);

    let data = folder(&lab, "a").join("data");
    let before = look(&data);
    let packed = pack("gzip", &dump);
    for (name, from, said, replicas) in
        [("b", &data, "data directory of mysql 9", "1"), ("c", &packed, "SQL dump (gzip) of mysql 9", "0")]
    {
        let from = from.to_str().unwrap();
        lab.run(["sandbox", "deploy", "--from", from, "--name", name, "--start", "--replicas", replicas])
            .expect_code(0)
            .expect_said(&[said, "holds   sbtest, shop"]);
        assert_eq!(ask(&lab, name, "SELECT group_concat(name ORDER BY id) FROM shop.goods"), "pear;,pl'um");
        assert_eq!(
            ask(&lab, name, "SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'shop'"),
            "twice"
        );
        if replicas == "1" {
            tell(&lab, name, &["INSERT INTO shop.goods VALUES (3, 'fig')"]);
            comes_to(&lab, "b-r1", "SELECT group_concat(name ORDER BY id) FROM shop.goods", "pear;,pl'um,fig");
        }
        lab.run(["sandbox", "stop", name]).expect_code(0);
    }
    assert_eq!(look(&data), before, "the original is only read");
    let uuid = |name: &str| fs::read_to_string(folder(&lab, name).join("data/auto.cnf")).unwrap();
    assert!(uuid("a") != uuid("b") && uuid("b") != uuid("b-r1"), "a server of its own among replicas");
    lab.run(["sandbox", "delete", "a", "b", "c"]).expect_code(0);
}

#[test]
fn a_cluster_a_base_backup_and_a_dump_of_postgresql() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", "postgresql", "--fetched", "--name", "a", "--start"]).expect_code(0);
    tell(
        &lab,
        "a",
        &[
            "CREATE ROLE alice LOGIN PASSWORD 'hers'",
            "CREATE ROLE replicator LOGIN PASSWORD 'theirs'",
            "CREATE TABLE goods (id int PRIMARY KEY, name text)",
            "INSERT INTO goods VALUES (1, 'pe\\ar'), (2, E'pl\\tum;')",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 7 END; END",
            "ALTER TABLE goods OWNER TO alice",
            "ALTER SYSTEM SET archive_command = 'touch /tmp/never'",
        ],
    );
    let version = ask(&lab, "a", "SHOW server_version").as_str().unwrap().split('.').next().unwrap().to_owned();
    let home = lab.home().to_owned();
    let environment = lab.run(["sandbox", "export", "a", "env"]).expect_code(0).stdout;
    let client = |name: &str, args: &[&str]| {
        let (program, tree) = program(&format!("postgresql-{version}"), name).unwrap();
        let mut command = Command::new(program);
        command.args(args).env("LD_LIBRARY_PATH", tree.join("usr/lib/x86_64-linux-gnu")).current_dir(&home);
        for line in environment.lines() {
            let (key, value) = line.trim_start_matches("export ").split_once('=').unwrap();
            command.env(key, value.trim_matches('\''));
        }
        run(command);
    };
    client("pg_dump", &["-Fc", "-f", "custom.dump"]);
    client("pg_basebackup", &["-D", "backup", "-R", "-c", "fast"]);
    let data = folder(&lab, "a").join("data");
    lab.run(["sandbox", "deploy", "--from", data.to_str().unwrap(), "--name", "x"]).expect_code(3);
    lab.run(["sandbox", "stop", "a"]).expect_code(0);
    let before = look(&data);
    let cluster = format!("data directory of postgresql {version}");
    let backup = format!("physical backup of postgresql {version}");
    let origins = [
        ("b", data.clone(), cluster.as_str(), "postgresql.auto.conf is kept as postgresql.auto.conf.original"),
        ("c", home.join("backup"), &backup, "standby.signal is left out"),
        ("e", home.join("custom.dump"), "archive of pg_dump of postgresql", "role alice"),
    ];
    for (name, from, said, also) in origins {
        let args = [
            "sandbox",
            "deploy",
            "postgresql",
            "--fetched",
            "--from",
            from.to_str().unwrap(),
            "--name",
            name,
            "--start",
            "--replicas",
            if name == "c" { "1" } else { "0" },
        ];
        lab.run(args).expect_code(0).expect_said(&[said, also]);
        let sum =
            "SELECT string_agg(name || tableowner, ',' ORDER BY id) FROM goods, pg_tables WHERE tablename = 'goods'";
        assert_eq!(ask(&lab, name, sum), "pe\\aralice,pl\tum;alice", "{name}");
        assert_eq!(ask(&lab, name, "SELECT f()"), "7", "{name}");
        assert_eq!(ask(&lab, name, "SHOW archive_command"), "(disabled)", "{name}");
        assert_eq!(ask(&lab, name, "SELECT pg_is_in_recovery()"), "f", "{name}");
        if name == "c" {
            assert_eq!(ask(&lab, "c-r1", "SELECT pg_is_in_recovery()"), "t");
            tell(&lab, name, &["INSERT INTO goods VALUES (3, 'fig')"]);
            comes_to(&lab, "c-r1", "SELECT count(*) FROM goods", "3");
        }
        lab.run(["sandbox", "delete", "--force", name]).expect_code(0);
    }
    assert_eq!(look(&data), before, "the original is only read");
    lab.run(["sandbox", "delete", "a"]).expect_code(0);
}
