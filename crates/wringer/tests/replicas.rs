// SPDX-License-Identifier: Apache-2.0
//! A primary with replicas, of every flavour: what is written comes over, what is missing is counted, and all of it goes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use load::admin::Connection;
use serde_json::Value;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use testkit::{Lab, wait_until, waiting_program};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const PATIENCE: Duration = Duration::from_secs(60);

fn json(lab: &Lab, args: &[&str]) -> Value {
    serde_json::from_str(&lab.run(args).expect_code(0).stdout).unwrap()
}

fn sandbox(lab: &Lab, name: &str) -> Value {
    json(lab, &["sandbox", "status", name, "-o", "json"])["sandboxes"][0].take()
}

fn sql(lab: &Lab, name: &str, statement: &str) {
    lab.run(["sandbox", "use", name, statement]).expect_code(0);
}

fn rows(lab: &Lab, name: &str) -> Option<String> {
    let ran = lab.run(["sandbox", "use", name, "SELECT count(*) FROM pears", "-o", "json"]);
    let value: Value = serde_json::from_str(&ran.stdout).ok()?;
    value["rows"][0][0].as_str().map(str::to_owned)
}

fn has_rows(lab: &Lab, name: &str, count: &str) {
    assert!(wait_until(PATIENCE, || rows(lab, name).as_deref() == Some(count)), "{:#}", sandbox(lab, name));
}

fn folders(lab: &Lab) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lab.home().join("sandboxes")).unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// What differs between them for a user.
struct Flavour {
    server: &'static str,
    options: &'static [&'static str],
    pause: &'static str,
    resume: &'static str,
    lacks: &'static str,
    /// What a write to a replica is answered; MariaDB's read_only lets an account with all rights write.
    refuses_writes: Option<&'static str>,
}

fn from_the_first_command_to_the_last(of: &Flavour) {
    let lab = Lab::new(WRINGER);
    let deploy = ["sandbox", "deploy", of.server, "--name", "p", "--replicas", "2"];
    let deployed = lab.run(deploy.iter().chain(of.options)).expect_code(0);
    assert_eq!(deployed.stdout, "p\n");
    deployed.expect_said(&["replica p-r1", "replica p-r2", "throw-away", "wringer sandbox delete p"]);
    lab.run(["sandbox", "start", "p"]).expect_code(0).expect_said(&["started p:", "started p-r1:", "started p-r2:"]);
    sql(&lab, "p", "CREATE TABLE pears (id int primary key)");
    sql(&lab, "p", "INSERT INTO pears VALUES (1), (2)");
    for replica in ["p-r1", "p-r2"] {
        has_rows(&lab, replica, "2");
    }
    let primary = sandbox(&lab, "p");
    assert_eq!(
        (&primary["replication"]["role"], &primary["replication"]["replicas"][1]),
        (&"primary".into(), &"p-r2".into())
    );
    let replication = || sandbox(&lab, "p-r1")["replication"].take();
    let mut told = Value::Null;
    let has_all = wait_until(PATIENCE, || {
        told = replication();
        told[of.lacks].as_u64() == Some(0)
    });
    assert!(has_all, "{told:#}");
    assert_eq!((&told["role"], &told["of"], &told["is_replicating"]), (&"replica".into(), &"p".into(), &true.into()));
    assert!(told["lag_s"].as_f64().is_some() && told["lag_source"].as_str().is_some(), "{told:#}");
    if let Some(words) = of.refuses_writes {
        lab.run(["sandbox", "use", "p-r1", "INSERT INTO pears VALUES (9)"]).expect_code(4).expect_said(&[words]);
    }

    // what replicates waits for its primary most of the time, and is nobody's client
    let watched = json(&lab, &["stalls", "watch", "--sandbox", "p-r1", "--for", "2s", "-o", "json"]);
    assert_eq!((&watched["kind"], &watched["stalls"]), (&"summary".into(), &Value::Array(Vec::new())), "{watched:#}");

    if of.options.contains(&"--pgbouncer") {
        a_pooler_stands_in_front_of_the_primary(&lab);
    }

    sql(&lab, "p-r1", of.pause);
    sql(&lab, "p", "INSERT INTO pears VALUES (3)");
    has_rows(&lab, "p-r2", "3");
    // a server that does not answer for two seconds is not waited for
    assert!(wait_until(PATIENCE, || replication()[of.lacks].as_u64() > Some(0)), "{:#}", replication());
    assert_eq!(rows(&lab, "p-r1").as_deref(), Some("2"));
    let told = replication();
    assert!(told["is_replicating"] == false && told["trouble"].is_string(), "{told:#}");
    sql(&lab, "p-r1", of.resume);
    has_rows(&lab, "p-r1", "3");

    a_primary_that_moves_is_followed(&lab, primary["port"].as_u64().unwrap());
    lab.run(["sandbox", "delete", "p-r1", "--force"]).expect_code(3).expect_said(&["a replica of 'p'"]);
    lab.run(["sandbox", "delete", "p"]).expect_code(3).expect_said(&["running", "--force"]);
    let stopped = lab.run(["sandbox", "stop", "p"]).expect_code(0).stderr;
    assert_eq!(stopped, "stopped p-r2\nstopped p-r1\nstopped p\n");
    let deleted = lab.run(["sandbox", "delete", "p"]).expect_code(0).stderr;
    assert_eq!(deleted, "deleted p-r2, p-r1, p\n");
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
}

