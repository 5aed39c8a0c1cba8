// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls watch --probes` and `--deep` beside a real XtraDB server whose list of free pages is emptied all the time: each long wait that its clients
//! felt is told, surely and with its length, and the calls make the counter; and the server's code is as it was, also after SIGKILL.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod accounted;
mod standing;
mod watched;

use accounted::{PATIENCE, Server};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use testkit::wait_until;
use watched::queued::{Stops, Waited, by_stall, count_by_half, point_selects, thread_of};
use watched::{Client, Felt, MYSQL, unix_us};

const ROWS: u64 = 150_000;

/// Bytes of the server's code that are not as they stand in its file: a breakpoint is one.
fn changed_bytes(pid: u32) -> usize {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let (file, memory) = (File::open(&program).unwrap(), File::open(format!("/proc/{pid}/mem")).unwrap());
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let code = maps.lines().filter(|line| line.contains(" r-xp ") && line.ends_with(program.to_str().unwrap()));
    let changed = code.map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (from, to) = words[0].split_once('-').unwrap();
        let length = usize::try_from(number(to) - number(from)).unwrap();
        let (mut loaded, mut stored) = (vec![0; length], vec![0; length]);
        memory.read_exact_at(&mut loaded, number(from)).unwrap();
        let read = file.read_at(&mut stored, number(words[2])).unwrap();
        loaded[..read].iter().zip(&stored[..read]).filter(|(loaded, stored)| loaded != stored).count()
    });
    changed.sum()
}

struct Watched {
    /// Begin and end, cause, connection.
    victims: Vec<((u64, u64), String, String)>,
    summary: Value,
}

fn watched(server: &Server, args: &[&str]) -> Watched {
    let args = [&["stalls", "watch", "--sandbox", "s", "-o", "json"], args].concat();
    let ran = server.lab.run(&args).expect_code(0);
    let summary: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let victims = summary["stalls"].as_array().unwrap().iter().flat_map(|stall| {
        let cause = stall["cause"].as_str().unwrap().to_owned();
        stall["victims"].as_array().unwrap().iter().map(move |victim| {
            let from_us = victim["started_us"].as_u64().unwrap();
            let until_us = from_us + victim["length_us"].as_u64().unwrap();
            ((from_us, until_us), cause.clone(), victim["connection"].as_str().unwrap_or_default().to_owned())
        })
    });
    Watched { victims: victims.collect(), summary: summary.clone() }
}

#[test]
fn probes_tell_each_wait_for_a_free_page_surely_and_leave_the_server_as_it_was() {
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    if !fs::exists("/sys/bus/event_source/devices/uprobe/type").unwrap() {
        testkit::skip!("no uprobe PMU in this kernel");
    }
    // a short list is emptied on a busy machine, too
    let options = ["innodb_buffer_pool_size=32M", "innodb_lru_scan_depth=128"];
    let server = Server::start("mariadb@10.1", &options, &[]);
    let dsn = format!("--dsn={}", server.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim());
    server.lab.run(["fill", &format!("--table-size={ROWS}"), &dsn]).expect_code(0);
    let (stop, waited) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let (probed, deep, ended_us) = thread::scope(|scope| {
        let _stops = Stops(&stop);
        for seed in 1..=4 {
            let (mut client, stop, waited) = (Client::of(&server, MYSQL), &stop, &waited);
            let thread = thread_of(&server, &mut client);
            scope.spawn(move || point_selects(client, &thread, ROWS, seed, stop, waited));
        }
        thread::sleep(Duration::from_millis(500));
        let probed = watched(&server, &["--probes", "--for=14s"]);
        let ended_us = unix_us();
        let deep = watched(&server, &["--deep", "--for=3s"]);
        is_killed(&server);
        (probed, deep, ended_us)
    });
    expect_probed(&waited.into_inner().unwrap(), &probed, ended_us);
    expect_deep(&deep);
}

/// The part of what a client felt that lies in this time.
fn shared_us(felt: &Felt, (from_us, to_us): (u64, u64)) -> u64 {
    felt.ended_us().min(to_us).saturating_sub(felt.started_us.max(from_us))
}

