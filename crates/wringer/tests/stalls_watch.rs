// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls watch` beside real servers: waits that are planted are told with their connection, length and cause; what only looks like one is
//! not.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout)]

mod accounted;
mod standing;
mod watched;

use accounted::{MARIADB, Server};
use load::admin::Connection;
use rustix::process::Signal;
use serde_json::Value;
use standing::signal;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use testkit::Ran;
use watched::{Client, Felt, MYSQL, POSTGRESQL, Told, Watch, exact_within_us, overlap_us};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Asks the server what its other connections do.
struct Onlooker {
    connection: Connection,
    is_postgresql: bool,
    last: String,
    changes: u64,
}

impl Onlooker {
    fn of(server: &Server) -> Self {
        let is_postgresql = server.target.protocol == load::Protocol::Postgresql;
        Self { connection: server.connect(), is_postgresql, last: String::new(), changes: 0 }
    }

    fn text(&mut self, sql: &str, column: usize) -> String {
        self.connection.query(sql).unwrap().text(0, column).unwrap_or_default()
    }

    /// Whether a connection waits for a lock. InnoDB's table of transactions is left to the watch: it is renewed only when nobody has read it for 100 ms.
    fn sees_a_wait(&mut self) -> bool {
        if self.is_postgresql {
            return self.text("SELECT count(*) FROM pg_locks WHERE NOT granted", 0) != "0";
        }
        let list = self.connection.query("SHOW PROCESSLIST").unwrap();
        let states = (0..list.len()).filter_map(|row| list.text(row, 6));
        states.into_iter().any(|it| it.starts_with("Waiting for table metadata lock") || it == "User lock")
            || self.text("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'", 1) != "0"
    }

    /// How often the watch has asked what the connections do. No other connection runs statements meanwhile.
    fn questions(&mut self) -> u64 {
        if !self.is_postgresql {
            // one statement for the list, and perhaps one for the locks
            return self.text("SHOW GLOBAL STATUS LIKE 'Com_select'", 1).parse::<u64>().unwrap() / 2;
        }
        let of_the_watch = "query LIKE '%pg_blocking_pids(pid)%' AND pid <> pg_backend_pid()";
        let last = self.text(&format!("SELECT max(query_start) FROM pg_stat_activity WHERE {of_the_watch}"), 0);
        self.changes += u64::from(last != self.last);
        self.last = last;
        self.changes
    }

    /// Until the watch has asked so many times more.
    fn sees_questions(&mut self, more: u64) -> bool {
        let from = self.questions();
        testkit::wait_until(accounted::PATIENCE, || self.questions() >= from + more)
    }
}

/// A wait for a lock.
struct Planted {
    felt: Felt,
    /// For so long the server itself called it a wait.
    least_us: u64,
}

/// `asks` waits until the watch has asked about it four times. It asks after two looks at least, and looks before each question: four looks make a wait.
#[track_caller]
fn planted(
    onlooker: &mut Onlooker,
    (holder, victim): (&mut Client, &mut Client),
    hold: &[&str],
    (asks, release): (&str, &str),
) -> Planted {
    for sql in hold {
        holder.run(sql);
    }
    let (waits, is_asked, least_us, felt) = thread::scope(|scope| {
        let waiting = scope.spawn(|| victim.run(asks));
        let waits = testkit::wait_until(accounted::PATIENCE, || onlooker.sees_a_wait());
        let seen = Instant::now();
        let is_asked = onlooker.sees_questions(4);
        let least_us = u64::try_from(seen.elapsed().as_micros()).unwrap();
        holder.run(release);
        (waits, is_asked, least_us, waiting.join().unwrap())
    });
    assert!(waits && is_asked, "{asks}: waits {waits}, asked {is_asked}");
    Planted { felt, least_us }
}

