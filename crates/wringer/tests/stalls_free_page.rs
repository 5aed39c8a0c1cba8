// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls watch` beside XtraDB under `backoff`: waits for a free page are told as their clients felt them, and make the counter.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout)]

mod accounted;
mod standing;
mod watched;

use accounted::Server;
use load::admin::Connection;
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use watched::queued::{Stops, Waited, by_stall, count_by_half, point_selects, thread_of};
use watched::{Client, Felt, MYSQL, Told, Watch, exact_within_us, overlap_us, unix_us};

const ROWS: u64 = 200_000;
/// The watch is late for what begins within this time of its begin, or ends within a second of its end.
const MARGIN_US: u64 = 1_000_000;

/// A reading of the server's counter, asked for and answered at these times.
struct Counted {
    asked_us: u64,
    answered_us: u64,
    wait_free: u64,
}

fn count(mut connection: Connection, stop: &AtomicBool, kept: &Mutex<Vec<Counted>>) {
    while !stop.load(Ordering::Relaxed) {
        let asked_us = unix_us();
        let rows = connection.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'").unwrap();
        let (answered_us, wait_free) = (unix_us(), rows.parse(0, 1).unwrap());
        kept.lock().unwrap().push(Counted { asked_us, answered_us, wait_free });
        thread::sleep(Duration::from_millis(20));
    }
}

/// Those of 80 ms and more that were waits for a free page, and little else: no tenth of the time in the queue for a CPU, and the counter rose. `backoff` tries
/// again after 10 ms at the latest, and each try is counted; a slow host makes half as many.
fn surely_for_a_page(waited: &[Waited], counted: &[Counted], from_us: u64) -> Vec<Waited> {
    let rose = |felt: &Felt| {
        let before = counted.iter().rev().find(|it| it.answered_us <= felt.started_us)?;
        let after = counted.iter().find(|it| it.asked_us >= felt.ended_us())?;
        Some(after.wait_free - before.wait_free)
    };
    let is_one = |it: &&Waited| {
        let Felt { started_us, took_us, .. } = it.felt;
        let is_whole = took_us >= 80_000 && started_us > from_us + MARGIN_US;
        is_whole && it.has_cpu() && rose(&it.felt) >= Some(took_us / 20_000)
    };
    waited.iter().filter(is_one).cloned().collect()
}

/// Whether a wait is as long as the statements that made it. Where a statement that waits comes right after another one, no look may have been between
/// them, and they are told as one wait. What a client feels has its reads in it as well.
fn is_told_as_felt(victim: &Value, waited: &[Waited], within_us: u64) -> bool {
    let of_it = |felt: &&Felt| is_of(victim, felt) && overlap_us(victim, felt) * 2 >= felt.took_us;
    let felt: Vec<&Felt> = waited.iter().map(|it| &it.felt).filter(of_it).collect();
    let (Some(first), Some(last)) = (felt.first(), felt.last()) else { return false };
    let took_us = last.ended_us() - first.started_us;
    let statements_us: u64 = felt.iter().map(|it| it.took_us).sum();
    let tolerance_us = (took_us / 10).max(30_000).max(within_us);
    statements_us * 10 >= took_us * 8 && victim["length_us"].as_u64().unwrap().abs_diff(took_us) <= tolerance_us
}

fn is_of(victim: &Value, felt: &Felt) -> bool {
    victim["connection"].as_str() == Some(&felt.connection.to_string())
}

/// What a load of four clients felt, and what a watch beside it told.
struct Seen {
    waited: Vec<Waited>,
    stalls: Vec<Vec<Waited>>,
    told: Told,
}

/// Until so many stalls are surely for a page.
const STALLS: usize = 10;

