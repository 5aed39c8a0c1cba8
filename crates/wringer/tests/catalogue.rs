// SPDX-License-Identifier: Apache-2.0
//! Every server that can be fetched, and servers from archives: real ones, from their real sources.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};
use testkit::{Lab, Ran, own_uid, shared_cache};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A cache beside the one that all tests share: those take the newest server that is there, and know which one that is. What that one
/// has is not fetched again.
fn cache() -> PathBuf {
    static ONCE: Once = Once::new();
    let shared = shared_cache(own_uid());
    let own = shared.join("catalogue");
    ONCE.call_once(|| {
        fs::create_dir_all(&own).unwrap();
        for name in ["apt", "apt-sid", "servers"] {
            if shared.join(name).exists() && !own.join(name).exists() {
                let link = if name == "servers" { "-al" } else { "-a" };
                let copied = Command::new("cp").arg(link).arg(shared.join(name)).arg(&own).status().unwrap();
                assert!(copied.success());
            }
        }
    });
    own
}

fn run(lab: &Lab, args: &[&str]) -> Ran {
    Ran::of(lab.command(args).env("WRINGER_CACHE", cache()))
}

fn missing_client() -> Option<&'static str> {
    ["mvn", "java"].into_iter().find(|program| host::tool::find(program).is_none())
}

macro_rules! need_maven {
    () => {
        if let Some(program) = missing_client() {
            testkit::skip!("needs {program}");
        }
    };
}

