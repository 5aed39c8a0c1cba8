// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls inject` on real servers: a victim of the test's own sees each stall with the length that was asked for, the witness says
//! that it bit, and a kill in the middle leaves nothing.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, PATIENCE, Server, json};
use serde_json::Value;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::wait_until;

const ROW: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
const READ: &str = "SELECT k FROM sbtest1 WHERE id = 2";

/// The longest time that one statement of a connection took while `happening` went on, in microseconds, and what that gave. `{}` in the
/// statement is another number each time.
fn longest<T>(server: &Server, sql: &str, happening: impl FnOnce(&AtomicU64) -> T) -> (u64, T) {
    let (is_over, running_us) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut connection = server.connect();
    connection.execute(&sql.replace("{}", "1")).unwrap();
    thread::scope(|scope| {
        let victim = scope.spawn(|| {
            let mut longest = 0;
            for number in (0_u64..).map(|number| number * 7919 % 60_000 + 1) {
                let started = Instant::now();
                connection.execute(&sql.replace("{}", &number.to_string())).unwrap();
                longest = longest.max(u64::try_from(started.elapsed().as_micros()).unwrap());
                running_us.fetch_add(1, Ordering::SeqCst);
                if is_over.load(Ordering::SeqCst) {
                    return longest;
                }
            }
            0
        });
        let happened = happening(&running_us);
        is_over.store(true, Ordering::SeqCst);
        (victim.join().unwrap(), happened)
    })
}

fn words<'a>(cause: &'a str, length: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["stalls", "inject", "--sandbox", "s", "--cause", cause, "--length", length, "-o", "json", "--strict"];
    words.iter().chain(more).copied().collect()
}

/// One stall, which a victim that runs `sql` sees with its length within a tenth or 20 ms, and of which the witness says that it bit.
#[track_caller]
fn expect_seen(server: &Server, cause: &str, sql: &str, more: &[&str]) -> Value {
    let asked_us = 400_000;
    let inject = |_: &AtomicU64| json(&server.lab.run(words(cause, "400ms", more)).expect_code(0));
    let (seen_us, found) = longest(server, sql, inject);
    let injected = &found["injections"][0];
    assert_eq!((&injected["cause"], &injected["bit"]), (&cause.into(), &true.into()), "{found:#}");
    assert_eq!(injected["asked_us"], asked_us);
    let measured_us = injected["length_us"].as_u64().unwrap();
    let near = |us: u64| us.abs_diff(asked_us) <= asked_us / 10;
    assert!(near(measured_us) && near(seen_us), "the victim saw {seen_us} us: {found:#}");
    found
}

/// A kill while a victim waits: it goes on at once, and nothing is left.
#[track_caller]
fn expect_nothing_left(server: &Server, cause: &str, sql: &str) {
    let (longest_us, ()) = longest(server, sql, |done: &AtomicU64| {
        let mut child = server.lab.start("killed", words(cause, "60s", &[]));
        // no statement has ended for half a second: the victim waits
        let mut before = (0, Instant::now());
        let waits = || {
            let now = done.load(Ordering::SeqCst);
            if now != before.0 {
                before = (now, Instant::now());
            }
            before.1.elapsed() > Duration::from_millis(500)
        };
        assert!(wait_until(PATIENCE, waits), "{cause}: no victim waits; {}", server.lab.said("killed"));
        child.kill().unwrap();
        child.wait().unwrap();
        let count = done.load(Ordering::SeqCst);
        assert!(
            wait_until(Duration::from_secs(5), || done.load(Ordering::SeqCst) > count + 1),
            "{cause}: it still waits"
        );
    });
    assert!(longest_us < 30_000_000, "{cause}: {longest_us}");
    // the watchdog of the run undoes what is there to undo
    assert!(wait_until(PATIENCE, || runs_of_inject(server) == 0), "{}", server.lab.run(["status"]).stdout);
}

fn runs_of_inject(server: &Server) -> usize {
    let status = json(&server.lab.run(["status", "-o", "json"]));
    let runs = status["runs"].as_array().unwrap().iter();
    runs.filter(|run| run["command"].to_string().contains("stalls") && run["condition"] != "over").count()
}

#[test]
fn locks_of_postgresql_hold_up_a_victim_for_as_long_as_was_asked_for() {
    let server = Server::start("postgresql", &[], &[]);
    // without a table of a fill, its own is held, and dropped
    let ran = server.lab.run(words("row_lock", "50ms", &[])).expect_code(0).expect_said(&["wringer_inject"]);
    assert_eq!(json(&ran)["injections"][0]["table"], "wringer_inject");
    let left = server.connect().query("SELECT to_regclass('wringer_inject') IS NULL").unwrap();
    assert_eq!(left.text(0, 0).as_deref(), Some("t"));

    server.fill();
    let found = expect_seen(&server, "row_lock", ROW, &[]);
    assert_eq!(found["injections"][0]["table"], "sbtest1", "{found:#}");
    expect_seen(&server, "row_lock", "UPDATE sbtest1 SET k = k + 1 WHERE id = 17", &["--row", "17", "--at", "500ms"]);
    expect_seen(&server, "metadata_lock", READ, &[]);
    a_random_plan_happens_as_it_was_printed(&server);
    for cause in ["row_lock", "metadata_lock"] {
        expect_nothing_left(&server, cause, ROW);
    }
    refusals(&server);
    server.lab.run(["undo"]).expect_code(0);
    assert!(server.connect().execute("SELECT 1").is_ok(), "an undo ends no server without a squeeze");
}

