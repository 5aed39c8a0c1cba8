// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls watch` beside real servers: waits that are planted are told with their connection, length and cause; what only looks like one is
//! not; waits for a free page are told as their clients felt them, and make the counter.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, Server};
use load::admin::Connection;
use serde_json::Value;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What one of the servers' clients felt.
#[derive(Debug, Clone)]
struct Felt {
    connection: u64,
    started_us: u64,
    took_us: u64,
}

impl Felt {
    fn ended_us(&self) -> u64 {
        self.started_us + self.took_us
    }
}

fn unix_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A connection that has been there for a while, and knows its number.
struct Client {
    connection: Connection,
    number: u64,
}

impl Client {
    fn of(server: &Server, own: &str) -> Self {
        let mut connection = server.connect();
        let number = connection.query(own).unwrap().text(0, 0).unwrap().parse().unwrap();
        Self { connection, number }
    }

    fn run(&mut self, sql: &str) -> Felt {
        let (started_us, began) = (unix_us(), Instant::now());
        self.connection.execute(sql).unwrap();
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap();
        Felt { connection: self.number, started_us, took_us }
    }
}

const MYSQL: &str = "SELECT CONNECTION_ID()";
const POSTGRESQL: &str = "SELECT pg_backend_pid()";

/// A watch that runs beside.
struct Watch<'a> {
    server: &'a Server,
    child: Child,
    name: &'static str,
}

impl<'a> Watch<'a> {
    /// Until it looks.
    fn start(server: &'a Server, name: &'static str, args: &[&str]) -> Self {
        let args = [&["stalls", "watch", "--sandbox", "s", "-o", "json"], args].concat();
        let child = server.lab.start(name, &args);
        assert!(testkit::wait_until(accounted::PATIENCE, || server.lab.said(name).contains("watching ")));
        Self { server, child, name }
    }

    /// Its lines: stalls, and the summary.
    fn end(mut self) -> (ExitStatus, Vec<Value>, Value) {
        let status = self.child.wait().unwrap();
        let said = self.server.lab.said(self.name);
        let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let (summary, stalls): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(|it| it["kind"] == "summary");
        let [summary] = summary.as_slice() else { panic!("one summary: {said}") };
        assert_eq!(summary["stalls"].as_array().unwrap().len(), stalls.len(), "{said}");
        (status, stalls, summary.clone())
    }
}

/// `asks` waits until the holder has held for as long.
fn planted(holder: &mut Client, victim: &mut Client, hold: &[&str], asks: &str, release: &str) -> Felt {
    for sql in hold {
        holder.run(sql);
    }
    thread::scope(|scope| {
        let waiting = scope.spawn(|| victim.run(asks));
        thread::sleep(Duration::from_millis(400));
        holder.run(release);
        waiting.join().unwrap()
    })
}

/// The one stall of that cause: of this connection, within a tenth or 30 ms as long as it was felt.
#[track_caller]
fn expect_stall<'a>(stalls: &'a [Value], cause: &str, felt: &Felt) -> &'a Value {
    let of_cause: Vec<&Value> = stalls.iter().filter(|stall| stall["cause"] == cause).collect();
    let [stall] = of_cause.as_slice() else { panic!("not one of {cause}: {stalls:#?}") };
    let victims = stall["victims"].as_array().unwrap();
    assert_eq!(victims.len(), 1, "{stall:#}");
    assert_eq!(victims[0]["connection"], felt.connection.to_string(), "{stall:#}");
    let length_us = stall["length_us"].as_u64().unwrap();
    let tolerance_us = (felt.took_us / 10).max(60_000);
    assert!(length_us.abs_diff(felt.took_us) <= tolerance_us, "{length_us} of {felt:?}: {stall:#}");
    // a server that answers late names the wait less often
    assert!(stall["confidence"].as_f64().unwrap() >= 0.5, "{stall:#}");
    stall
}

