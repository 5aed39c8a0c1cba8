// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls watch --probes` and `--deep` beside a real XtraDB server whose list of free pages is emptied all the time: each long wait that its clients
//! felt is told, surely and with its length, and the calls make the counter; and the server's code is as it was, also after SIGKILL.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod accounted;

use accounted::{PATIENCE, Server};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::wait_until;

const ROWS: u64 = 150_000;

/// What a client felt of one statement, in microseconds.
#[derive(Debug, Clone)]
struct Felt {
    connection: String,
    from_us: u64,
    to_us: u64,
}

impl Felt {
    fn shares_us(&self, (from_us, to_us): (u64, u64)) -> u64 {
        self.to_us.min(to_us).saturating_sub(self.from_us.max(from_us))
    }
}

fn unix_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// Statements one after another, each of a page of its own, until it is told to stop; those are kept that took 10 ms and more.
fn point_selects(server: &Server, seed: u64, stop: &AtomicBool) -> Vec<Felt> {
    let mut client = server.connect();
    let connection = client.query("SELECT CONNECTION_ID()").unwrap().text(0, 0).unwrap().to_owned();
    let (mut felt, mut state) = (Vec::new(), seed);
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = (state >> 33) % ROWS + 1;
        let (from_us, began) = (unix_us(), Instant::now());
        client.execute(&format!("SELECT c FROM sbtest1 WHERE id = {id}")).unwrap();
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap();
        if took_us >= 10_000 {
            felt.push(Felt { connection: connection.clone(), from_us, to_us: from_us + took_us });
        }
    }
    felt
}

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
    let stop = AtomicBool::new(false);
    let (felt, probed, deep, ended_us) = thread::scope(|scope| {
        let clients: Vec<_> = (1..=4)
            .map(|seed| {
                scope.spawn({
                    let (server, stop) = (&server, &stop);
                    move || point_selects(server, seed, stop)
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(500));
        let probed = watched(&server, &["--probes", "--for=6s"]);
        let ended_us = unix_us();
        let deep = watched(&server, &["--deep", "--for=3s"]);
        is_killed(&server);
        stop.store(true, Ordering::Relaxed);
        let felt: Vec<Felt> = clients.into_iter().flat_map(|it| it.join().unwrap()).collect();
        (felt, probed, deep, ended_us)
    });
    expect_probed(&felt, &probed, ended_us);
    expect_deep(&deep);
}

fn expect_probed(felt: &[Felt], probed: &Watched, ended_us: u64) {
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
        ours.iter().filter(|victim| victim.2 == it.connection).map(|victim| it.shares_us(victim.0)).sum()
    };
    // who waits for a free page waits with others; who waits alone may have waited for a CPU, which other tests use as well
    let is_shared = |one: &Felt| {
        felt.iter().any(|it| {
            it.connection != one.connection && it.shares_us((one.from_us, one.to_us)) * 2 >= one.to_us - one.from_us
        })
    };
    // the last question to the server, and the process's end
    let within = |it: &&Felt| it.from_us > begun_us && it.to_us + 2_000_000 < ended_us;
    // a machine that others keep busy stops all clients at once for shorter times
    let expected: Vec<&Felt> =
        felt.iter().filter(within).filter(|it| it.to_us - it.from_us >= 150_000 && is_shared(it)).collect();
    let is_told = |it: &Felt| told_us(it) * 2 >= it.to_us - it.from_us;
    let (found, lost): (Vec<&Felt>, Vec<&Felt>) = expected.iter().copied().partition(|it| is_told(it));
    println!("felt {}, found {}, told {}; {probes}", expected.len(), found.len(), ours.len());
    assert!(expected.len() >= 4, "the load makes stalls: {felt:?}");
    assert!(lost.len() * 10 <= expected.len(), "not told: {lost:?}; from {begun_us} to {ended_us}");
    // what a client feels has its own waits for a CPU in it
    let is_near = |it: &&&Felt| it.to_us - it.from_us <= told_us(it) + 30_000;
    assert!(found.iter().filter(is_near).count() * 4 >= found.len() * 3, "{found:?} of {ours:?}");
    let account = &summary["account"];
    let (rose, computed) = (account["wait_free"].as_u64().unwrap(), account["wait_free_by_stalls"].as_u64().unwrap());
    println!("wait_free rose by {rose}; the calls make {computed}; cost {}", summary["cost"]);
    assert!(computed.abs_diff(rose) * 5 <= rose, "{computed} of {rose}");
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
