// SPDX-License-Identifier: Apache-2.0
//! Waits whose cause is known are planted in real servers that log all statements: `wringer stalls explain` finds them in that log, with what they
//! cost, and finds no stall in what asked to wait or worked long.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, PATIENCE, Server, json};
use load::admin::Connection;
use serde_json::Value;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use testkit::wait_until;

const VICTIMS: usize = 3;
/// The shortest time for which a lock is held.
const HELD: Duration = Duration::from_millis(600);

/// Three connections ask while another one holds, and goes on only when all three wait. What they waited for, in microseconds, by their own clocks.
fn planted(server: &Server, hold: &[&str], asks: &str, release: &str) -> u64 {
    let mut holder = server.connect();
    for sql in hold {
        holder.execute(sql).unwrap();
    }
    let begin = Barrier::new(VICTIMS + 1);
    thread::scope(|scope| {
        let victim = |number: usize| {
            let begin = &begin;
            scope.spawn(move || {
                let mut connection: Connection = server.connect();
                begin.wait();
                let started = Instant::now();
                connection.execute(&asks.replace("{}", &number.to_string())).unwrap();
                u64::try_from(started.elapsed().as_micros()).unwrap()
            })
        };
        let victims: Vec<_> = (1..=VICTIMS).map(victim).collect();
        begin.wait();
        thread::sleep(HELD);
        holder.execute(release).unwrap();
        victims.into_iter().map(|victim| victim.join().unwrap()).sum()
    })
}

/// Statements as they usually are, of each class.
fn usual(server: &Server, classes: &[&str]) {
    let mut connection = server.connect();
    for number in 0..200 {
        for sql in classes {
            connection.execute(&sql.replace("{}", &(number % 10 + 1).to_string())).unwrap();
        }
    }
}

fn explained(server: &Server, log: &str) -> Value {
    let log = server.lab.home().join("sandboxes/s/data").join(log);
    json(&server.lab.run(["stalls", "explain", log.to_str().unwrap(), "-o", "json"]).expect_code(0))
}

/// Beside what is planted, a busy machine makes stalls of its own; none is half as long.
fn of_the_length(found: &Value) -> impl Iterator<Item = &Value> {
    let least_us = u64::try_from(HELD.as_micros()).unwrap() / 2;
    found["stalls"].as_array().unwrap().iter().filter(move |stall| stall["length_us"].as_u64() > Some(least_us))
}

/// One stall of three victims that lost, within a tenth, what they waited for.
#[track_caller]
fn expect_stall(found: &Value, cause: &str, class: &str, waited_us: u64) {
    let is_it = |stall: &&Value| stall["victims"][0]["statement"].as_str().is_some_and(|it| it.contains(class));
    let stalls: Vec<&Value> = of_the_length(found).filter(is_it).collect();
    let [stall] = stalls.as_slice() else { panic!("not one of {class}: {found:#}") };
    assert_eq!(stall["cause"], cause, "{stall:#}");
    assert_eq!(stall["victim_count"].as_u64(), Some(VICTIMS as u64), "{stall:#}");
    let lost = stall["lost_query_us"].as_u64().unwrap();
    assert!(lost.abs_diff(waited_us) < waited_us / 10, "{lost} of {waited_us}: {stall:#}");
}

/// `rows`, `table`: the causes that this server's log shows, of a wait for a row and for a table.
fn on_the_mysql_family(flavour: &str, options: &[&str], rows: &str, table: &str) -> Server {
    let causes = (rows, table);
    let options = [&["long_query_time=0", "slow_query_log=ON", "slow_query_log_file=slow.log"], options].concat();
    let server = Server::start(flavour, &options, &[]);
    let mut connection = server.connect();
    for sql in [
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, a int) ENGINE=InnoDB",
        "INSERT INTO shop.t VALUES (1,0),(2,0),(3,0),(4,0),(5,0),(6,0),(7,0),(8,0),(9,0),(10,0)",
    ] {
        connection.execute(sql).unwrap();
    }
    let (update, select) = ("UPDATE shop.t SET a = a + 1 WHERE id = {}", "SELECT a FROM shop.t WHERE id = {}");
    usual(&server, &[update, select, "DO SLEEP(0.000{})"]);
    // the log has whole seconds: a usual statement that was slow in the same second would be one victim more
    thread::sleep(Duration::from_secs(2));
    let rows = planted(&server, &["BEGIN", "DELETE FROM shop.t WHERE id < 5"], update, "ROLLBACK");
    let table = planted(&server, &["LOCK TABLES shop.t WRITE"], select, "UNLOCK TABLES");
    connection.execute("DO SLEEP(0.4)").unwrap();
    let found = explained(&server, "slow.log");
    expect_stall(&found, causes.0, "update shop.t", rows);
    expect_stall(&found, causes.1, "select a from shop.t", table);
    assert_eq!(of_the_length(&found).count(), 2, "{found:#}");
    assert!(found["account"]["by_cause"]["free_list_backoff"].is_null(), "{found:#}");
    assert!(found["account"]["own_work_query_us"].as_u64() >= Some(390_000), "{found:#}");
    server
}