fn watch_a_load(server: &Server) -> Seen {
    let (stop, waited, counted) = (AtomicBool::new(false), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let (told, stalls) = thread::scope(|scope| {
        let _stops = Stops(&stop);
        for seed in 1..=4 {
            let (mut client, stop, waited) = (Client::of(server, MYSQL), &stop, &waited);
            let thread = thread_of(server, &mut client);
            scope.spawn(move || point_selects(client, &thread, ROWS, seed, stop, waited));
        }
        scope.spawn(|| count(server.connect(), &stop, &counted));
        let watch = Watch::start(server, "watch", &[]);
        let from_us = unix_us();
        let surely = || by_stall(&surely_for_a_page(&waited.lock().unwrap(), &counted.lock().unwrap(), from_us));
        let is_enough = testkit::wait_until(2 * accounted::PATIENCE, || {
            thread::sleep(Duration::from_millis(100));
            surely().len() >= STALLS
        });
        let stalls = surely();
        println!("{} stalls in {} ms", stalls.len(), (unix_us() - from_us) / 1000);
        assert!(is_enough, "the load makes stalls: {stalls:?} of {:?}", waited.lock().unwrap());
        thread::sleep(Duration::from_micros(MARGIN_US));
        (watch.end(), stalls)
    });
    Seen { waited: waited.into_inner().unwrap(), stalls, told }
}

#[test]
fn waits_for_a_free_page_are_told_as_their_clients_felt_them_and_make_the_counter() {
    // so few pages are made free at a time that a load empties the list with little CPU
    let options = ["innodb_buffer_pool_size=32M", "innodb_lru_scan_depth=128"];
    let server = Server::start("mariadb@10.1", &options, &[]);
    let dsn = format!("--dsn={}", server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim());
    server.lab.run(["fill", &format!("--table-size={ROWS}"), &dsn]).expect_code(0);
    let Seen { waited, stalls, told: Told { status, stalls: told, summary } } = watch_a_load(&server);
    assert_eq!(status.code(), Some(0));
    let victims: Vec<&Value> = told
        .iter()
        .filter(|stall| stall["cause"] == "free_list_backoff")
        .flat_map(|stall| stall["victims"].as_array().unwrap())
        .collect();
    let is_it = |victim: &Value, felt: &Felt| is_of(victim, felt) && overlap_us(victim, felt) * 2 >= felt.took_us;
    let within_us = exact_within_us(&summary);
    let victim_of = |it: &Waited| victims.iter().find(|victim| is_it(victim, &it.felt));
    let is_near = |it: &Waited| victim_of(it).is_some_and(|victim| is_told_as_felt(victim, &waited, within_us));
    let found = count_by_half(&stalls, |it| victim_of(it).is_some());
    let near = count_by_half(&stalls, is_near);
    let felt: Vec<&Waited> = stalls.iter().flatten().collect();
    println!(
        "of {} stalls {found} found, {near} as long; of {} waits {} found, {} as long; {} told; exact within {within_us} us",
        stalls.len(),
        felt.len(),
        felt.iter().filter(|it| victim_of(it).is_some()).count(),
        felt.iter().filter(|it| is_near(it)).count(),
        victims.len()
    );
    assert!(found * 10 >= stalls.len() * 8, "{found} of {stalls:?}: {told:#?}");
    assert!(near * 10 >= stalls.len() * 8, "{near} of {stalls:?}, of {waited:?}: {told:#?}");
    let is_felt =
        |victim: &&&Value| waited.iter().any(|it| is_it(victim, &it.felt) || overlap_us(victim, &it.felt) * 2 > 50_000);
    assert!(victims.iter().filter(is_felt).count() * 20 >= victims.len() * 19, "{victims:#?} of {waited:?}");
    expect_the_counter(&summary, &waited);
}

/// The stalls make what the counter has risen by, within a fifth: a sleep that begins between two late looks is seen in part. A thread without a CPU makes
/// no tries, and a watch without a CPU does not look: these parts of the time add to the fifth.
#[track_caller]
fn expect_the_counter(summary: &Value, waited: &[Waited]) {
    let of = |part: &str, name: &str| summary[part][name].as_u64().unwrap();
    let (rose, computed) = (of("account", "wait_free"), of("account", "wait_free_by_stalls"));
    let (took_us, queued_us) = waited.iter().fold((0, 0), |sum, it| (sum.0 + it.felt.took_us, sum.1 + it.queued_us));
    let queued = queued_us as f64 / took_us as f64;
    let looked_us = of("cost", "sweeps") * of("cost", "interval_us");
    let unseen = (1.0 - looked_us as f64 / of("cost", "elapsed_us") as f64).max(0.0);
    println!(
        "wait_free rose by {rose}; the stalls make {computed}; queued {queued:.2} of the time, not looked {unseen:.2}"
    );
    let right = rose as f64 * (0.2 + queued + unseen);
    assert!(computed.abs_diff(rose) as f64 <= right, "{computed} of {rose}, {queued}, {unseen}: {summary:#}");
}