/// The names in a cache, hidden ones too.
fn entries(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("servers")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_server_that_fetches_here_is_filled_loaded_and_whole() {
    need_maven!();
    let servers = ["mariadb 10.11", "mariadb 11.4", "xtradb 5.6", "mysql 9", "postgresql 15", "postgresql 18"];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/servers/run.sh");
    let mut command = Command::new(script);
    command.args(["--seconds", "1", "--rows", "2000"]).args(servers);
    let ran = Ran::of(command.env("WRINGER", WRINGER).env("WRINGER_CACHE", cache()).stdin(Stdio::null()));
    let table = format!("{}\n{}", ran.stdout, ran.stderr);
    let rows: Vec<&str> = ran.stdout.lines().skip(1).collect();
    assert_eq!(rows.len(), servers.len(), "{table}");
    for (row, server) in rows.iter().zip(servers) {
        assert!(row.starts_with(server) && row.ends_with(" ok"), "{table}");
    }
    let versions = ["10.11.", "11.4.", "10.1.", "9.", "15.", "18."];
    for (row, version) in rows.iter().zip(versions) {
        let cell = |index| row.split_whitespace().nth(index).unwrap();
        assert!(cell(3).starts_with(version), "{table}");
        assert!(cell(9).parse::<u32>().unwrap() >= 16, "capabilities that the server has as in the table: {table}");
    }
    assert_eq!(ran.code, Some(0), "{table}");
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

/// A tarball of a real tree, under a name that says something else, and packed below a folder as makers do.
fn tarball(lab: &Lab) -> (PathBuf, PathBuf) {
    let program = run(lab, &["sandbox", "fetch", "postgresql@18"]).expect_code(0).stdout;
    let tree = Path::new(program.trim()).ancestors().nth(2).unwrap().to_owned();
    let archive = lab.home().join("mysql-5.5.0-linux.tar.gz");
    pack(&tree, &archive);
    (tree, archive)
}

fn pack(tree: &Path, archive: &Path) {
    let mut command = Command::new("tar");
    command.args(["--use-compress-program=gzip -1", "--transform=s,^tree,top/pgsql,", "-cf"]).arg(archive);
    command.arg("-C").arg(tree.parent().unwrap()).arg("tree");
    assert!(command.status().unwrap().success());
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_tarball_is_what_the_server_in_it_says() {
    need_maven!();
    let lab = Lab::new(WRINGER);
    let (_, archive) = tarball(&lab);
    let name = archive.to_str().unwrap();
    let own = lab.home().join("own-cache");
    let own_run = |args: &[&str]| Ran::of(lab.command(args).env("WRINGER_CACHE", &own));

    let wrong = "0".repeat(64);
    own_run(&["sandbox", "unpack", name, "--sha256", &wrong]).expect_code(3).expect_said(&["SHA-256", &wrong]);
    own_run(&["sandbox", "unpack", name, "--sha256", "12"]).expect_code(2).expect_said(&["64 hexadecimal digits"]);
    let other = own_run(&["sandbox", "unpack", name, "--flavour", "mysql"]);
    other.expect_code(3).expect_said(&["postgresql 18", "not mysql"]);
    assert!(entries(&own).iter().all(|name| name == ".lock"), "{:?}", entries(&own));

    let sum = sha256(&archive);
    own_run(&["sandbox", "unpack", name, "--sha256", &sum.to_uppercase()]).expect_code(0);
    let [_, entry] = &entries(&own)[..] else { panic!("{:?}", entries(&own)) };
    assert!(entry.starts_with("postgresql-18.") && entry.ends_with(&sum[..12]), "{entry}");
    let record = fs::read_to_string(own.join("servers").join(entry).join("fetched.json")).unwrap();
    assert!(record.contains(&sum) && record.contains("mysql-5.5.0-linux.tar.gz"), "{record}");

    own_run(&["sandbox", "deploy", name, "--name", "u", "--start"])
        .expect_code(0)
        .expect_said(&["archive mysql-5.5.0"]);
    let said = own_run(&["sandbox", "use", "u", "SHOW server_version"]).expect_code(0).stdout;
    assert!(said.contains("18."), "{said}");
    own_run(&["sandbox", "delete", "u", "--force"]).expect_code(0);
    assert_eq!(entries(&own).len(), 2, "the second time it was known");
}

#[test]
fn a_tarball_that_is_cut_short_or_for_another_machine_leaves_nothing() {
    need_maven!();
    let lab = Lab::new(WRINGER);
    let (tree, archive) = tarball(&lab);
    let own = lab.home().join("own-cache");
    let refused = |name: &Path, words: &[&str]| {
        let ran = Ran::of(lab.command(["sandbox", "unpack", name.to_str().unwrap()]).env("WRINGER_CACHE", &own));
        ran.expect_code(3).expect_said(words);
        assert!(entries(&own).iter().all(|name| name == ".lock"), "{:?}", entries(&own));
    };
    let bytes = fs::read(&archive).unwrap();
    refused(&lab.write("text.tar.gz", "not packed at all"), &["no tar file"]);
    let half = lab.home().join("half.tar.gz");
    fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    refused(&half, &["damaged"]);
    refused(&lab.home().join("no.tar.gz"), &["no.tar.gz"]);
    refused(lab.home(), &["it is no file"]);

    // e_machine in the header of the program (elf(5)): s390x
    let foreign = lab.home().join("foreign/tree");
    fs::create_dir_all(foreign.join("bin")).unwrap();
    let mut program = fs::read(tree.join("bin/postgres")).unwrap();
    program[18..20].copy_from_slice(&22_u16.to_le_bytes());
    fs::write(foreign.join("bin/postgres"), program).unwrap();
    fs::set_permissions(foreign.join("bin/postgres"), fs::Permissions::from_mode(0o755)).unwrap();
    let archive = lab.home().join("foreign.tar.gz");
    pack(&foreign, &archive);
    refused(&archive, &["s390x", std::env::consts::ARCH]);

    fs::remove_file(foreign.join("bin/postgres")).unwrap();
    fs::write(foreign.join("bin/readme"), "").unwrap();
    pack(&foreign, &archive);
    refused(&archive, &["it holds no server"]);
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
    let mut killed = command(&["sandbox", "fetch", "postgresql@17"]).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
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

#[test]
fn a_client_that_is_missing_is_named_with_its_package() {
    let lab = Lab::new(WRINGER);
    let programs = lab.home().join("bin");
    fs::create_dir(&programs).unwrap();
    for entry in fs::read_dir("/usr/bin").unwrap().flatten().filter(|entry| entry.file_name() != "mvn") {
        symlink(entry.path(), programs.join(entry.file_name())).unwrap();
    }
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
