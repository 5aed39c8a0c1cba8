// SPDX-License-Identifier: Apache-2.0
//! pgBouncer in front of a PostgreSQL sandbox, and the servers' own limits for one account: who waits, who is refused and with which words,
//! and that nothing is left.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use load::Target;
use load::admin::Connection;
use rustix::process::Signal;
use serde_json::Value;
use standing::*;
use std::path::PathBuf;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn sandbox(lab: &Lab, name: &str) -> Value {
    json(&lab.run(["sandbox", "status", name, "-o", "json"]).expect_code(0))["sandboxes"][0].take()
}

fn exported(lab: &Lab, words: &[&str]) -> String {
    lab.run([&["sandbox", "export"], words].concat()).expect_code(0).stdout.trim().to_owned()
}

fn sql(lab: &Lab, name: &str, text: &str) -> String {
    lab.run(["sandbox", "use", name, text]).expect_code(0).stdout
}

/// `sbtest` as another user with the password `app`, or the database `database`.
fn target(dsn: &str, user: Option<&str>, database: Option<&str>) -> Target {
    let mut target: Target = dsn.parse().unwrap();
    if let Some(user) = user {
        (target.user, target.password) = (user.into(), load::Password::new("app"));
    }
    if let Some(database) = database {
        target.database = Some(database.into());
    }
    target
}

fn open(target: &Target) -> Connection {
    let mut connection = Connection::open(target).unwrap();
    connection.set_read_limit(Some(PATIENCE)).unwrap();
    connection
}

/// With a transaction open, which holds a server connection.
fn begun(target: &Target) -> Connection {
    let mut connection = open(target);
    connection.execute("BEGIN").unwrap();
    connection.query("SELECT 1").unwrap();
    connection
}

/// Code and words.
fn refused(target: &Target) -> (String, String) {
    let opened = Connection::open(target);
    let error = opened.and_then(|mut connection| connection.query("SELECT 1")).expect_err("it is refused");
    (error.code().unwrap_or_default().to_owned(), error.to_string())
}

fn waiting(console: &mut Connection, user: &str) -> u64 {
    let rows = console.query("SHOW POOLS").unwrap();
    let column = |name: &str| rows.columns.iter().position(|it| it == name).unwrap();
    let of = (0..rows.len()).filter(|row| rows.text(*row, column("user")).as_deref() == Some(user));
    of.map(|row| rows.parse::<u64>(row, column("cl_waiting")).unwrap()).sum()
}

fn ended(pid: u64) -> bool {
    wait_until(PATIENCE, || !is_alive(pid))
}