fn a_pooler_stands_in_front_of_the_primary(lab: &Lab) {
    let dsn = |name: &str, more: &[&str]| {
        let args = [&["sandbox", "export", name, "dsn"], more].concat();
        lab.run(args).expect_code(0).stdout.trim().to_owned()
    };
    assert_eq!(dsn("p-r1", &[]), dsn("p-r1", &["--direct"]), "a replica has none");
    let (pooled, direct) = (dsn("p", &[]), dsn("p", &["--direct"]));
    assert_ne!(pooled, direct);
    let mut connection = Connection::open(&pooled.parse().unwrap()).unwrap();
    assert_eq!(connection.query("SELECT count(*) FROM pears").unwrap().text(0, 0).as_deref(), Some("2"));
}

/// One replica runs all the while, the other one starts after its primary.
fn a_primary_that_moves_is_followed(lab: &Lab, port: u64) {
    lab.run(["sandbox", "stop", "p"]).expect_code(0);
    lab.run(["sandbox", "start", "p-r1"]).expect_code(0);
    let mut status = Value::Null;
    let is_alone = wait_until(PATIENCE, || {
        status = sandbox(lab, "p-r1");
        status["replication"]["is_replicating"] == false
    });
    assert!(is_alone && status["replication"]["trouble"].as_str().is_some(), "{status:#}");
    // another program may have taken it meanwhile: it is in use either way
    let _taken = TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap()));
    lab.run(["sandbox", "start", "p"]).expect_code(0).expect_said(&["started p:", "started p-r2:"]);
    assert_ne!(sandbox(lab, "p")["port"].as_u64(), Some(port));
    sql(lab, "p", "INSERT INTO pears VALUES (4)");
    for replica in ["p-r1", "p-r2"] {
        has_rows(lab, replica, "4");
    }
}

#[test]
fn mariadb_by_gtid() {
    from_the_first_command_to_the_last(&Flavour {
        server: "mariadb",
        options: &["-c", "innodb_buffer_pool_size=16M"],
        pause: "STOP SLAVE SQL_THREAD",
        resume: "START SLAVE SQL_THREAD",
        lacks: "behind_transactions",
        refuses_writes: None,
    });
}

#[test]
fn mysql_by_gtid() {
    from_the_first_command_to_the_last(&Flavour {
        server: "mysql@9",
        options: &["-c", "innodb_buffer_pool_size=24M"],
        pause: "STOP REPLICA SQL_THREAD",
        resume: "START REPLICA SQL_THREAD",
        lacks: "behind_transactions",
        refuses_writes: Some("super-read-only"),
    });
}