fn a_random_plan_happens_as_it_was_printed(server: &Server) {
    let words = |more: &[&'static str]| {
        let plan = ["--plan", "random", "--seed", "7", "--count", "8", "--length", "20ms..300ms", "--for", "6s"];
        let causes = ["--causes", "row_lock,metadata_lock", "-o", "json", "--sandbox", "s"];
        [&["stalls", "inject"], &plan[..], &causes, more].concat()
    };
    let printed = json(&server.lab.run(words(&["--dry-run"])).expect_code(0));
    assert_eq!(printed, json(&server.lab.run(words(&["--dry-run"])).expect_code(0)));
    let found = json(&server.lab.run(words(&["--strict"])).expect_code(0));
    let (plan, injections) = (printed["plan"].as_array().unwrap(), found["injections"].as_array().unwrap());
    assert_eq!(injections.len(), plan.len());
    let zero = found["zero_us"].as_u64().unwrap();
    let mut late_us = Vec::new();
    for (asked, injected) in plan.iter().zip(injections) {
        for (key, of) in [("cause", "cause"), ("length_us", "asked_us"), ("at_us", "asked_at_us")] {
            assert_eq!(asked[key], injected[of], "{injected:#}");
        }
        late_us.push(injected["started_us"].as_u64().unwrap() - zero - asked["at_us"].as_u64().unwrap());
    }
    // a busy machine delays some of them
    late_us.sort_unstable();
    assert!(late_us[late_us.len() / 2] < 50_000, "late by {late_us:?} us: {found:#}");
}

fn refusals(server: &Server) {
    let dsn = server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim().to_owned();
    let one = ["stalls", "inject", "--cause", "row_lock", "--length", "1s"];
    server.lab.run(one).expect_code(3).expect_said(&["only in a sandbox"]);
    server
        .lab
        .run(one.iter().copied().chain([format!("--dsn={dsn}").as_str()]))
        .expect_code(3)
        .expect_said(&["only in a sandbox"]);
    server.lab.run(words("disk_reads", "1s", &[])).expect_code(3).expect_said(&["no slow layer", "--disk"]);
    server.lab.run(words("cpu", "1s", &[])).expect_code(3).expect_said(&["--cpus"]);
    server.lab.run(words("mutex", "1s", &[])).expect_code(3).expect_said(&["cannot be planted"]);
    server.lab.run(words("free_list_backoff", "1s", &[])).expect_code(3).expect_said(&["XtraDB"]);
    server.lab.run(words("row_lock", "1s", &["--table", "nowhere"])).expect_code(3).expect_said(&["no table nowhere"]);
    let list = json(&server.lab.run(["stalls", "inject", "--list", "--sandbox", "s", "-o", "json"]).expect_code(0));
    let can = list["causes"].as_array().unwrap().iter().filter(|it| it["can_be_planted"] == true);
    assert_eq!(
        can.map(|it| it["cause"].as_str().unwrap()).collect::<Vec<_>>(),
        ["row_lock", "metadata_lock"],
        "{list:#}"
    );
}

#[test]
fn mariadb_is_held_up_by_locks_by_its_disk_and_by_its_cpu() {
    let pool = ["innodb_buffer_pool_size=6M"];
    let server = Server::start(MARIADB, &pool, &["--disk", "read=0", "--cpus", "2"]);
    let dsn = format!("--dsn={}", server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim());
    server.lab.run(["fill", "--table-size=60000", &dsn]).expect_code(0);
    expect_seen(&server, "row_lock", ROW, &[]);
    expect_seen(&server, "metadata_lock", READ, &[]);
    let elsewhere = "SELECT c FROM sbtest1 WHERE id = {}";
    expect_seen(&server, "disk_reads", elsewhere, &[]);
    expect_seen(&server, "sync", ROW, &[]);
    expect_seen(&server, "cpu", READ, &[]);
    for (cause, sql) in [("row_lock", ROW), ("disk_reads", elsewhere), ("sync", ROW)] {
        expect_nothing_left(&server, cause, sql);
    }
    let group = cpu_group(server.pid);
    let before = fs::read_to_string(&group).unwrap();
    expect_nothing_left(&server, "cpu", READ);
    assert_eq!(fs::read_to_string(&group).unwrap(), before);
}

/// The file that says how much CPU time the server may have.
fn cpu_group(pid: u32) -> std::path::PathBuf {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        let of_v1 = controllers.split(',').any(|name| name == "cpu");
        let found = match (of_v1, controllers.is_empty()) {
            (true, _) => format!("/sys/fs/cgroup/{controllers}/{path}/cpu.cfs_quota_us"),
            (_, true) => format!("/sys/fs/cgroup/{path}/cpu.max"),
            _ => return None,
        };
        fs::metadata(&found).is_ok().then(|| found.into())
    };
    groups.lines().find_map(group).unwrap()
}