/// Its `Lock_time` has waits for tables alone.
#[test]
fn the_slow_log_of_mariadb_shows_the_wait_for_a_table_and_not_that_for_a_row() {
    on_the_mysql_family(MARIADB, &["log_slow_verbosity=innodb,query_plan"], "unknown", "metadata_lock");
}

/// Its `Lock_time` has waits for rows alone.
#[test]
fn the_slow_log_of_mysql_shows_the_wait_for_a_row_and_not_that_for_a_table() {
    let options = ["log_slow_extra=ON", "performance_schema=OFF"];
    let server = on_the_mysql_family("mysql", &options, "row_lock", "unknown");
    // without performance_schema, a watch goes on without the threads of connections
    let ran = server.lab.run(["stalls", "watch", "--sandbox", "s", "--for=1s", "-o", "json"]).expect_code(0);
    let summary: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let [missing] = summary["missing"].as_array().unwrap().as_slice() else { panic!("one thing: {summary:#}") };
    assert_eq!(missing["what"], "which thread is whose", "{summary:#}");
    assert!(missing["remedy"].as_str().unwrap().contains("performance_schema=ON"), "{summary:#}");
}

/// Waits have a name where the server is told to log them: `log_lock_waits`.
#[test]
fn a_wait_in_the_log_of_postgresql_has_a_name_where_waits_are_logged() {
    let options = [
        "logging_collector=on",
        "log_filename=wringer.log",
        "log_line_prefix=%m [%p] ",
        "log_min_duration_statement=0",
    ];
    let server = Server::start("postgresql", &options, &[]);
    let mut connection = server.connect();
    for table in ["t", "u"] {
        let sql = format!("CREATE TABLE {table} AS SELECT generate_series(1, 10) AS id, 0 AS a");
        connection.execute(&sql).unwrap();
    }
    let delete = |table| format!("DELETE FROM {table} WHERE id < 5");
    let update = "UPDATE t SET a = a + 1 WHERE id = {}";
    usual(&server, &[update]);
    let unnamed = planted(&server, &["BEGIN", &delete("t")], update, "ROLLBACK");

    for sql in [
        "ALTER SYSTEM SET log_lock_waits = on",
        "ALTER SYSTEM SET deadlock_timeout = '100ms'",
        "SELECT pg_reload_conf()",
    ] {
        connection.execute(sql).unwrap();
    }
    assert!(wait_until(PATIENCE, || server.connect().query("SHOW log_lock_waits").unwrap().text(0, 0).as_deref()
        == Some("on")));
    let (update, select) = ("UPDATE u SET a = a + 1 WHERE id = {}", "SELECT a FROM u WHERE id = {}");
    usual(&server, &[update, select]);
    let rows = planted(&server, &["BEGIN", &delete("u")], update, "ROLLBACK");
    let table = planted(&server, &["BEGIN", "LOCK TABLE u"], select, "ROLLBACK");

    let mut found = Value::Null;
    wait_until(PATIENCE, || {
        found = explained(&server, "log/wringer.log");
        found["account"]["lost_query_us"].as_u64() > Some(unnamed + rows + table / 2)
    });
    expect_stall(&found, "unknown", "update t", unnamed);
    expect_stall(&found, "row_lock", "update u", rows);
    expect_stall(&found, "metadata_lock", "select a from u", table);
    // the same where the server logs waits alone, each message with its SQLSTATE
    for sql in [
        "ALTER SYSTEM SET log_error_verbosity = verbose",
        "ALTER SYSTEM SET log_min_duration_statement = -1",
        "SELECT pg_reload_conf()",
    ] {
        connection.execute(sql).unwrap();
    }
    let logs_durations = || server.connect().query("SHOW log_min_duration_statement").unwrap().text(0, 0);
    assert!(wait_until(PATIENCE, || logs_durations().as_deref() == Some("-1")));
    let locking = "SELECT a FROM u WHERE id = {} FOR UPDATE";
    let alone = planted(&server, &["BEGIN", &delete("u")], locking, "ROLLBACK");
    wait_until(PATIENCE, || {
        found = explained(&server, "log/wringer.log");
        found["account"]["lost_query_us"].as_u64() > Some(unnamed + rows + table + alone / 2)
    });
    expect_stall(&found, "row_lock", "for update", alone);
}
