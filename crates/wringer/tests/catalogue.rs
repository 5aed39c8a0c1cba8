// SPDX-License-Identifier: Apache-2.0
//! Every server that can be fetched: real ones, from their real sources.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod own_cache;

use own_cache::*;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Lab, Ran, waiting_program};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// As `sandbox deploy` takes it; `version` is how the number of the fetched one begins.
fn is_filled_loaded_and_whole(server: &str, version: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/servers/run.sh");
    let mut command = Command::new(script);
    command.args(["--seconds", "1", "--rows", "2000", server]);
    let ran = Ran::of(command.env("WRINGER", WRINGER).env("WRINGER_CACHE", cache()).stdin(Stdio::null()));
    let table = format!("{}\n{}", ran.stdout, ran.stderr);
    let rows: Vec<&str> = ran.stdout.lines().skip(1).collect();
    assert!(rows.len() == 1 && rows[0].starts_with(server) && rows[0].ends_with(" ok"), "{table}");
    let cell = |index| rows[0].split_whitespace().nth(index).unwrap();
    assert!(cell(3).starts_with(version), "{table}");
    assert!(cell(9).parse::<u32>().unwrap() >= 16, "capabilities that the server has as in the table: {table}");
    assert_eq!(ran.code, Some(0), "{table}");
}

/// Each is a test of its own, so that several run at the same time: most of their time they wait for a disk or the network.
macro_rules! is_filled_loaded_and_whole {
    ($($name:ident: $server:literal is $version:literal;)+) => {$(
        #[test]
        fn $name() {
            need_maven!();
            is_filled_loaded_and_whole($server, $version);
        }
    )+};
}

is_filled_loaded_and_whole! {
    mariadb_10_is_filled_loaded_and_whole: "mariadb 10.11" is "10.11.";
    mariadb_11_is_filled_loaded_and_whole: "mariadb 11.4" is "11.4.";
    xtradb_is_filled_loaded_and_whole: "xtradb 5.6" is "10.1.";
    mysql_9_is_filled_loaded_and_whole: "mysql 9" is "9.";
    postgresql_15_is_filled_loaded_and_whole: "postgresql 15" is "15.";
    postgresql_18_is_filled_loaded_and_whole: "postgresql 18" is "18.";
}