#[test]
fn mariadb_tells_whose_lock_it_was_and_what_was_asked_for_is_no_stall() {
    let server = Server::start(MARIADB, &[], &[]);
    let client = || Client::of(&server, MYSQL);
    let (mut holder, mut victim, mut third) = (client(), client(), client());
    for sql in [
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, a int) ENGINE=InnoDB",
        "INSERT INTO shop.t VALUES (1,0),(2,0)",
        "CREATE USER few@localhost IDENTIFIED BY 'w'",
        "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'w'",
    ] {
        holder.run(sql);
    }
    let watch = Watch::start(&server, "watch", &["--for=8s", "--fail-on-stall=200ms"]);
    thread::sleep(Duration::from_millis(300));
    let update = "UPDATE shop.t SET a = 4711 WHERE id = 1";
    let row = planted(&mut holder, &mut victim, &["BEGIN", update], update, "ROLLBACK");
    let select = "SELECT a FROM shop.t WHERE id = 2";
    let table = planted(&mut holder, &mut victim, &["LOCK TABLES shop.t WRITE"], select, "UNLOCK TABLES");
    // decoys
    victim.run("SELECT SLEEP(0.4)");
    holder.run("DO GET_LOCK('x', 1)");
    third.run("DO GET_LOCK('x', 0.4)");
    holder.run("DO RELEASE_LOCK('x')");
    let (status, stalls, summary) = watch.end();
    assert_eq!(status.code(), Some(1), "--fail-on-stall");
    let stall = expect_stall(&stalls, "row_lock", &row);
    let holds = format!("held by connection {}", holder.number);
    assert!(stall["evidence"]["for"].as_array().unwrap().iter().any(|it| it == &holds), "{stall:#}");
    let text = stall.to_string();
    assert!(text.contains("update shop.t set a = ? where id = ?") && !text.contains("4711"), "without values: {text}");
    expect_stall(&stalls, "metadata_lock", &table);
    let unasked = [&victim, &third].map(|it| it.number.to_string());
    let others: Vec<&Value> =
        stalls.iter().filter(|it| !["row_lock", "metadata_lock"].contains(&it["cause"].as_str().unwrap())).collect();
    let of_decoys = |it: &&&Value| {
        let is_long = it["length_us"].as_u64() > Some(200_000);
        is_long && it["victims"].as_array().unwrap().iter().any(|it| unasked.iter().any(|of| it["connection"] == *of))
    };
    assert_eq!(others.iter().filter(of_decoys).count(), 0, "{others:#?}");
    let own = summary["account"]["own_work_query_us"].as_u64().unwrap();
    assert!(own >= 700_000, "SLEEP and GET_LOCK: {summary:#}");
    assert!(summary["account"]["wait_free_by_stalls"].is_null(), "{summary:#}");
    let [off] = summary["missing"].as_array().unwrap().as_slice() else { panic!("the slow log alone: {summary:#}") };
    assert!(off["remedy"].as_str().unwrap().starts_with("SET GLOBAL slow_query_log = ON"), "{off}");
    rights_that_are_missing(&server);
    ends_with_the_server(&server, &mut holder, &mut victim);
}

fn rights_that_are_missing(server: &Server) {
    let port = server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout;
    let place = port.trim().rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned();
    let dsn = format!("--dsn=mysql://few:w@{place}/");
    let ran = server.lab.run(["stalls", "watch", &dsn, "--for=1s", "-o", "json"]).expect_code(0);
    let summary: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let missing = summary["missing"].as_array().unwrap();
    let process: Vec<&Value> = missing.iter().filter(|it| it.to_string().contains("PROCESS")).collect();
    assert_eq!(process.len(), 1, "once: {summary:#}");
    assert!(summary["cost"]["sweeps"].as_u64() > Some(10), "the rest goes on: {summary:#}");
}

fn ends_with_the_server(server: &Server, holder: &mut Client, victim: &mut Client) {
    let watch = Watch::start(server, "until its end", &[]);
    let update = "UPDATE shop.t SET a = 1 WHERE id = 1";
    let row = planted(holder, victim, &["BEGIN", update], update, "ROLLBACK");
    server.lab.run(["sandbox", "stop", "s"]).expect_code(0);
    let (status, stalls, _) = watch.end();
    assert_eq!(status.code(), Some(4));
    expect_stall(&stalls, "row_lock", &row);
}

#[test]
fn postgresql_tells_whose_lock_it_was_and_what_was_asked_for_is_no_stall() {
    let server = Server::start("postgresql", &[], &[]);
    let client = || Client::of(&server, POSTGRESQL);
    let (mut holder, mut victim) = (client(), client());
    holder.run("CREATE TABLE t AS SELECT generate_series(1, 10) AS id, 0 AS a");
    let watch = Watch::start(&server, "watch", &["--for=6s"]);
    // it learns where idle processes wait
    thread::sleep(Duration::from_millis(1500));
    let update = "UPDATE t SET a = 1 WHERE id = 1";
    let row = planted(&mut holder, &mut victim, &["BEGIN", update], update, "ROLLBACK");
    let table = planted(&mut holder, &mut victim, &["BEGIN", "LOCK TABLE t"], "SELECT a FROM t", "ROLLBACK");
    victim.run("SELECT pg_sleep(0.4)");
    let advisory = "SELECT pg_advisory_lock(1)";
    planted(&mut holder, &mut victim, &[advisory], advisory, "SELECT pg_advisory_unlock(1)");
    let (status, stalls, summary) = watch.end();
    assert_eq!(status.code(), Some(0));
    expect_stall(&stalls, "row_lock", &row);
    expect_stall(&stalls, "metadata_lock", &table);
    let long = stalls.iter().filter(|stall| stall["length_us"].as_u64() > Some(200_000)).count();
    assert_eq!(long, 2, "{stalls:#?}");
    assert!(summary["account"]["own_work_query_us"].as_u64() >= Some(600_000), "{summary:#}");
}