/// The one stall of that cause: of this connection, no shorter than the server called it a wait, no longer than its client waited.
#[track_caller]
fn expect_stall<'a>(told: &'a Told, cause: &str, planted: &Planted) -> &'a Value {
    let of_cause: Vec<&Value> = told.stalls.iter().filter(|stall| stall["cause"] == cause).collect();
    let [stall] = of_cause.as_slice() else { panic!("not one of {cause}: {:#?}", told.stalls) };
    let (felt, least_us) = (&planted.felt, planted.least_us);
    let victims = stall["victims"].as_array().unwrap();
    assert_eq!(victims.len(), 1, "{stall:#}");
    assert_eq!(victims[0]["connection"], felt.connection.to_string(), "{stall:#}");
    let (length_us, within_us) = (stall["length_us"].as_u64().unwrap(), exact_within_us(&told.summary));
    println!(
        "{cause}: told {length_us} us, felt {} us, a wait for {least_us} us; exact within {within_us} us",
        felt.took_us
    );
    let right = least_us.saturating_sub(within_us)..=felt.took_us + within_us;
    assert!(right.contains(&length_us), "{length_us} is not in {right:?}: {stall:#}");
    // one answer that names the lock among those that do not is enough for this
    assert!(stall["confidence"].as_f64().unwrap() >= 0.5, "{stall:#}");
    stall
}

/// What was asked for is in no stall for half of its time or longer. A thread that wakes up may wait for a CPU for a moment.
#[track_caller]
fn expect_no_stall(told: &Told, asked_for: &Felt) {
    let own = asked_for.connection.to_string();
    let is_it = |victim: &Value| victim["connection"] == own && overlap_us(victim, asked_for) * 2 >= asked_for.took_us;
    let is_told = told.stalls.iter().any(|it| it["victims"].as_array().unwrap().iter().any(is_it));
    assert!(!is_told, "{asked_for:?} is in {:#?}", told.stalls);
}

/// A second of sleep, and a wait for a lock that the statement asked for.
#[track_caller]
fn expect_own_work(told: &Told, slept: &Felt, locked: &Planted) {
    [slept, &locked.felt].into_iter().for_each(|it| expect_no_stall(told, it));
    let own_us = told.summary["account"]["own_work_query_us"].as_u64().unwrap();
    let asked_us = 1_000_000 + locked.least_us;
    println!("own work: told {own_us} us of {asked_us} us");
    assert!(own_us + 2 * exact_within_us(&told.summary) >= asked_us, "{own_us} of {asked_us}: {:#}", told.summary);
}

#[test]
fn mariadb_tells_whose_lock_it_was_and_what_was_asked_for_is_no_stall() {
    let server = Server::start(MARIADB, &[], &[]);
    let client = || Client::of(&server, MYSQL);
    let (mut holder, mut victim, mut onlooker) = (client(), client(), Onlooker::of(&server));
    for sql in [
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, a bigint) ENGINE=InnoDB",
        "INSERT INTO shop.t VALUES (1,0),(2,0)",
        "CREATE USER few@localhost IDENTIFIED BY 'w'",
        "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'w'",
    ] {
        holder.run(sql);
    }
    let watch = Watch::start(&server, "watch", &["--fail-on-stall=200ms"]);
    let mut plant =
        |hold: &[&str], asks, release| planted(&mut onlooker, (&mut holder, &mut victim), hold, (asks, release));
    let update = "UPDATE shop.t SET a = 471147114711471 WHERE id = 1";
    let row = plant(&["BEGIN", update], update, "ROLLBACK");
    watch.tells("row_lock");
    let table = plant(&["LOCK TABLES shop.t WRITE"], "SELECT a FROM shop.t WHERE id = 2", "UNLOCK TABLES");
    watch.tells("metadata_lock");
    let locked = plant(&["DO GET_LOCK('x', 1)"], "DO GET_LOCK('x', 600)", "DO RELEASE_LOCK('x')");
    let slept = victim.run("SELECT SLEEP(1)");
    let told = watch.end();
    assert_eq!(told.status.code(), Some(1), "--fail-on-stall");
    let stall = expect_stall(&told, "row_lock", &row);
    let holds = format!("held by connection {}", holder.number);
    assert!(stall["evidence"]["for"].as_array().unwrap().iter().any(|it| it == &holds), "{stall:#}");
    assert_eq!(stall["held_by"], serde_json::json!([holder.number.to_string()]), "{stall:#}");
    let text = stall.to_string();
    assert!(
        text.contains("update shop.t set a = ? where id = ?") && !text.contains("471147114711471"),
        "without values: {text}"
    );
    expect_stall(&told, "metadata_lock", &table);
    expect_own_work(&told, &slept, &locked);
    let summary = &told.summary;
    assert!(summary["account"]["wait_free_by_stalls"].is_null(), "{summary:#}");
    let off = summary["missing"].as_array().unwrap();
    assert!(remedy(off, "slow log").starts_with("SET GLOBAL slow_query_log = ON"), "{off:#?}");
    assert!(remedy(off, "hold the locks of tables").contains("wait/lock/metadata/sql/mdl"), "{off:#?}");
    assert_eq!(off.len(), 2, "{off:#?}");
    rights_that_are_missing(&server);
    if testkit::is_root() {
        another_user_sees_no_threads(&server);
    }
    is_stopped(&server, &mut victim);
    ends_with_the_server(&server, &mut onlooker, &mut holder, &mut victim);
}