fn expect_probed(waited: &[Waited], probed: &Watched, ended_us: u64) {
    let summary = &probed.summary;
    // by then the symbol is found, the probes are there, and the server has said who its clients are
    let begun_us = ended_us - summary["cost"]["elapsed_us"].as_u64().unwrap() + 1_500_000;
    assert!(
        summary["stalls"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["cause"] == "free_list_backoff")
            .all(|it| it["confidence"] == 0.99),
        "{summary:#}"
    );
    let probes = summary["tiers"].as_array().unwrap().iter().find(|it| it["tier"] == "probes").expect("a tier");
    assert!(probes["resolution_us"].as_u64() <= Some(5_000) && probes["hits"].as_u64() > Some(100), "{probes}");
    assert_eq!(probes["hits_lost"], 0);
    let ours: Vec<_> = probed.victims.iter().filter(|it| it.1 == "free_list_backoff").collect();
    // a statement may wait for one page after another
    let told_us = |it: &Felt| -> u64 {
        let connection = it.connection.to_string();
        ours.iter().filter(|victim| victim.2 == connection).map(|victim| shared_us(it, victim.0)).sum()
    };
    // who waits for a free page waits with others; who waits alone may have waited for a CPU, which other tests use as well
    let is_shared = |one: &Felt| {
        waited.iter().any(|Waited { felt: it, .. }| {
            it.connection != one.connection && shared_us(it, (one.started_us, one.ended_us())) * 2 >= one.took_us
        })
    };
    // the last question to the server, and the process's end
    let within = |it: &Felt| it.started_us > begun_us && it.ended_us() + 2_000_000 < ended_us;
    // a machine that others keep busy stops all clients at once for shorter times
    let is_sure = |it: &&Waited| it.felt.took_us >= 150_000 && it.has_cpu() && within(&it.felt) && is_shared(&it.felt);
    let stalls = by_stall(&waited.iter().filter(is_sure).cloned().collect::<Vec<_>>());
    let is_told = |it: &Waited| told_us(&it.felt) * 2 >= it.felt.took_us;
    // what a client feels has its reads and its own waits for a CPU in it
    let is_near = |Waited { felt, queued_us }: &Waited| {
        felt.took_us <= told_us(felt) + (felt.took_us / 10).max(30_000) + queued_us
    };
    let (found, near) = (count_by_half(&stalls, is_told), count_by_half(&stalls, is_near));
    println!(
        "of {} stalls {found} found, {near} as long; of {} waits {} found, {} as long; {} told; {probes}",
        stalls.len(),
        stalls.iter().flatten().count(),
        stalls.iter().flatten().filter(|it| is_told(it)).count(),
        stalls.iter().flatten().filter(|it| is_near(it)).count(),
        ours.len()
    );
    assert!(stalls.len() >= 3, "the load makes stalls: {stalls:?} of {waited:?}");
    assert!(found * 10 >= stalls.len() * 8, "told: {ours:?}, felt: {stalls:?}; from {begun_us} to {ended_us}");
    assert!(near * 4 >= stalls.len() * 3, "told: {ours:?}, felt: {stalls:?}");
    let account = &summary["account"];
    let (rose, computed) = (account["wait_free"].as_u64().unwrap(), account["wait_free_by_stalls"].as_u64().unwrap());
    // a thread without a CPU makes no tries: this part of the time adds to the fifth
    let (took_us, queued_us) = waited.iter().fold((0, 0), |sum, it| (sum.0 + it.felt.took_us, sum.1 + it.queued_us));
    let queued = queued_us as f64 / took_us as f64;
    println!(
        "wait_free rose by {rose}; the calls make {computed}; queued {queued:.2} of the time; cost {}",
        summary["cost"]
    );
    assert!(computed.abs_diff(rose) as f64 <= rose as f64 * (0.2 + queued), "{computed} of {rose}, {queued}");
}

fn expect_deep(deep: &Watched) {
    let summary = &deep.summary;
    let [tier] = summary["tiers"].as_array().unwrap().as_slice() else { panic!("{summary:#}") };
    // 20 ms, unless others have the CPUs
    assert!(tier["tier"] == "deep" && tier["resolution_us"].as_u64() <= Some(60_000), "{tier}");
    assert_eq!(summary["source"]["least_us"], 20_000);
    assert_eq!(summary["least_free_by_instance"].as_array().unwrap().len(), 1, "{summary:#}");
    let missing: Vec<&str> =
        summary["missing"].as_array().unwrap().iter().filter_map(|it| it["what"].as_str()).collect();
    assert!(missing.contains(&"the server's own wait events"), "XtraDB has them off: {missing:?}");
    assert!(deep.victims.iter().any(|it| it.1 == "free_list_backoff"), "{summary:#}");
}

/// The kernel takes the probes back.
fn is_killed(server: &Server) {
    if changed_bytes(server.pid) > 0 {
        // a breakpoint is of the file, whoever runs it: of two probes of one function nobody sees which one is left
        testkit::skip!("somebody else probes this server's file");
    }
    let mut watch = server.lab.start("killed", ["stalls", "watch", "--sandbox", "s", "--probes"]);
    assert!(wait_until(PATIENCE, || changed_bytes(server.pid) > 0), "no breakpoint: {}", server.lab.said("killed"));
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(wait_until(PATIENCE, || changed_bytes(server.pid) == 0), "a breakpoint is left");
}
