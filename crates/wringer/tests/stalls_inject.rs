// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls inject` on real servers: a victim of the test's own sees each stall with the length that was asked for, the witness says
//! that it bit, and a kill in the middle leaves nothing.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod accounted;
mod injected;
mod own_cache;

use accounted::{MARIADB, PATIENCE, Server, json};
use injected::{READ, ROW, cpu_group, cut_short, kill, longest, runs_of_inject, words};
use load::Target;
use load::admin::Connection;
use own_cache::{missing_client, need_maven, run};
use serde_json::Value;
use std::fs;
use std::sync::atomic::AtomicU64;
use testkit::{Lab, one_at_a_time, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
/// One stall, which a victim that runs `sql` sees until its end, and of which the witness says that it bit.
///
/// The victim cannot be held to see it from its beginning: it gets a CPU for its next statement when the machine has one, and its wait is shorter
/// by that. Whoever waits at all goes on at the end of the stall, not earlier.
#[track_caller]
fn expect_seen(server: &Server, cause: &str, sql: &str, more: &[&str]) -> Value {
    // the CPU quota of a second has a gap at its end, so a stall of this kind is shorter than a second
    let (length, asked_us, most_us) =
        if cause == "cpu" { ("800ms", 800_000, 1_800_000) } else { ("1500ms", 1_500_000, 2_500_000) };
    let inject = |_: &AtomicU64| json(&server.lab.run(words(cause, length, more)).expect_code(0));
    let (seen, found) = longest(server, sql, inject);
    let injected = &found["injections"][0];
    assert_eq!((&injected["cause"], &injected["bit"]), (&cause.into(), &true.into()), "{found:#}");
    assert_eq!(injected["asked_us"], asked_us);
    let measured_us = injected["length_us"].as_u64().unwrap();
    println!("{cause}: asked {asked_us} us, took {measured_us} us, the victim saw {} us", seen.took_us);
    // on a busy machine, who ends it and who waited for it are given a CPU later, and the disk takes its time for a commit
    let near = |us: u64| (asked_us - asked_us / 10..most_us).contains(&us);
    let began_us = injected["started_us"].as_u64().unwrap();
    let (late_us, ended_us) =
        (seen.started_us.saturating_sub(began_us), (seen.started_us + seen.took_us).saturating_sub(began_us));
    let sees = late_us < asked_us / 3 && near(ended_us) && seen.took_us < most_us;
    assert!(near(measured_us) && sees, "the victim saw {seen:?}: {found:#}");
    found
}

/// After a kill, the watchdog of the run undoes what is there to undo.
#[track_caller]
fn expect_nothing_left(server: &Server, cause: &str, sql: &str) {
    cut_short(server, cause, sql, |mut child| {
        child.kill().unwrap();
        child.wait().unwrap();
    });
    assert!(wait_until(PATIENCE, || runs_of_inject(server).is_empty()), "{}", server.lab.run(["status"]).stdout);
}

fn said(server: &Server) -> Value {
    serde_json::from_str(&fs::read_to_string(server.lab.home().join("cut.out")).unwrap()).unwrap()
}

#[test]
fn locks_of_postgresql_hold_up_a_victim_for_as_long_as_was_asked_for() {
    // beside another test of this program: a second of slack is enough for both, and one after another they would take twice the time
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
    let code = cut_short(&server, "metadata_lock", READ, |mut child| {
        kill(child.id(), libc::SIGINT);
        child.wait().unwrap().code()
    });
    let injected = said(&server)["injections"][0].clone();
    assert!(code == Some(130) && injected["length_us"].as_u64() < Some(30_000_000), "{code:?}: {injected:#}");
    assert!(injected["why"].to_string().contains("cut short"), "{injected:#}");
    server.lab.undo_own();
    assert!(server.connect().execute("SELECT 1").is_ok(), "an undo ends no server without a squeeze");
    the_server_ends_meanwhile(&server);
}

fn the_server_ends_meanwhile(server: &Server) {
    let mut child = server.lab.start("cut", words("row_lock", "60s", &[]));
    let mut connection = server.connect();
    let mut holds = || {
        let held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        connection.query(held).unwrap().parse(0, 0) == Some(1)
    };
    assert!(wait_until(PATIENCE, &mut holds), "{}", server.lab.said("cut"));
    server.lab.run(words("row_lock", "50ms", &[])).expect_code(3).expect_said(&["the planting of stalls in sandbox s"]);
    kill(server.pid, libc::SIGKILL);
    assert_eq!(child.wait().unwrap().code(), Some(4), "{}", server.lab.said("cut"));
    let found = said(server);
    assert_eq!(found["server_ended"], true, "{found:#}");
    assert!(found["injections"][0]["started_us"].is_u64(), "what began is told: {found:#}");
}

fn a_random_plan_happens_as_it_was_printed(server: &Server) {
    let words = |more: &[&'static str]| {
        let plan = ["--plan", "random", "--seed", "7", "--count", "8", "--length", "150ms..600ms", "--for", "12s"];
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
        let due_us = zero + asked["at_us"].as_u64().unwrap();
        late_us.push(injected["started_us"].as_u64().unwrap().abs_diff(due_us));
    }
    // a busy machine delays some of them
    late_us.sort_unstable();
    println!("a plan's stalls began {late_us:?} us from their times");
    assert!(late_us[late_us.len() / 2] < 400_000, "{late_us:?} us: {found:#}");
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
    let ran = server.lab.run(words("row_lock", "50ms", &["--row", "999999999"])).expect_code(1);
    let injected = &json(&ran)["injections"][0];
    assert!(injected["bit"] == false && injected["why"].is_string(), "there is no such row: {injected:#}");
    server.lab.run(words("mutex", "1s", &["--dry-run"])).expect_code(3).expect_said(&["cannot be planted"]);
    server.lab.run(words("mutex", "1s", &[])).expect_code(3).expect_said(&["cannot be planted"]);
    server.lab.run(words("free_list_backoff", "1s", &[])).expect_code(3).expect_said(&["XtraDB"]);
    server.connect().execute("CREATE USER few PASSWORD 'w'").unwrap();
    let few = ["--pgsql-user=few", "--pgsql-password=w"];
    let ran = server.lab.run(words("row_lock", "1s", &few)).expect_code(1);
    let injected = &json(&ran)["injections"][0];
    assert!(injected["bit"] == false && injected["why"].to_string().contains("permission denied"), "{injected:#}");
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
    let _one = one_at_a_time();
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

#[test]
fn pages_are_demanded_faster_than_xtradb_makes_them_free() {
    need_maven!();
    let _one = one_at_a_time();
    let lab = Lab::new(WRINGER);
    // a list of 128 free pages: a reader that gets a CPU only now and then takes more of them, too, before the refiller wakes
    let small = "innodb_buffer_pool_size=20M;innodb_lru_scan_depth=128";
    let mut deploy = vec!["sandbox", "deploy", "xtradb", "5.6", "--name", "s", "--start"];
    deploy.extend(small.split(';').flat_map(|option| ["-c", option]));
    run(&lab, &deploy).expect_code(0);
    let dsn = run(&lab, &["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim().to_owned();
    let inject = |code| run(&lab, &words("free_list_backoff", "3s", &[])).expect_code(code);
    inject(3).expect_said(&["wringer fill"]);
    run(&lab, &["fill", "--table-size=130000", &format!("--dsn={dsn}")]).expect_code(0);
    let mut connection = Connection::open(&dsn.parse::<Target>().unwrap()).unwrap();
    let mut counted = || -> u64 {
        let said = connection.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'").unwrap();
        said.parse(0, 1).unwrap()
    };
    let before = counted();
    let injected = json(&inject(0))["injections"][0].clone();
    let witnessed = injected["witness"]["value"].as_u64().unwrap();
    assert!(injected["bit"] == true && (1..=counted() - before).contains(&witnessed), "{injected:#}");
    connection.execute("SET GLOBAL innodb_empty_free_list_algorithm = legacy").unwrap();
    inject(3).expect_said(&["LEGACY"]);
    run(&lab, &["sandbox", "delete", "s", "--force"]).expect_code(0);
}