/// The connection string of an account with no rights, which the server knows as few.
fn dsn_of_few(server: &Server, scheme: &str, database: &str) -> String {
    let dsn = server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout;
    let place = dsn.trim().rsplit_once('@').unwrap().1.split('/').next().unwrap();
    format!("--dsn={scheme}://few:w@{place}/{database}")
}

/// What was missing beside a watch that went on.
fn missing(server: &Server, args: &[&str]) -> Vec<Value> {
    let ran = server.lab.run([&["stalls", "watch", "--for=1s", "-o", "json"], args].concat()).expect_code(0);
    let summary: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert!(summary["cost"]["sweeps"].as_u64() > Some(1), "the rest goes on: {summary:#}");
    summary["missing"].as_array().unwrap().clone()
}

/// The one that names this.
#[track_caller]
fn remedy<'a>(missing: &'a [Value], what: &str) -> &'a str {
    let named: Vec<&Value> = missing.iter().filter(|it| it["what"].as_str().unwrap().contains(what)).collect();
    let [one] = named.as_slice() else { panic!("{what} is to be named once: {missing:#?}") };
    one["remedy"].as_str().unwrap_or_else(|| panic!("nothing that would help: {one:#}"))
}

fn rights_that_are_missing(server: &Server) {
    let missing = missing(server, &[&dsn_of_few(server, "mysql", ""), "--deep", "--probes"]);
    for what in ["locks of rows, and what the connections of other accounts do", "free pages of each instance"] {
        assert!(remedy(&missing, what).starts_with("GRANT PROCESS ON *.*"), "{missing:#?}");
    }
    // off in this server: who may read it is not asked before
    assert!(["GRANT SELECT", "performance_schema=ON"].iter().any(|it| remedy(&missing, "wait events").contains(it)));
    // the package of Debian is stripped
    let symbols = if testkit::is_root() { "symbols" } else { "root" };
    assert!(remedy(&missing, "by probes").contains(symbols), "{missing:#?}");
}

/// Neither root nor the user of the server.
fn another_user_sees_no_threads(server: &Server) {
    let program = server.lab.home().join("wringer");
    testkit::copy_program(WRINGER.as_ref(), &program);
    let ran = Ran::of(
        Command::new("setpriv")
            .args(["--reuid=65533", "--regid=65533", "--clear-groups"])
            .arg(&program)
            .args(["stalls", "watch", "--for=1s", &format!("--pid={}", server.pid)])
            .env("WRINGER_HOME", "/nonexistent"),
    );
    ran.expect_code(3).expect_said(&[
        "the threads of process",
        "root",
        "the user the server runs as",
        "stalls explain",
    ]);
}