/// Statements that a client does one after another, each of a page of its own, until it is told to stop; those are kept that took 20 ms and more.
fn point_selects(mut client: Client, rows: u64, seed: u64, stop: &AtomicBool) -> Vec<Felt> {
    let (mut felt, mut state) = (Vec::new(), seed);
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = (state >> 33) % rows + 1;
        let one = client.run(&format!("SELECT c FROM sbtest1 WHERE id = {id}"));
        felt.extend(Some(one).filter(|it| it.took_us >= 20_000));
    }
    felt
}

fn overlap_us(victim: &Value, felt: &Felt) -> u64 {
    let (from, length) = (victim["started_us"].as_u64().unwrap(), victim["length_us"].as_u64().unwrap());
    (from + length).min(felt.ended_us()).saturating_sub(from.max(felt.started_us))
}

#[test]
fn waits_for_a_free_page_are_told_as_their_clients_felt_them_and_make_the_counter() {
    const ROWS: u64 = 200_000;
    let server = Server::start("mariadb@10.1", &["innodb_buffer_pool_size=32M"], &[]);
    let dsn = format!("--dsn={}", server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim());
    server.lab.run(["fill", &format!("--table-size={ROWS}"), &dsn]).expect_code(0);
    let stop = AtomicBool::new(false);
    let (felt, watched, from_us, until_us) = thread::scope(|scope| {
        let clients: Vec<_> = (1..=4)
            .map(|seed| {
                let (client, stop) = (Client::of(&server, MYSQL), &stop);
                scope.spawn(move || point_selects(client, ROWS, seed, stop))
            })
            .collect();
        let watch = Watch::start(&server, "watch", &["--for=6s"]);
        let from_us = unix_us();
        let watched = watch.end();
        let until_us = unix_us();
        stop.store(true, Ordering::Relaxed);
        let felt: Vec<Felt> = clients.into_iter().flat_map(|it| it.join().unwrap()).collect();
        (felt, watched, from_us, until_us)
    });
    let (status, stalls, summary) = watched;
    assert_eq!(status.code(), Some(0));
    let victims: Vec<&Value> = stalls
        .iter()
        .filter(|stall| stall["cause"] == "free_list_backoff")
        .flat_map(|stall| stall["victims"].as_array().unwrap())
        .collect();
    let whole: Vec<&Felt> = felt.iter().filter(|it| it.took_us >= 80_000).collect();
    // who waits for a free page waits with others; who waits alone may have waited for a CPU, which other tests use as well
    let is_shared = |one: &Felt| {
        let together = |other: &&&Felt| {
            let (from, to) = (one.started_us.max(other.started_us), one.ended_us().min(other.ended_us()));
            other.connection != one.connection && to.saturating_sub(from) * 2 >= one.took_us
        };
        whole.iter().any(|other| together(&other))
    };
    // the first and the last second: the watch begins and ends then
    let is_within = |it: &Felt| it.started_us > from_us + 200_000 && it.ended_us() + 1_000_000 < until_us;
    let within: Vec<&&Felt> = whole.iter().filter(|it| is_within(it) && is_shared(it)).collect();
    assert!(within.len() >= 4, "the load makes stalls: {felt:?}");
    let is_it = |victim: &Value, felt: &Felt| {
        victim["connection"].as_str() == Some(&felt.connection.to_string())
            && overlap_us(victim, felt) * 2 >= felt.took_us
    };
    let found: Vec<(&Felt, &Value)> =
        within.iter().filter_map(|felt| Some((**felt, *victims.iter().find(|victim| is_it(victim, felt))?))).collect();
    println!("found {} of {} that were felt; {} told", found.len(), within.len(), victims.len());
    assert!(found.len() * 10 >= within.len() * 9, "{found:?} of {within:?}");
    let near = |(felt, victim): &&(&Felt, &Value)| {
        let tolerance_us = (felt.took_us / 10).max(30_000);
        victim["length_us"].as_u64().unwrap().abs_diff(felt.took_us) <= tolerance_us
    };
    // what a client feels has its own wait for a CPU in it
    assert!(found.iter().filter(near).count() * 4 >= found.len() * 3, "{found:?}");
    let is_felt =
        |victim: &&&Value| felt.iter().any(|felt| is_it(victim, felt) || overlap_us(victim, felt) * 2 > 50_000);
    assert!(victims.iter().filter(is_felt).count() * 20 >= victims.len() * 19, "{victims:#?} of {felt:?}");
    let account = &summary["account"];
    let (rose, computed) = (account["wait_free"].as_u64().unwrap(), account["wait_free_by_stalls"].as_u64().unwrap());
    println!("wait_free rose by {rose}; the stalls make {computed}; cost {}", summary["cost"]);
    // a sleep that begins between two late looks is seen in part
    assert!(computed.abs_diff(rose) * 5 <= rose, "{computed} of {rose}");
}