fn folders(lab: &Lab) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lab.home().join("sandboxes")).unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn a_pool_from_the_first_command_to_the_last() {
    let lab = Lab::new(WRINGER);
    let deploy = ["sandbox", "deploy", "postgresql", "--name", "p", "--start", "-c", "max_connections=20"];
    let pool = ["--pgbouncer", "--pool-mode", "transaction", "--pool-size", "8", "--max-user-connections", "2"];
    let more = ["--pool-option", "query_wait_timeout=15"];
    let deployed = lab.run(deploy.iter().chain(&pool).chain(&more)).expect_code(0);
    deployed.expect_said(&["transaction pooling, 8 server connections a pool, 2 a user", "pooler  pgBouncer, port"]);
    let (pooled, direct) = (exported(&lab, &["p", "dsn"]), exported(&lab, &["p", "dsn", "--direct"]));
    assert!(pooled != direct && exported(&lab, &["p", "env"]) != exported(&lab, &["p", "env", "--direct"]));
    sql(&lab, "p", "CREATE ROLE app LOGIN PASSWORD 'app'");

    // an account that pgBouncer looks up in the server: two of its transactions run, the third one waits, others do not
    let app = target(&pooled, Some("app"), None);
    let mut console = open(&target(&pooled, None, Some("pgbouncer")));
    let mut held = [begun(&app), begun(&app)];
    let third = std::thread::spawn({
        let app = app.clone();
        move || open(&app).query("SELECT 1").map(|rows| rows.len())
    });
    assert!(wait_until(PATIENCE, || waiting(&mut console, "app") == 1), "the third one waits");
    open(&target(&pooled, None, None)).query("SELECT 1").unwrap();
    held[0].execute("COMMIT").unwrap();
    assert_eq!(third.join().unwrap().unwrap(), 1, "and is served when one has ended");
    held[0].execute("BEGIN").unwrap();
    held[0].query("SELECT 1").unwrap();
    let status = sandbox(&lab, "p");
    let of_app = status["pooler"]["pools"].as_array().unwrap().iter().find(|pool| pool["user"] == "app").unwrap();
    assert_eq!((&of_app["servers_active"], &of_app["clients_active"]), (&2.into(), &2.into()), "{status:#}");
    // who waits too long is told (08P01), and loses the connection
    let (code, words) = refused(&app);
    let log = std::fs::read_to_string(lab.home().join("sandboxes/p/log/pgbouncer.log")).unwrap();
    assert!(code == "08P01" || words.contains("connection was lost"), "{code}: {words}");
    assert!(log.contains("query_wait_timeout"), "{log}");
    drop(held);

    // more clients than the server has connections for, as text; prepared statements are refused with what to say
    fill_and_load(&lab, &pooled);

    // killed: the server goes on, and status says so
    let pid = status["pooler"]["pid"].as_u64().unwrap();
    signal(pid, Signal::KILL);
    assert!(ended(pid));
    let text = lab.run(["sandbox", "status", "p"]).expect_code(0).stdout;
    assert!(text.contains("NOT RUNNING: `wringer sandbox restart p`"), "{text}");
    open(&target(&direct, None, None)).query("SELECT 1").unwrap();
    lab.run(["sandbox", "restart", "p"]).expect_code(0);
    let again = sandbox(&lab, "p");
    open(&target(&exported(&lab, &["p", "dsn"]), None, None)).query("SELECT 1").unwrap();

    // the server's own limit for a role, directly and through the pool
    sql(&lab, "p", "ALTER ROLE app CONNECTION LIMIT 1");
    let direct = target(&exported(&lab, &["p", "dsn", "--direct"]), Some("app"), None);
    let _one = open(&direct);
    let (code, words) = refused(&direct);
    assert!(code == "53300" && words.contains("too many connections for role \"app\""), "{code}: {words}");

    lab.run(["sandbox", "delete", "p", "--force"]).expect_code(0);
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
    for pid in [&again["pid"], &again["pooler"]["pid"]] {
        assert!(ended(pid.as_u64().unwrap()), "{pid}");
    }
    assert_eq!(crate::status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// What holds for one account and for no other, in a mode without transactions; all of it as nobody.
#[test]
fn an_account_with_settings_of_its_own_as_an_ordinary_user() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let deploy = ["sandbox", "deploy", "postgresql", "--name", "p", "--start", "-c", "shared_buffers=16MB"];
    let user = "app:max_user_connections=1,pool_mode=transaction";
    let pool = ["--pgbouncer", "--pool-mode", "statement", "--pool-user", user];
    let absent = "no role app with a password when it started";
    let started = lab.run(deploy.iter().chain(&pool)).expect_code(0);
    started.expect_said(&["statement pooling", user, absent, "`wringer sandbox restart p` lets it in"]);
    sql(&lab, "p", "CREATE ROLE app LOGIN PASSWORD 'app'");
    sql(&lab, "p", "CREATE ROLE other LOGIN PASSWORD 'app'");
    assert_eq!(sandbox(&lab, "p")["pooler"]["unknown_users"], serde_json::json!(["app"]));
    let pooled = || exported(&lab, &["p", "dsn"]);
    refused(&target(&pooled(), Some("app"), None));
    let restarted = lab.run(["sandbox", "restart", "p"]).expect_code(0);
    assert!(!restarted.stderr.contains(absent), "{}", restarted.stderr);

    // in statement mode there are no transactions of several statements
    let mut other = open(&target(&pooled(), Some("other"), None));
    other.execute("BEGIN").expect_err("it is refused, and the connection is closed");
    let log = std::fs::read_to_string(lab.home().join("sandboxes/p/log/pgbouncer.log")).unwrap();
    assert!(log.contains("transaction blocks not allowed in statement pooling mode"), "{log}");
    let mut others = [(); 2].map(|()| open(&target(&pooled(), Some("other"), None)));
    // the account has them, and one server connection
    let app = target(&pooled(), Some("app"), None);
    let mut console = open(&target(&pooled(), None, Some("pgbouncer")));
    let mut held = begun(&app);
    let second = std::thread::spawn({
        let app = app.clone();
        move || open(&app).query("SELECT 1").map(|rows| rows.len())
    });
    assert!(wait_until(PATIENCE, || waiting(&mut console, "app") == 1), "the second one waits");
    for other in &mut others {
        other.query("SELECT 1").unwrap();
    }
    held.execute("COMMIT").unwrap();
    assert_eq!(second.join().unwrap().unwrap(), 1);
    let status = sandbox(&lab, "p");
    assert_eq!(status["pooler"]["users"][0]["settings"][0], "max_user_connections=1", "{status:#}");
    lab.run(["sandbox", "delete", "p", "--force"]).expect_code(0);
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
}

fn fill_and_load(lab: &Lab, dsn: &str) {
    let wringer = |words: &[&str]| Ran::of(lab.command(words).env("WRINGER_DSN", dsn));
    wringer(&["fill", "--table-size=1000", "--create-secondary=off"]).expect_code(0);
    let flags = ["load", "oltp_point_select", "--table-size=1000", "--threads=24", "--events=400", "--time=0"];
    let said = json(&wringer(&[&flags[..], &["--db-ps-mode=disable", "-o", "json"]].concat()).expect_code(0));
    let measured = &said["load"]["measured"];
    assert_eq!(measured["transactions"], 400, "{said:#}");
    assert!(measured["errors"].as_object().unwrap().is_empty(), "{said:#}");
    wringer(&flags).expect_code(3).expect_said(&["prepared statement", "--db-ps-mode=disable", "--pool-mode session"]);
}

/// What a supervisor holds goes with it: the pooler, and the server behind it.
#[test]
fn a_controller_that_is_killed_takes_the_pooler_with_it() {
    let lab = Lab::new(WRINGER);
    let deploy = ["sandbox", "deploy", "postgresql", "--name", "p", "--pgbouncer"];
    lab.run(deploy.iter().chain(&["-c", "shared_buffers=16MB"])).expect_code(0);
    // a port that is taken, by this test or meanwhile by another program: it moves
    let port = sandbox(&lab, "p")["pooler"]["port"].as_u64();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", u16::try_from(port.unwrap()).unwrap()));
    lab.run(["sandbox", "start", "p", "--for", "10m"]).expect_code(0).expect_said(&["pooler  pgBouncer, port"]);
    let there = sandbox(&lab, "p");
    assert_ne!(there["pooler"]["port"].as_u64(), port);
    // in session mode prepared statements work
    let dsn = exported(&lab, &["p", "dsn"]);
    let wringer = |words: &[&str]| Ran::of(lab.command(words).env("WRINGER_DSN", &dsn));
    wringer(&["fill", "--table-size=1000", "--create-secondary=off"]).expect_code(0);
    let flags = ["load", "oltp_point_select", "--table-size=1000", "--threads=4", "--events=100", "--time=0"];
    wringer(&flags).expect_code(0);
    let runs = run::find_runs(&host::places::Places::below(lab.home())).unwrap();
    let controller = runs[0].controller.unwrap();
    signal(controller.pid.into(), Signal::KILL);
    for pid in [&there["pid"], &there["pooler"]["pid"]] {
        assert!(ended(pid.as_u64().unwrap()), "{pid}");
    }
    assert!(wait_until(PATIENCE, || crate::status(&lab)["runs"].as_array().unwrap().is_empty()));
    lab.run(["sandbox", "delete", "p"]).expect_code(0);
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
}

#[test]
fn what_is_no_pool_is_refused() {
    let lab = Lab::new(WRINGER);
    let deploy = |words: &[&str]| lab.run([&["sandbox", "deploy"], words].concat());
    deploy(&["postgresql", "--pool-size", "2"]).expect_code(2).expect_said(&["--pgbouncer"]);
    deploy(&["postgresql", "--pgbouncer", "--pool-size", "0"]).expect_code(2);
    deploy(&["postgresql", "--pgbouncer", "--pool-option", "listen_addr=*"])
        .expect_code(2)
        .expect_said(&["listen_addr=*", "Wringer sets it itself"]);
    for user in ["app:pool_size=3", "app", "app:pool_mode=none"] {
        deploy(&["postgresql", "--pgbouncer", "--pool-user", user])
            .expect_code(2)
            .expect_said(&["NAME:max_user_connections=N"]);
    }
    let twice = ["--pool-user", "app:pool_mode=session", "--pool-user", "app:pool_mode=statement"];
    deploy(&[&["postgresql", "--pgbouncer"][..], &twice].concat()).expect_code(2).expect_said(&["named twice"]);
    deploy(&["mariadb", "--pgbouncer"]).expect_code(2).expect_said(&["PostgreSQL alone", "mariadb"]);
    // before a server is looked for
    deploy(&["mariadb@99.9", "--pgbouncer"]).expect_code(2).expect_said(&["PostgreSQL alone"]);
}

/// One application is held back while others get in, by the server's own limits.
#[test]
fn a_limit_of_an_account_leaves_room_for_others() {
    let lab = Lab::new(WRINGER);
    let options = ["-c", "max_user_connections=2", "-c", "innodb_buffer_pool_size=16M", "--start"];
    lab.run(["sandbox", "deploy", "mariadb", "--name", "m"].iter().chain(&options)).expect_code(0);
    sql(&lab, "m", "CREATE USER app@'%' IDENTIFIED BY 'app'");
    sql(&lab, "m", "CREATE USER other@'%' IDENTIFIED BY 'app' WITH MAX_USER_CONNECTIONS 1");
    let of = |user: &str| target(&exported(&lab, &["m", "dsn"]), Some(user), Some("information_schema"));
    let (app, other) = (of("app"), of("other"));
    // before a load: the default is not for an administrator of MariaDB
    load::capacity::check(&target(&exported(&lab, &["m", "dsn"]), None, None), 4, 0).unwrap();
    let full = load::capacity::check(&app, 4, 0).unwrap_err().to_string();
    assert!(full.contains("max_user_connections"), "{full}");
    let _two = [open(&app), open(&app)];
    let (code, words) = refused(&app);
    assert!(code == "1203" && words.contains("max_user_connections"), "{code}: {words}");
    let _one = open(&other);
    let (code, words) = refused(&other);
    assert!(code == "1226" && words.contains("max_user_connections"), "{code}: {words}");
    lab.run(["sandbox", "delete", "m", "--force"]).expect_code(0);
}