/// The server is stopped for a second. A client asks meanwhile, for something that takes some milliseconds: by its CPU time the thread is known as one that had work.
fn is_stopped(server: &Server, victim: &mut Client) {
    let watch = Watch::start(server, "stopped", &[]);
    let (stopped, felt) = thread::scope(|scope| {
        let began = Instant::now();
        signal(server.pid.into(), Signal::STOP);
        let waiting = scope.spawn(|| victim.run("SELECT BENCHMARK(20000, MD5(a)) FROM shop.t WHERE id = 2"));
        thread::sleep(Duration::from_secs(1));
        signal(server.pid.into(), Signal::CONT);
        (began.elapsed(), waiting.join().unwrap())
    });
    watch.tells("unknown");
    let told = watch.end();
    let is_it = |stall: &&Value| {
        stall["evidence"]["for"][0].as_str().unwrap_or_default().starts_with("the server was stopped by a signal")
    };
    let stalls: Vec<&Value> = told.stalls.iter().filter(is_it).collect();
    let [stall] = stalls.as_slice() else { panic!("one stop: {:#?}", told.stalls) };
    let victims = stall["victims"].as_array().unwrap();
    let connection = felt.connection.to_string();
    let own = victims.iter().find(|it| it["connection"] == connection);
    let length_us = own.unwrap_or_else(|| panic!("{felt:?} is no victim: {stall:#}"))["length_us"].as_u64().unwrap();
    let stopped_us = u64::try_from(stopped.as_micros()).unwrap();
    assert!(length_us.abs_diff(stopped_us) <= exact_within_us(&told.summary), "{length_us} of {stopped_us}: {stall:#}");
}

fn ends_with_the_server(server: &Server, onlooker: &mut Onlooker, holder: &mut Client, victim: &mut Client) {
    let watch = Watch::start(server, "until its end", &[]);
    let update = "UPDATE shop.t SET a = 1 WHERE id = 1";
    let row = planted(onlooker, (holder, victim), &["BEGIN", update], (update, "ROLLBACK"));
    server.lab.run(["sandbox", "stop", "s"]).expect_code(0);
    let told = watch.ended();
    assert_eq!(told.status.code(), Some(4));
    expect_stall(&told, "row_lock", &row);
}

#[test]
fn postgresql_tells_whose_lock_it_was_and_what_was_asked_for_is_no_stall() {
    let server = Server::start("postgresql", &[], &[]);
    let client = || Client::of(&server, POSTGRESQL);
    let (mut holder, mut victim, mut onlooker) = (client(), client(), Onlooker::of(&server));
    holder.run("CREATE TABLE t AS SELECT generate_series(1, 10) AS id, 0 AS a");
    holder.run("CREATE USER few PASSWORD 'w'");
    let watch = Watch::start(&server, "watch", &[]);
    // it learns from the answers where idle processes wait
    assert!(onlooker.sees_questions(2));
    let mut plant =
        |hold: &[&str], asks, release| planted(&mut onlooker, (&mut holder, &mut victim), hold, (asks, release));
    let update = "UPDATE t SET a = 1 WHERE id = 1";
    let row = plant(&["BEGIN", update], update, "ROLLBACK");
    watch.tells("row_lock");
    let table = plant(&["BEGIN", "LOCK TABLE t"], "SELECT a FROM t", "ROLLBACK");
    watch.tells("metadata_lock");
    let advisory = "SELECT pg_advisory_lock(1)";
    let locked = plant(&[advisory], advisory, "SELECT pg_advisory_unlock(1)");
    let slept = victim.run("SELECT pg_sleep(1)");
    let told = watch.end();
    assert_eq!(told.status.code(), Some(0));
    expect_stall(&told, "row_lock", &row);
    expect_stall(&told, "metadata_lock", &table);
    expect_own_work(&told, &slept, &locked);
    let advise = ["stalls", "advise", "--sandbox", "s", "-o", "json", "--save", "/no/such/folder/saved.json"];
    let advised = server.lab.run(advise).expect_code(0).expect_said(&["saved.json was not written"]).stdout;
    let advised: Value = serde_json::from_str(&advised).unwrap();
    assert_eq!(advised["applicable"], false, "there is no InnoDB: {advised:#}");
    let missing = missing(&server, &[&dsn_of_few(&server, "postgresql", "postgres")]);
    assert!(remedy(&missing, "the connections of other accounts").contains("pg_read_all_stats"), "{missing:#?}");
}