#[test]
fn xtradb_is_the_server_with_the_two_free_list_algorithms() {
    need_maven!();
    let lab = Lab::new(WRINGER);
    run(&lab, &["sandbox", "deploy", "xtradb", "5.6", "--name", "x", "--start"]).expect_code(0);
    let table = run(&lab, &["sandbox", "available", "--capabilities", "-o", "json"]).expect_code(0).stdout;
    let table: Value = serde_json::from_str(&table).unwrap();
    let rows = table["capabilities"].as_array().unwrap();
    let is_it = |row: &&Value| row["capability"] == "empty_free_list_algorithm" && row["flavour"] == "mariadb";
    let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{table:#}"));
    assert_eq!((&row["since"], &row["until"]), (&Value::from("10.0.9"), &Value::from("10.2")));
    let asked = format!("SELECT @@innodb_version, @@{}", row["words"][0].as_str().unwrap());
    let said = run(&lab, &["sandbox", "use", "x", &asked, "-o", "json"]).expect_code(0).stdout;
    let said: Value = serde_json::from_str(&said).unwrap();
    let row = &said["rows"][0];
    assert!(row[0].as_str().unwrap().starts_with("5.6."), "{row}");
    assert!(row[1].as_str().unwrap().eq_ignore_ascii_case("backoff"), "{row}");
    let asked = run(&lab, &["sandbox", "capabilities", "x", "-o", "json"]).expect_code(0).stdout;
    let asked: Value = serde_json::from_str(&asked).unwrap();
    let capability =
        |name: &str| asked["capabilities"].as_array().unwrap().iter().find(|row| row["capability"] == name);
    let has = |name: &str| capability(name).unwrap_or_else(|| panic!("{asked:#}"))["has"].clone();
    assert_eq!(has("empty_free_list_algorithm"), true);
    assert_eq!((has("pool_resize"), has("memory_instruments")), (Value::from(false), Value::from(false)));
    assert!(capability("pool_resize").unwrap()["refused"].as_str().unwrap().contains("read only"), "{asked:#}");
    let users = "SELECT DISTINCT user FROM mysql.user";
    let said = run(&lab, &["sandbox", "use", "x", users, "-o", "json"]).expect_code(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["rows"], serde_json::json!([["wringer"]]));
    run(&lab, &["sandbox", "delete", "x", "--force"]).expect_code(0);
}

/// As nobody, with a home that is none. A fetch that is killed leaves nothing that looks complete, and the next one clears it away.
#[test]
fn an_artifact_comes_to_an_ordinary_user_whose_first_fetch_was_killed() {
    need_maven!();
    let lab = Lab::as_ordinary_user(WRINGER);
    let own = lab.home().join("own-cache");
    let command = |args: &[&str]| {
        let mut command = lab.command(args);
        command.env("WRINGER_CACHE", &own).env("HOME", "/nonexistent").stdout(Stdio::null());
        command
    };
    let path = format!(
        "{}:{}",
        waiting_program(&lab, &host::tool::find("mvn").unwrap(), ":unpack").display(),
        std::env::var("PATH").unwrap()
    );
    let mut killed = command(&["sandbox", "fetch", "postgresql@17"]);
    let mut killed = killed.env("PATH", path).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    let has_begun = || entries(&own).iter().any(|name| name.starts_with(".new-"));
    while !has_begun() && killed.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(has_begun(), "{:?}", entries(&own));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(entries(&own).iter().all(|name| name.starts_with('.')), "{:?}", entries(&own));

    let fetched = Ran::of(command(&["sandbox", "fetch", "postgresql@17"]).stdout(Stdio::piped())).expect_code(0);
    let names = entries(&own);
    assert!(names.len() == 2 && names[1].starts_with("postgresql-17."), "{names:?}");
    assert!(Path::new(fetched.stdout.trim()).starts_with(own.canonicalize().unwrap()), "{}", fetched.stdout);
    Ran::of(&mut command(&["sandbox", "deploy", "postgresql@17", "--name", "p", "--start"])).expect_code(0);
    Ran::of(&mut command(&["sandbox", "delete", "p", "--force"])).expect_code(0);
}

/// The programs of this machine, but for these.
fn programs_without(lab: &Lab, missing: &[&str]) -> PathBuf {
    let programs = lab.home().join("bin");
    fs::create_dir(&programs).unwrap();
    let is_missing = |name: &OsStr| missing.iter().any(|missing| name == *missing);
    for entry in fs::read_dir("/usr/bin").unwrap().flatten().filter(|entry| !is_missing(&entry.file_name())) {
        symlink(entry.path(), programs.join(entry.file_name())).unwrap();
    }
    programs
}

/// A version that is named to its last number cannot become another one; which one the newest is, only the source knows.
#[test]
fn nobody_is_asked_for_a_whole_version_that_is_there() {
    let lab = Lab::new(WRINGER);
    let program = run(&lab, &["sandbox", "fetch", "postgresql"]).expect_code(0);
    let version = program.stderr.split_whitespace().skip_while(|word| *word != "postgresql").nth(1).unwrap();
    let programs = programs_without(&lab, &["apt-get", "apt-cache", "mvn"]);
    let fetch = |what: &str| {
        Ran::of(lab.command(["sandbox", "fetch", what]).env("WRINGER_CACHE", cache()).env("PATH", &programs))
    };
    let again = fetch(&format!("postgresql@{version}")).expect_code(0);
    assert_eq!(again.stdout, program.stdout);
    let newest = version.split('.').next().unwrap();
    fetch(&format!("postgresql@{newest}")).expect_code(3).expect_said(&["without 'apt-get'"]);
}

#[test]
fn a_client_that_is_missing_is_named_with_its_package() {
    let lab = Lab::new(WRINGER);
    let programs = programs_without(&lab, &["mvn"]);
    let mut fetch = lab.command(["sandbox", "fetch", "postgresql@18"]);
    let refused = Ran::of(fetch.env("WRINGER_CACHE", lab.home().join("own-cache")).env("PATH", &programs));
    refused.expect_code(3).expect_said(&["no postgresql 18", "'mvn'", "package maven", "hint:"]);
}

#[test]
fn a_repository_that_does_not_answer_is_a_refusal() {
    need_maven!();
    let lab = Lab::new(WRINGER);
    fs::create_dir(lab.home().join(".m2")).unwrap();
    // a port of the machine that nothing listens on
    let mirror = "<settings><mirrors><mirror><id>none</id><mirrorOf>*</mirrorOf><url>http://127.0.0.1:9/</url></mirror></mirrors></settings>";
    fs::write(lab.home().join(".m2/settings.xml"), mirror).unwrap();
    let own = lab.home().join("own-cache");
    let mut fetch = lab.command(["sandbox", "fetch", "postgresql@18"]);
    fetch.env("WRINGER_CACHE", &own).env("MAVEN_OPTS", format!("-Duser.home={}", lab.home().display()));
    Ran::of(&mut fetch).expect_code(3).expect_said(&["Maven's repository cannot be read", "127.0.0.1", "hint:"]);
    assert_eq!(entries(&own), [".lock"]);
}

#[test]
fn what_nobody_offers_is_refused_with_what_there_is() {
    let lab = Lab::new(WRINGER);
    run(&lab, &["sandbox", "fetch", "percona", "8.0"])
        .expect_code(3)
        .expect_said(&["no percona 8.0", "sandbox unpack"]);
    run(&lab, &["sandbox", "fetch", "xtradb", "5.7"]).expect_code(2).expect_said(&["MariaDB 10.1"]);
}
