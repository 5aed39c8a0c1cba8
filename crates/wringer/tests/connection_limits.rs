// SPDX-License-Identifier: Apache-2.0
//! `wringer connections` on real servers: what it sees, what its statements do, and that the limits come back whatever happens in the middle.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use load::admin::Connection;
use load::{Password, Target};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const PATIENCE: Duration = Duration::from_secs(60);
/// An account's name as an attacker would have it.
const HOSTILE: &str = "o'brien`\"@%; -- \\";

fn read(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// A server that stands.
struct Server {
    lab: Lab,
    target: Target,
}

impl Server {
    fn start(words: &[&str]) -> Self {
        let lab = Lab::new(WRINGER);
        lab.run([&["sandbox", "deploy", words[0], "--name", "s", "--start"], &words[1..]].concat()).expect_code(0);
        let dsn = lab.run(["sandbox", "export", "s", "dsn", "--direct"]).expect_code(0).stdout;
        Self { lab, target: dsn.trim().parse().unwrap() }
    }

    fn sql(&self, statements: &[&str]) {
        let mut connection = Connection::open(&self.target).unwrap();
        for statement in statements {
            connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    fn as_user(&self, user: &str) -> Result<Connection, load::Error> {
        let mut target = Target { user: user.into(), password: Password::new("app"), ..self.target.clone() };
        target.database = target.database.filter(|_| target.protocol == load::Protocol::Postgresql);
        Connection::open(&target)
    }

    fn open(&self, user: &str, count: usize) -> Vec<Connection> {
        (0..count).map(|_| self.as_user(user).unwrap()).collect()
    }

    /// Code and words of the refusal.
    fn refused(&self, user: &str) -> (String, String) {
        let error = self.as_user(user).map(drop).expect_err("it is refused");
        (error.code().unwrap_or_default().to_owned(), error.to_string())
    }

    fn audit(&self, words: &[&str]) -> Value {
        let all = [&["connections", "audit", "--sandbox", "s", "-o", "json"], words].concat();
        read(&self.lab.run(all).expect_code(0))
    }

    fn plan(&self, words: &[&str]) -> Ran {
        self.lab.run([&["connections", "plan", "--sandbox", "s", "-o", "json"], words].concat())
    }

    /// A server still ends connections when its clients have gone.
    fn until_in_use(&self, account: &str, count: u64) {
        let seen = || of(&self.audit(&[]), account)["in_use"].as_u64();
        assert!(wait_until(PATIENCE, || seen() == Some(count)), "{account}: {:?}, not {count}", seen());
    }

    /// By SQL of this test's own.
    fn stored(&self, sql: &str) -> Vec<(String, String)> {
        let rows = Connection::open(&self.target).unwrap().query(sql).unwrap();
        (0..rows.len()).map(|row| (rows.text(row, 0).unwrap(), rows.text(row, 1).unwrap())).collect()
    }

    /// As a person would, with what is in the file and nothing else.
    fn restore(&self, file: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let statements: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        assert!(!statements.is_empty(), "{text}");
        self.sql(&statements);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lab.run(["sandbox", "delete", "s", "--force"]);
    }
}

/// An account of an audit or a plan.
fn of<'a>(found: &'a Value, account: &str) -> &'a Value {
    let accounts = found["accounts"].as_array().unwrap();
    accounts.iter().find(|it| it["account"] == account).unwrap_or_else(|| panic!("no {account} in {found:#}"))
}

const STORED_BY_MARIADB: &str =
    "SELECT User, max_user_connections FROM mysql.user WHERE User NOT IN ('wringer', 'mariadb.sys') ORDER BY User";
const STORED_BY_MYSQL: &str = "SELECT User, max_user_connections FROM mysql.user WHERE User NOT LIKE 'mysql.%' AND User NOT IN ('wringer', 'root', 'boss', 'dba', 'chief') ORDER BY User";
const STORED_BY_POSTGRESQL: &str =
    "SELECT rolname, rolconnlimit FROM pg_roles WHERE rolcanlogin AND NOT rolsuper ORDER BY rolname";

/// A limit that keeps a leaking client from the connections of all others, and what says which limit it was.
#[test]
fn mariadb_a_leaking_account_is_refused_and_the_application_is_served() {
    let server = Server::start(&["mariadb@10.11", "-c", "max_connections=12", "-c", "innodb_buffer_pool_size=32M"]);
    let hostile = format!("`{}`@'%'", HOSTILE.replace('`', "``"));
    server.sql(&[
        "CREATE USER app@'%' IDENTIFIED BY 'app'",
        "CREATE USER leaks@'%' IDENTIFIED BY 'app' WITH MAX_USER_CONNECTIONS 11",
        "CREATE USER idle@'%' IDENTIFIED BY 'app'",
        "CREATE USER adm@'%' IDENTIFIED BY 'app'",
        "CREATE USER locked@'%' IDENTIFIED BY 'app' ACCOUNT LOCK",
        "GRANT SUPER ON *.* TO adm@'%'",
        &format!("CREATE USER {hostile} IDENTIFIED BY 'app'"),
    ]);
    let mut held = [server.open("app", 2), server.open("leaks", 4)];
    let hostile_one = server.as_user(HOSTILE).unwrap();
    until_connected(&mut held[0][0], 7);
    let audit = server.audit(&["--for", "300ms", "--every", "100ms"]);
    assert_eq!((&audit["server"]["limit"], &audit["server"]["in_use"]), (&json!(12), &json!(7)), "{audit:#}");
    assert_eq!((&of(&audit, "app@%")["in_use"], &of(&audit, "leaks@%")["limit"]), (&json!(2), &json!(11)));
    assert_eq!(
        (&of(&audit, &format!("{HOSTILE}@%"))["peak"], &of(&audit, "adm@%")["reserve_by"]),
        (&json!(1), &json!("SUPER"))
    );
    assert_eq!(audit["overbooking"]["is_overbooked"], true);
    let unlimited = audit["overbooking"]["unlimited"].as_array().unwrap();
    assert!(unlimited.contains(&json!("app@%")) && !unlimited.contains(&json!("locked@%")), "{audit:#}");
    assert!(audit["looks"].as_u64().unwrap() >= 2 && audit["missing"] == json!([]), "{audit:#}");
    // an audit of a full server has one connection for an administrator, and would be refused a second one
    let before = opened_in_all(&mut held[0][0]);
    server.audit(&["--for", "300ms", "--every", "100ms"]);
    assert_eq!(opened_in_all(&mut held[0][0]) - before, 1);

    // a plan alone changes nothing
    let former = server.stored(STORED_BY_MARIADB);
    let words = ["--floor", "2", "--limit", "leaks=5"];
    let plan = read(&server.plan(&words).expect_code(0));
    assert_eq!(server.stored(STORED_BY_MARIADB), former);
    assert_eq!((&of(&plan, "app@%")["limit"], &of(&plan, "leaks@%")["limit"]), (&json!(3), &json!(5)), "{plan:#}");
    assert_eq!((&of(&plan, "idle@%")["limit"], &of(&plan, "adm@%")["limit"]), (&Value::Null, &Value::Null));
    assert_eq!((plan["statements"].as_array().unwrap().len(), plan["restore"].as_array().unwrap().len()), (3, 3));
    let bytes = of(&plan, "app@%")["session_bytes_max"].as_u64().unwrap();
    assert_eq!(of(&plan, "app@%")["claim_bytes"], json!(bytes * 3));
    assert!(bytes > 10_000, "{plan:#}");

    // applied: what was open is not counted, so the accounts begin anew
    let file = server.lab.home().join("restore.sql");
    let to = ["--apply", "--restore-file", file.to_str().unwrap()];
    server.plan(&[&words[..], &to].concat()).expect_code(0);
    drop((held, hostile_one));
    server.until_in_use("app@%", 0);
    server.until_in_use("leaks@%", 0);
    let leaking = server.open("leaks", 5);
    let (code, said) = server.refused("leaks");
    assert_eq!(code, "1226", "{said}");
    let served = server.open("app", 3);
    let error = &server.audit(&["--error", &said])["explained_error"];
    assert_eq!((&error["code"], &error["limits"][0]["user"]), (&json!("1226"), &json!("leaks")), "{error:#}");
    assert_eq!((&error["hits"][0]["value"], &error["hits"][0]["in_use"]), (&json!(5), &json!(5)), "{error:#}");
    drop((leaking, served));

    // a file that is there is not written over, and it restores exactly
    let again = server.plan(&[&["--limit", "app=7"][..], &to].concat()).expect_code(3);
    again.expect_said(&["is there already"]);
    server.restore(&file);
    assert_eq!(server.stored(STORED_BY_MARIADB), former);
    everything_taken(&server);
}

/// A server still ends connections when its clients have gone: until only these are left, with the one that asks.
fn until_connected(asks: &mut Connection, count: u64) {
    let mut seen = || asks.query("SHOW STATUS LIKE 'Threads_connected'").unwrap().parse::<u64>(0, 1);
    assert!(wait_until(PATIENCE, || seen() == Some(count)), "connected: {:?}, not {count}", seen());
}

/// Connections since the server's start, open ones and others.
fn opened_in_all(asks: &mut Connection) -> u64 {
    asks.query("SHOW GLOBAL STATUS LIKE 'Connections'").unwrap().parse(0, 1).unwrap()
}

/// Without the plan the application is refused; the error is explained. MariaDB counts such a refusal only when the reserve is taken, too.
fn everything_taken(server: &Server) {
    // one of the twelve: it sees when the server has ended all others
    let mut own = Connection::open(&server.target).unwrap();
    until_connected(&mut own, 1);
    let all = server.open("leaks", 10);
    let last = server.open("app", 1);
    let (code, said) = server.refused("app");
    assert_eq!(code, "1040", "{said}");
    until_connected(&mut own, 12);
    // the one more that is for an administrator
    let error = &server.audit(&["--error", &said])["explained_error"];
    assert_eq!((&error["hits"][0]["value"], &error["hits"][0]["in_use"]), (&json!(12), &json!(12)), "{error:#}");
    let counted = || {
        let audit = server.audit(&[]);
        let found = audit["pressure"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["counter"] == "Connection_errors_max_connections");
        found.unwrap()["value"].as_str().unwrap().parse::<u64>().unwrap()
    };
    until_connected(&mut own, 12);
    assert_eq!(counted(), 0);
    until_connected(&mut own, 12);
    let reserve = server.open("adm", 1);
    assert_eq!(server.refused("adm").0, "1040");
    drop((own, all, last, reserve));
    assert!(wait_until(PATIENCE, || server.plan(&[]).code == Some(0)), "there is room again");
    assert_eq!(counted(), 1);
}

/// The same account in the dialect of MySQL, which has no limit in GRANT any more.
#[test]
fn mysql_applies_a_plan_and_restores_what_was_before() {
    let server = Server::start(&["mysql@9", "-c", "max_connections=12", "-c", "innodb_buffer_pool_size=32M"]);
    let hostile = format!("`{}`@'%'", HOSTILE.replace('`', "``"));
    server.sql(&[
        "CREATE USER app@'%' IDENTIFIED BY 'app'",
        "CREATE USER leaks@'%' IDENTIFIED BY 'app' WITH MAX_USER_CONNECTIONS 11 MAX_QUERIES_PER_HOUR 1000000",
        // an administrator by a role of a role
        "CREATE ROLE dba, chief",
        "GRANT CONNECTION_ADMIN ON *.* TO dba",
        "GRANT dba TO chief",
        "CREATE USER boss@'%' IDENTIFIED BY 'app'",
        "GRANT chief TO boss@'%'",
        "SET DEFAULT ROLE chief TO boss@'%'",
        &format!("CREATE USER {hostile} IDENTIFIED BY 'app'"),
    ]);
    let held = [server.open("app", 2), server.open("leaks", 4), server.open(HOSTILE, 1), server.open("boss", 1)];
    let former = server.stored(STORED_BY_MYSQL);
    let file = server.lab.home().join("restore.sql");
    let words = ["--floor", "2", "--limit", "leaks=5", "--apply", "--restore-file", file.to_str().unwrap()];
    let plan = read(&server.plan(&words).expect_code(0));
    let bytes = of(&plan, "app@%")["session_bytes_max"].as_u64().unwrap();
    assert_eq!(of(&plan, "app@%")["claim_bytes"], json!(bytes * 3), "{plan:#}");
    assert_eq!(of(&plan, "boss@%")["limit"], Value::Null, "{plan:#}");
    assert_eq!(of(&server.audit(&[]), "boss@%")["reserve_by"], "CONNECTION_ADMIN");
    let limits =
        [("app", "3"), ("leaks", "5"), (HOSTILE, "2")].map(|(user, limit)| (user.to_owned(), limit.to_owned()));
    assert_eq!(server.stored(STORED_BY_MYSQL), limits, "{plan:#}");
    // what was open is not counted, so the accounts begin anew
    drop(held);
    server.until_in_use("app@%", 0);
    server.until_in_use("leaks@%", 0);
    let leaking = server.open("leaks", 5);
    let (code, said) = server.refused("leaks");
    assert_eq!(code, "1226", "{said}");
    let served = server.open("app", 3);
    let error = &server.audit(&["--error", &said])["explained_error"];
    assert_eq!((&error["hits"][0]["value"], &error["hits"][0]["in_use"]), (&json!(5), &json!(5)), "{error:#}");
    drop((leaking, served));
    server.restore(&file);
    assert_eq!(server.stored(STORED_BY_MYSQL), former);
    let queries = "SELECT User, max_questions FROM mysql.user WHERE User = 'leaks'";
    assert_eq!(server.stored(queries)[0].1, "1000000", "no other limit of the account is touched");
}

/// A server with pgBouncer in front of it, and all that is asked of one.
#[test]
fn postgresql_by_role_and_through_a_pooler() {
    let of_user = "wringer:max_user_connections=2";
    let pool = ["--pgbouncer", "--pool-size", "4", "--pool-option", "max_client_conn=3", "--pool-user", of_user];
    let small = ["postgresql", "-c", "max_connections=20", "-c", "shared_buffers=16MB"];
    let server = Server::start(&[&small[..], &pool].concat());
    who_gets_no_limit(&server);
    a_role_is_refused(&server);
    cut_in_the_middle(&server);
    changed_meanwhile(&server);
    through_a_pooler(&server);
    gone_in_the_middle(server);
}

fn who_gets_no_limit(server: &Server) {
    server.sql(&["CREATE ROLE app LOGIN PASSWORD 'app'", "CREATE ROLE nologin"]);
    let file = server.lab.home().join("never.sql");
    let refused = |limit: &str, words: &[&str]| {
        let to = ["--limit", limit, "--apply", "--restore-file", file.to_str().unwrap()];
        server.plan(&to).expect_code(3).expect_said(words);
    };
    refused("wringer=5", &["superuser"]);
    refused("pg_monitor=5", &["the server's own"]);
    refused("nologin=5", &["may not log in"]);
    refused("nobody=5", &["there is no account 'nobody'"]);
    assert!(!file.exists());
    for wrong in [["--limit", "app"], ["--limit", "app=0"], ["--headroom", "0.5"], ["--share", "2"]] {
        server.plan(&wrong).expect_code(2);
    }
}

fn a_role_is_refused(server: &Server) {
    let file = server.lab.home().join("restore.sql");
    let held = server.open("app", 2);
    let audit = server.audit(&[]);
    assert_eq!((&audit["server"]["ordinary"], &of(&audit, "app")["in_use"]), (&json!(17), &json!(2)), "{audit:#}");
    // within its budget a busy machine reads no backend, and says so
    let has_bytes = || {
        let plan = read(&server.plan(&[]).expect_code(0));
        let bytes = of(&plan, "app")["session_bytes_max"].as_u64();
        assert!(bytes.is_some() || plan["missing"][0]["what"] == "memory of backends", "{plan:#}");
        bytes.is_some_and(|bytes| bytes > 100_000)
    };
    assert!(!testkit::is_root() || wait_until(PATIENCE, has_bytes));
    let to = ["--floor", "1", "--apply", "--restore-file", file.to_str().unwrap()];
    let applied = read(&server.plan(&to).expect_code(0));
    assert_eq!(applied["statements"], json!(["ALTER ROLE \"app\" CONNECTION LIMIT 3"]), "{applied:#}");
    let third = server.as_user("app").unwrap();
    let (code, said) = server.refused("app");
    assert_eq!(code, "53300", "{said}");
    let error = &server.audit(&["--error", &said])["explained_error"];
    assert_eq!((&error["hits"][0]["value"], &error["hits"][0]["in_use"]), (&json!(3), &json!(3)), "{error:#}");
    drop((held, third));
    server.restore(&file);
    assert_eq!(server.stored(STORED_BY_POSTGRESQL), [("app".to_owned(), "-1".to_owned())]);
    let shown = server.lab.run(["connections", "audit", "--sandbox", "s", "--all"]).expect_code(0).stdout;
    assert!(shown.contains("for ordinary accounts") && shown.contains("could take all connections"), "{shown}");
}

/// Another session holds the row of the second role: the first statement is done, the second one waits.
fn cut_in_the_middle(server: &Server) {
    let hostile = format!("\"{}\"", HOSTILE.replace('"', "\"\""));
    server.sql(&[
        "CREATE ROLE a LOGIN PASSWORD 'app' CONNECTION LIMIT 9",
        &format!("CREATE ROLE {hostile} LOGIN PASSWORD 'app'"),
    ]);
    let former = server.stored(STORED_BY_POSTGRESQL);
    let mut other = Connection::open(&server.target).unwrap();
    other.query("BEGIN").unwrap();
    other.query(&format!("ALTER ROLE {hostile} CONNECTION LIMIT 17")).unwrap();
    let hostile_limit = format!("{HOSTILE}=4");
    let words = ["--limit", "a=3", "--limit", &hostile_limit, "--apply", "--restore-file"];

    // the server gives up: what was done is undone
    let failed: PathBuf = server.lab.home().join("failed.sql");
    let ran = server.plan(&[&words[..], &[failed.to_str().unwrap()]].concat()).expect_code(4);
    ran.expect_said(&["1 of 2 statements had been run, and are undone"]);
    assert_eq!(server.stored(STORED_BY_POSTGRESQL), former);
    assert!(failed.exists());

    // killed: the file is there, and restores
    let killed: PathBuf = server.lab.home().join("killed.sql");
    let plan = ["connections", "plan", "--sandbox", "s"];
    let mut child = server.lab.start("plan", [&plan[..], &words, &[killed.to_str().unwrap()]].concat());
    let is_half_done = || server.stored(STORED_BY_POSTGRESQL)[0].1 == "3";
    assert!(wait_until(PATIENCE, is_half_done), "{}", server.lab.said("plan"));
    child.kill().unwrap();
    child.wait().unwrap();
    other.query("ROLLBACK").unwrap();
    let text = fs::read_to_string(&killed).unwrap();
    assert!(text.contains("ALTER ROLE \"a\" CONNECTION LIMIT 9;") && text.contains("CONNECTION LIMIT -1;"), "{text}");
    let waiting = "SELECT 'x', count(*) FROM pg_stat_activity \
                   WHERE pid <> pg_backend_pid() AND query LIKE 'ALTER ROLE%' AND state = 'active'";
    assert!(wait_until(PATIENCE, || server.stored(waiting)[0].1 == "0"), "what was sent is over");
    server.restore(&killed);
    assert_eq!(server.stored(STORED_BY_POSTGRESQL), former);
}

/// Somebody else sets a limit while the connections are looked at. The plan knows only the limit before: nothing is applied, and no file would restore it.
fn changed_meanwhile(server: &Server) {
    let former = server.stored(STORED_BY_POSTGRESQL);
    let file: PathBuf = server.lab.home().join("meanwhile.sql");
    let words = ["--for", "10s", "--limit", "a=3", "--apply", "--restore-file", file.to_str().unwrap()];
    let mut child = server.lab.start("meanwhile", [&["connections", "plan", "--sandbox", "s"][..], &words].concat());
    let looking =
        "SELECT 'x', count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%walsender%'";
    assert!(wait_until(PATIENCE, || server.stored(looking)[0].1 != "0"), "{}", server.lab.said("meanwhile"));
    server.sql(&["ALTER ROLE a CONNECTION LIMIT 12"]);
    let code = child.wait().unwrap().code();
    let said = server.lab.said("meanwhile");
    assert!(code == Some(3) && said.contains("the limit of a changed meanwhile: it was 9"), "{code:?}: {said}");
    assert!(said.contains("is 12 now") && !file.exists(), "{said}");
    server.sql(&["ALTER ROLE a CONNECTION LIMIT 9"]);
    assert_eq!(server.stored(STORED_BY_POSTGRESQL), former);
}

/// The server goes away after the first statement: nobody can undo it now. The exit code says so, and the file restores when the server is back.
fn gone_in_the_middle(mut server: Server) {
    let former = server.stored(STORED_BY_POSTGRESQL);
    let status = read(&server.lab.run(["sandbox", "status", "s", "-o", "json"]).expect_code(0));
    let pid = status["sandboxes"][0]["pid"].as_u64().unwrap().to_string();
    let mut other = Connection::open(&server.target).unwrap();
    other.query("BEGIN").unwrap();
    other.query("ALTER ROLE app CONNECTION LIMIT 17").unwrap();
    let file: PathBuf = server.lab.home().join("gone.sql");
    let words = ["--limit", "a=3", "--limit", "app=4", "--apply", "--restore-file", file.to_str().unwrap()];
    let plan = ["connections", "plan", "--sandbox", "s"];
    let mut child = server.lab.start("gone", [&plan[..], &words].concat());
    let is_half_done = || server.stored(STORED_BY_POSTGRESQL)[0].1 == "3";
    assert!(wait_until(PATIENCE, is_half_done), "{}", server.lab.said("gone"));
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let code = child.wait().unwrap().code();
    let said = server.lab.said("gone");
    assert!(code == Some(5) && said.contains(file.to_str().unwrap()), "{code:?}: {said}");
    drop(other);
    server.lab.run(["sandbox", "restart", "s"]).expect_code(0);
    server.target = server.lab.run(["sandbox", "export", "s", "dsn", "--direct"]).stdout.trim().parse().unwrap();
    server.restore(&file);
    assert_eq!(server.stored(STORED_BY_POSTGRESQL), former);
}

/// pgBouncer's limits beside those of the server behind it.
fn through_a_pooler(server: &Server) {
    let dsn = server.lab.run(["sandbox", "export", "s", "dsn"]).stdout.trim().to_owned();
    let pooled: Target = dsn.parse().unwrap();
    let held: Vec<Connection> = (0..2).map(|_| Connection::open(&pooled).unwrap()).collect();
    let audit = server.audit(&[]);
    let pooler = &audit["pooler"];
    assert_eq!((&pooler["max_client_conn"], &pooler["clients"]), (&json!(3), &json!(2)), "{audit:#}");
    assert_eq!((&pooler["default_pool_size"], &pooler["pools"][0]["limit"]), (&json!(4), &json!(4)), "{audit:#}");
    assert_eq!(pooler["servers_allowed"], 2, "the user's own limit, whether the console shows it or not: {audit:#}");
    // a console that does not show it (1.18) is not believed to have none
    let named = server.audit(&["--pgbouncer", &dsn.replace("/sbtest", "/pgbouncer")]);
    let gaps = named["missing"].as_array().unwrap();
    let is_hidden = gaps.iter().any(|it| it["what"] == "pgBouncer's limits of single users");
    let allowed = if is_hidden { Value::Null } else { json!(2) };
    assert_eq!(named["pooler"]["servers_allowed"], allowed, "{named:#}");
    let third = Connection::open(&pooled).unwrap();
    let error = Connection::open(&pooled).map(drop).unwrap_err().to_string();
    let explained = read(&server.lab.run(["connections", "audit", "--error", &error, "-o", "json"]).expect_code(0));
    assert_eq!(explained["schema"], 1, "{explained}");
    assert_eq!(explained["explained_error"]["limits"][0]["kind"], "pooler_clients", "{error}: {explained:#}");
    drop((held, third));
}

#[test]
fn an_error_needs_no_server() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let said = lab.run(["connections", "audit", "--error", "1226"]).expect_code(0).stdout;
    assert!(said.contains("its own limit"), "{said}");
    lab.run(["connections", "audit", "--error", "1045"]).expect_code(3).expect_said(&["says nothing of a limit"]);
    lab.run(["connections", "audit"]).expect_code(2).expect_said(&["whose connections?"]);
    lab.run(["connections", "plan"]).expect_code(2);
    lab.run(["connections", "audit", "--every", "1ms"]).expect_code(2);
    lab.run(["connections", "plan", "--mysql-socket=/nowhere.sock"]).expect_code(3);
}