#[test]
fn postgresql_by_streaming() {
    from_the_first_command_to_the_last(&Flavour {
        server: "postgresql",
        options: &["-c", "shared_buffers=16MB", "--pgbouncer"],
        pause: "SELECT pg_wal_replay_pause()",
        resume: "SELECT pg_wal_replay_resume()",
        lacks: "behind_wal_bytes",
        refuses_writes: Some("read-only transaction"),
    });
}

/// Whether a `cp` of [`waiting_program`] is still there, with the files open that it has inherited.
fn waits_to_copy(lab: &Lab) -> bool {
    let arguments = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let found = host::process::open_below(&lab.home().join("sandboxes")).found;
    found.iter().any(|it| String::from_utf8_lossy(&arguments(it.pid)).contains("bin/cp"))
}

/// Killed while the primary is made, in the first replica, in the second one: never a part that looks whole, and the name is free
/// again by the next deployment, and by a deletion.
#[test]
fn a_deployment_that_is_killed_leaves_nothing_that_looks_whole() {
    let lab = Lab::new(WRINGER);
    let deploy = ["sandbox", "deploy", "postgresql", "--name", "p", "--replicas", "2"];
    // it does not come to its end before it is killed
    let path = format!(
        "{}:{}",
        waiting_program(&lab, &host::tool::find("cp").unwrap(), "p-r2").display(),
        std::env::var("PATH").unwrap()
    );
    for (number, last) in ["p", "p-r1", "p-r2"].into_iter().enumerate() {
        let mut command = lab.command(deploy);
        let said = std::fs::File::create(lab.home().join("killed.err")).unwrap();
        let mut command = command.env("PATH", &path).stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let manifest = lab.home().join("sandboxes").join(last).join("manifest.json");
        assert!(wait_until(PATIENCE, || manifest.exists()), "{last}: {}", lab.said("killed"));
        command.kill().unwrap();
        command.wait().unwrap();
        assert!(wait_until(PATIENCE, || !waits_to_copy(&lab)), "a copy waits for ever");
        lab.run(["sandbox", "start", "p"]).expect_code(3);
        lab.run(["sandbox", "start", last]).expect_code(3).expect_said(&["'p' was never deployed to its end"]);
        if number == 0 {
            // as if it had been killed while it wrote a file, and a deletion after its last one
            std::fs::write(lab.home().join("sandboxes/p/.secret.4711.new"), "").unwrap();
        }
        if number == 1 {
            lab.run(["sandbox", "delete", "p", "--force"]).expect_code(0);
            assert_eq!(folders(&lab), Vec::<PathBuf>::new());
            std::fs::create_dir(lab.home().join("sandboxes/p")).unwrap();
        }
    }
    lab.run(deploy).expect_code(0);
    lab.run(deploy).expect_code(3).expect_said(&["'p' is there already"]);
    // one that does not start takes the others with it
    let cnf = lab.home().join("sandboxes/p-r2/server.cnf");
    let text = std::fs::read_to_string(&cnf).unwrap();
    std::fs::write(&cnf, text + "no_such_setting = 1\n").unwrap();
    let failed = lab.run(["sandbox", "start", "p"]).expect_code(4);
    failed.expect_said(&["no_such_setting", "stopped p-r1 again", "stopped p again"]);
    lab.run(["sandbox", "delete", "p"]).expect_code(0);
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
}

#[test]
fn what_cannot_be_replicated_is_refused() {
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "deploy", "mariadb", "--replicas", "10"]).expect_code(2);
    lab.run(["sandbox", "start"]).expect_code(2);
    lab.run(["sandbox", "start", "p", "--all"]).expect_code(2);
    lab.run(["sandbox", "start", "--all"]).expect_code(3).expect_said(&["no sandboxes"]);
}
