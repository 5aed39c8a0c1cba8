// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls advise` on servers that run: XtraDB, whose queries sleep for a free page, and MariaDB 10.11, whose queries do not.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, Server, json};
use load::admin::Connection;
use serde_json::Value;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// While one connection reads a table larger than the pool, page after page.
fn advised_under_load(server: &Server, more: &[&str]) -> Value {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection: Connection = server.connect();
            let mut at = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                connection
                    .query(&format!("SELECT length(c) FROM shop.t WHERE id = {}", (at >> 33) % ROWS + 1))
                    .unwrap();
            }
        });
        let words = [&["stalls", "advise", "--sandbox", "s", "--time=4", "--starts=2", "-o", "json"], more].concat();
        let ran = server.lab.run(words);
        stop.store(true, Ordering::Relaxed);
        json(&ran.expect_code(0))
    })
}

/// One a page, so that hardly two reads fall on the same one: 64 MiB.
const ROWS: u64 = 8192;

fn fill(server: &Server) {
    let mut connection = server.connect();
    for sql in [
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY AUTO_INCREMENT, c varchar(8000) CHARACTER SET latin1) ENGINE=InnoDB",
        "INSERT INTO shop.t (c) VALUES (repeat('x', 7900))",
    ] {
        connection.execute(sql).unwrap();
    }
    while connection.query("SELECT count(*) FROM shop.t").unwrap().parse::<u64>(0, 0).unwrap() < ROWS {
        connection.execute("INSERT INTO shop.t (c) SELECT c FROM shop.t LIMIT 1024").unwrap();
    }
}

fn names(it: &Value) -> (Value, Value) {
    (it["applicable"].clone(), it["algorithm"].clone())
}

#[test]
fn under_backoff_the_advice_is_legacy_and_what_was_saved_says_the_same() {
    // so short a list is emptied by little CPU
    let options = ["innodb_buffer_pool_size=32M", "innodb_buffer_pool_instances=1", "innodb_lru_scan_depth=128"];
    let server = Server::start("xtradb@5.6", &options, &[]);
    fill(&server);
    // all that was written is out of the way
    server.connect().execute("SET GLOBAL innodb_max_dirty_pages_pct = 0").unwrap();
    testkit::wait_until(accounted::PATIENCE, || {
        let dirty = server.connect().query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").unwrap();
        dirty.parse::<u64>(0, 1) < Some(20)
    });
    server.connect().execute("SET GLOBAL innodb_monitor_enable = 'buffer_LRU%'").unwrap();
    let file = server.lab.home().join("saved.json");
    let it = advised_under_load(&server, &["--save", file.to_str().unwrap(), "--threads=1"]);
    assert_eq!(names(&it), (Value::Bool(true), Value::from("backoff")), "{it:#}");
    assert!(it["server"].as_str().unwrap().contains("with XtraDB"), "{it:#}");
    assert_eq!(it["page_demand"]["from"][0], "buffer_LRU_get_free_search");
    let statement = &it["advice"][0]["statement"];
    assert_eq!(statement, "SET GLOBAL innodb_empty_free_list_algorithm = legacy;", "{it:#}");
    let wait_free = it["counters"].as_array().unwrap().iter().find(|one| one["name"] == "Innodb_buffer_pool_wait_free");
    let per_second = wait_free.unwrap()["value_per_second"].as_f64().unwrap();
    assert!(per_second > 10.0, "the list was empty: {it:#}");
    assert!(it["dirty_tail"]["pages_flushed_per_second"].is_number(), "its status, in small letters: {it:#}");
    assert_eq!(it["missing"].as_array().unwrap().len(), 0, "{it:#}");
    let trades = it["trades"].as_array().unwrap();
    let speed = |is_it: &dyn Fn(&Value) -> bool, end: &str| {
        trades.iter().find(|one| is_it(one)).unwrap_or_else(|| panic!("{it:#}"))["queries_per_second"][end]
            .as_f64()
            .unwrap()
    };
    let now = speed(&|one| one["is_current"] == true, "high");
    let then = speed(&|one| one["lru_scan_depth"] == 128 && one["algorithm"] == "legacy", "low");
    println!("{per_second} waits for a free page a second; {now} queries a second now, {then} under legacy");
    assert!(then > now, "{then} of legacy, {now} now: {it:#}");
    // nothing was changed
    let variable = server.connect().query("SELECT @@innodb_empty_free_list_algorithm").unwrap();
    assert_eq!(variable.text(0, 0).map(|it| it.to_lowercase()).as_deref(), Some("backoff"));
    let saved = server.lab.run([
        "stalls",
        "advise",
        "--from",
        file.to_str().unwrap(),
        "--threads=1",
        "--starts=2",
        "-o",
        "json",
    ]);
    let saved = json(&saved.expect_code(0));
    assert_eq!(saved["advice"], it["advice"]);
    assert_eq!(saved["trades"], it["trades"]);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(!kept.contains("datadir") && !kept.contains("hostname"), "only what is used: {kept}");
}

#[test]
fn on_mariadb_it_is_not_applicable() {
    let server = Server::start(MARIADB, &["innodb_buffer_pool_size=32M", "innodb_lru_scan_depth=256"], &[]);
    fill(&server);
    let it = advised_under_load(&server, &[]);
    assert_eq!(names(&it), (Value::Bool(false), Value::Null), "{it:#}");
    assert!(it["advice"].as_array().unwrap().iter().all(|one| one["statement"].is_null()), "{it:#}");
    assert!(it["watch"].to_string().contains("Could not free any blocks"), "{it:#}");
    over_another_host_and_without_rights(&server);
    ends_with_the_server(&server);
}

/// What passes a connection on hides whose process answers: as from another host, threads are not to be watched, and counters are to be read.
fn over_another_host_and_without_rights(server: &Server) {
    for host in ["localhost", "127.0.0.1"] {
        server.connect().execute(&format!("CREATE USER few@'{host}' IDENTIFIED BY 'w'")).unwrap();
    }
    let dsn = server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout;
    let place = dsn.trim().rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned();
    let passes_on = TcpListener::bind("127.0.0.1:0").unwrap();
    let dsn = format!("--dsn=mysql://few:w@{}/", passes_on.local_addr().unwrap());
    thread::spawn(move || {
        for client in passes_on.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&place).unwrap();
            let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
            for (from, to) in ways {
                let (mut from, mut to) = (from.unwrap(), to.unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    server.lab.run(["stalls", "watch", &dsn, "--for=1s"]).expect_code(3).expect_said(&["which process", "--pid"]);
    let ran = server.lab.run(["stalls", "advise", &dsn, "--time=1s", "--starts=0"]).expect_code(0);
    let said = ran.stdout.matches("the privilege PROCESS would help").count();
    assert!(said == 1 && ran.stdout.contains("Innodb_buffer_pool_wait_free"), "the rest goes on: {}", ran.stdout);
}

fn ends_with_the_server(server: &Server) {
    let mut advised = server.lab.start("ends", ["stalls", "advise", "--sandbox", "s", "--time=60s"]);
    let mut connection = server.connect();
    let mut is_asked = || {
        let others =
            "SELECT count(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND = 'Sleep'";
        connection.query(others).unwrap().parse::<u64>(0, 0) >= Some(1)
    };
    assert!(testkit::wait_until(accounted::PATIENCE, &mut is_asked), "{}", server.lab.said("ends"));
    server.lab.run(["sandbox", "stop", "s"]).expect_code(0);
    assert_eq!(advised.wait().unwrap().code(), Some(4), "{}", server.lab.said("ends"));
}
