// SPDX-License-Identifier: Apache-2.0
//! Recordings with inventories in, the finding `memory.growth` out: what is a leak, and what is not.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a test

mod common;
#[path = "../../modes/tests/random/mod.rs"]
mod random;

use common::figures;
use evidence::{Arm, Evidence, Format, Snapshot};
use explain::{Finding, explain, with_figures_alone};
use ledger::{Context, Earlier, HeapWalk, HostSeen, Inventory, Mapping, ProcessSeen, ServerSeen, Session};
use random::Random;
use std::collections::BTreeMap;

const MIB: f64 = 1048576.0;
const HOUR_US: u64 = 3_600_000_000;
/// Inventories of a recording: one a minute for two hours.
const TAKEN: u64 = 120;
const SPAN_US: u64 = 2 * HOUR_US;

/// What a server has at one time, in MiB.
#[derive(Debug, Clone, Copy)]
struct Has {
    prepared: f64,
    sorts: f64,
    tables: f64,
    pool: f64,
    free: f64,
    unnamed: f64,
    sessions: usize,
    /// Its allocator can be walked.
    is_walked: bool,
    pid: u32,
}

const REST: Has = Has {
    prepared: 20.0,
    sorts: 5.0,
    tables: 30.0,
    pool: 100.0,
    free: 10.0,
    unnamed: 15.0,
    sessions: 10,
    is_walked: true,
    pid: 9,
};

fn bytes(mib: f64) -> u64 {
    (mib * 256.0).max(0.0) as u64 * 4096
}

fn inventory(has: Has) -> Inventory {
    let (pool_at, heap_at) = (0x6000_0000_0000, 0x5500_0000_0000);
    let used = has.prepared + has.sorts + has.tables + has.unnamed;
    let heap = bytes(used) + bytes(has.free);
    let mapping = |start: u64, length: u64, path: &str, flags: &str, rss: u64| Mapping {
        start,
        end: start + length,
        permissions: "rw-p".into(),
        path: path.into(),
        flags: flags.into(),
        rss,
        pss: rss,
        anonymous: rss,
        ..Mapping::default()
    };
    let mappings = vec![
        mapping(heap_at, 1 << 32, "[heap]", "", heap),
        mapping(pool_at, 256 << 20, "", "rd wr dd", bytes(has.pool)),
    ];
    let free = bytes(has.free);
    let walk = HeapWalk {
        used: heap - free,
        free,
        free_resident: free,
        resident: heap,
        walked: vec![heap_at],
        ..HeapWalk::default()
    };
    let process = ProcessSeen {
        pid: has.pid,
        status: [("VmRSS".to_owned(), heap + bytes(has.pool)), ("VmPTE".to_owned(), 1 << 20)].into(),
        mappings: Some(mappings),
        heap: has.is_walked.then_some(walk),
        ..ProcessSeen::default()
    };
    let event = |name: &str, mib: f64| (name.to_owned(), bytes(mib) as i64);
    let server = ServerSeen {
        variables: [("innodb_buffer_pool_size".to_owned(), (256u64 << 20).to_string())].into(),
        memory_events: BTreeMap::from([
            event("memory/sql/Prepared_statement::main_mem_root", has.prepared),
            event("memory/sql/Filesort_buffer::sort_keys", has.sorts),
            event("memory/sql/TABLE", has.tables),
        ]),
        sessions: vec![Session::default(); has.sessions],
        ..ServerSeen::default()
    };
    Inventory {
        flavour: serde_json::from_value("mysql".into()).unwrap(),
        version: Some("5.6.51".into()),
        processes: vec![process],
        server: Some(server),
        host: HostSeen::default(),
        ..Inventory::default()
    }
}

/// `at`: from 0 to 1, and the number of the inventory.
fn recording(count: u64, has: impl FnMut(f64, usize) -> Has) -> Evidence {
    recording_of((0..count).map(|index| index as f64 / count as f64).zip(0..).map({
        let mut has = has;
        move |(at, index)| (at, inventory(has(at, index)))
    }))
}

fn recording_of(inventories: impl Iterator<Item = (f64, Inventory)>) -> Evidence {
    let taken = |(at, inventory): (f64, Inventory)| Snapshot {
        at_us: (at * SPAN_US as f64) as u64,
        arm: Some("observed".into()),
        source: evidence::INVENTORY.into(),
        entity: String::new(),
        format: Format::Json,
        content: serde_json::to_string(&inventory).unwrap(),
    };
    let evidence = serde_json::json!({
        "run_id": "w-1", "started": "2026-01-01T00:00:00Z", "elapsed_us": SPAN_US, "experiment": "", "arms": [], "measured": [],
        "samples": [], "events": [],
        "conditions": {
            "tool": {"version": "0", "command": [], "as_root": true},
            "host": {"kernel": "", "distribution": "", "cpu_model": "", "cpus": 2, "mem_total_bytes": 0, "swap_total_bytes": 0,
                "page_size_bytes": 4096, "huge_page_size_bytes": 0, "hz": 250, "virtualisation": "", "cgroup": "", "storage": "", "clock_source": ""},
            "server": {"flavour": "", "version": "", "binary": "", "source": "", "variables": {}},
            "mechanisms": {}, "caveats": []
        },
    });
    let mut evidence: Evidence = serde_json::from_value(evidence).unwrap();
    evidence.arms = vec![Arm { ended_us: SPAN_US, ..Arm::observed(0) }];
    evidence.snapshots = inventories.map(taken).collect();
    evidence
}

fn growth(evidence: &Evidence) -> Finding {
    let mut found = explain(evidence).findings.into_iter().filter(|finding| finding.id() == "memory.growth");
    let one = found.next().expect("the finding");
    assert!(found.next().is_none(), "one for each arm");
    one
}

fn verdict(finding: &Finding) -> String {
    figures(finding)["verdict"].as_str().unwrap().to_owned()
}

fn leaf(finding: &Finding, path: &str) -> serde_json::Value {
    let leaves = figures(finding)["leaves"].clone();
    leaves
        .as_array()
        .unwrap()
        .iter()
        .find(|leaf| leaf["path"] == path)
        .unwrap_or_else(|| panic!("{path}: {leaves}"))
        .clone()
}

fn doubts(finding: &Finding) -> Vec<&str> {
    finding.doubts.iter().map(|doubt| doubt.id.as_str()).collect()
}

/// What swings in a server at rest: sessions come and go, each of them with sorts and statements; the noise remembers.
struct Swing {
    random: Random,
    period: f64,
    from: f64,
    memory: f64,
}

impl Swing {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed * 6_700_417 + 3);
        let (period, from, memory) = (random.between(0.05, 0.3), random.unit(), random.normal());
        Self { random, period, from, memory }
    }

    fn at_rest(&mut self, at: f64) -> Has {
        let tooth = (at / self.period + self.from).fract();
        self.memory = 0.7 * self.memory + 0.71 * self.random.normal();
        Has {
            prepared: REST.prepared + 4.0 * tooth + 0.5 * self.memory,
            sorts: REST.sorts + 2.0 * self.random.unit(),
            tables: REST.tables + 10.0 * (1.0 - (-at / 0.1).exp()),
            pool: REST.pool + 50.0 * (1.0 - (-at / 0.05).exp()),
            free: REST.free + 8.0 * (1.0 - tooth) + self.random.normal(),
            unnamed: REST.unnamed + 0.5 * self.random.normal(),
            sessions: 10 + (8.0 * tooth) as usize,
            ..REST
        }
    }
}

#[test]
fn of_twenty_servers_at_rest_at_most_one_is_said_to_grow() {
    let at_rest = |seed: u64| {
        let mut swing = Swing::new(seed);
        growth(&recording(TAKEN, |at, _| swing.at_rest(at)))
    };
    let said: Vec<String> = (0..20).map(at_rest).filter(|it| verdict(it) != "none").map(|it| it.statement).collect();
    assert!(said.len() <= 1, "{said:#?}");
}

#[test]
fn what_the_server_uses_more_and_more_of_is_a_leak_and_its_rate_is_found() {
    const RATE: f64 = 24.0;
    for seed in 0..5 {
        let mut swing = Swing::new(100 + seed);
        let found = growth(&recording(TAKEN, |at, _| {
            let has = swing.at_rest(at);
            Has { prepared: has.prepared + 2.0 * RATE * at, ..has }
        }));
        assert_eq!(verdict(&found), "leak", "{}", found.statement);
        assert!(found.statement.contains("sessions/prepared"), "{}", found.statement);
        let leaf = leaf(&found, "sessions/prepared");
        let rate = leaf["bytes_per_hour"].as_f64().unwrap() / MIB;
        assert!((rate / RATE - 1.0).abs() <= 0.1, "seed {seed}: {rate} MiB an hour");
        assert!(leaf["low_bytes_per_hour"].as_f64().unwrap() < rate * MIB);
        assert!(doubts(&found).contains(&"growth.fills") && !doubts(&found).contains(&"growth.sessions"));
    }
}

#[test]
fn what_nobody_names_is_a_leak_where_the_walk_says_that_it_is_used() {
    let leaking = |is_walked: bool| {
        let mut swing = Swing::new(7);
        growth(&recording(TAKEN, |at, _| {
            let has = swing.at_rest(at);
            Has { unnamed: has.unnamed + 40.0 * at, is_walked, ..has }
        }))
    };
    let found = leaking(true);
    assert_eq!(verdict(&found), "leak", "{}", found.statement);
    assert_eq!(leaf(&found, "unexplained")["growth"], "leak");
    assert_eq!(figures(&found)["heap_used"]["course"], "keeps_growing");
    // the same, of an allocator that does not show its chunks
    let found = leaking(false);
    assert_eq!((verdict(&found).as_str(), &figures(&found)["heap_used"]), ("unnamed", &serde_json::Value::Null));
    assert!(found.statement.contains("nothing says whether it is in use"), "{}", found.statement);
}

#[test]
fn what_the_allocator_keeps_is_no_leak() {
    let mut swing = Swing::new(8);
    let found = growth(&recording(TAKEN, |at, _| {
        let has = swing.at_rest(at);
        Has { free: has.free + 60.0 * at, ..has }
    }));
    assert_eq!(verdict(&found), "retention", "{}", found.statement);
    assert!(found.statement.contains("kept, not leaked"), "{}", found.statement);
}

#[test]
fn a_pool_and_a_cache_that_fill_are_no_leak() {
    let mut swing = Swing::new(9);
    let found = growth(&recording(TAKEN, |at, _| Has { pool: 60.0 + 90.0 * at, ..swing.at_rest(at) }));
    assert_eq!(verdict(&found), "filling", "{}", found.statement);
    assert!(found.statement.contains("to 149") && found.statement.contains("of 256 MiB"), "{}", found.statement);
    let mut swing = Swing::new(10);
    let found = growth(&recording(TAKEN, |at, _| Has { tables: 30.0 + 20.0 * at, ..swing.at_rest(at) }));
    assert_eq!(verdict(&found), "filling", "{}", found.statement);
}

/// Performance_schema takes such pieces; an index of the adaptive hash, too.
#[test]
fn a_step_is_told_and_is_no_leak() {
    let mut swing = Swing::new(11);
    let found = growth(&recording(TAKEN, |at, _| {
        let has = swing.at_rest(at);
        Has { prepared: has.prepared + if at > 0.4 { 41.0 } else { 0.0 }, ..has }
    }));
    assert_eq!(verdict(&found), "none", "{}", found.statement);
    assert!(found.statement.contains("What grew most was sessions/prepared"), "{}", found.statement);
    assert_eq!(leaf(&found, "sessions/prepared")["course"], "grew");
}

#[test]
fn more_and_more_sessions_are_a_doubt() {
    let mut swing = Swing::new(12);
    let found = growth(&recording(TAKEN, |at, _| {
        let has = swing.at_rest(at);
        Has { prepared: 20.0 + 60.0 * at, sessions: 10 + (300.0 * at) as usize, ..has }
    }));
    assert_eq!(verdict(&found), "leak");
    assert!(doubts(&found).contains(&"growth.sessions"), "{:?}", found.doubts);
}

#[test]
fn from_too_few_inventories_nothing_is_said() {
    let found = growth(&recording(12, |at, _| Has { prepared: 20.0 + 400.0 * at, ..REST }));
    assert_eq!(verdict(&found), "too_few");
    assert!(found.statement.contains("too seldom"), "{}", found.statement);
    assert!(leaf(&found, "sessions/prepared")["bytes_per_hour"].is_null());
    let nothing = recording(0, |_, _| REST);
    assert!(explain(&nothing).findings.iter().all(|finding| finding.id() != "memory.growth"));
    assert!(explain(&nothing).memory.is_empty());
}

/// Memory of the start before is gone, and the pool of the next one fills anew.
#[test]
fn only_the_last_start_of_the_server_counts() {
    let mut swing = Swing::new(13);
    let found = growth(&recording(TAKEN, |at, index| {
        let has = swing.at_rest(at);
        let pid = if index < 60 { 9 } else { 10 };
        Has { prepared: has.prepared + if index < 60 { 200.0 * at } else { 0.0 }, pid, ..has }
    }));
    assert_eq!(verdict(&found), "none", "{}", found.statement);
    assert_eq!(figures(&found)["inventories"], 60);
    assert!(doubts(&found).contains(&"growth.restarted"));
}

#[test]
fn damaged_and_partial_inventories_are_counted_and_break_nothing() {
    let mut swing = Swing::new(14);
    let leaking = (0..TAKEN).map(|index| {
        let at = index as f64 / TAKEN as f64;
        let mut inventory = inventory(Has { prepared: 20.0 + 60.0 * at, ..swing.at_rest(at) });
        if index % 10 == 3 {
            inventory.server = None;
        }
        (at, inventory)
    });
    let mut evidence = recording_of(leaking);
    evidence.snapshots[5].content = "{".into();
    evidence.snapshots[6].content = "{\"at_unix_us\": \"never\"}".into();
    let found = growth(&evidence);
    assert_eq!(verdict(&found), "leak", "{}", found.statement);
    let told: Vec<&str> = found.doubts.iter().map(|doubt| doubt.text.as_str()).collect();
    assert!(told.iter().any(|text| text.starts_with("12 of 118 inventories lack")), "{told:?}");
    assert!(told.iter().any(|text| text.starts_with("2 inventories cannot be read")), "{told:?}");
}

#[test]
fn the_same_recording_is_explained_the_same_way_and_reads_back() {
    let mut swing = Swing::new(15);
    let evidence = recording(60, |at, _| swing.at_rest(at));
    let explained = explain(&evidence);
    assert_eq!(explain(&evidence), explained);
    let read: explain::Explained = serde_json::from_str(&serde_json::to_string(&explained).unwrap()).unwrap();
    assert_eq!(read.memory, explained.memory);
    assert_eq!(explained.memory[0].over_time.at_us.len(), 60);
}

#[test]
fn figures_alone_say_what_whole_inventories_say() {
    let mut swing = Swing::new(16);
    let mut evidence = recording(60, |at, _| swing.at_rest(at));
    evidence.snapshots[5].content = "{".into();
    let explained = explain(&evidence);
    let whole = evidence.snapshots.iter().map(|it| it.content.len()).max();
    evidence.snapshots = evidence.snapshots.into_iter().map(with_figures_alone).collect();
    assert_eq!(explain(&evidence), explained);
    assert_eq!(explained.memory[0].unreadable, 1);
    let again: Vec<Snapshot> = evidence.snapshots.iter().cloned().map(with_figures_alone).collect();
    assert_eq!(again, evidence.snapshots);
    // the time is that of the snapshot, which a load from another host may move
    evidence.snapshots.iter_mut().for_each(|it| it.at_us += 7);
    assert_eq!(explain(&evidence).memory[0].over_time.at_us[1], explained.memory[0].over_time.at_us[1] + 7);
    let figures = evidence.snapshots.iter().map(|it| it.content.len()).max();
    assert!(figures < whole, "{figures:?} {whole:?}");
}

/// A PostgreSQL: its postmaster and one backend were read, with so much in prepared statements; of six others only the status, with so much shared memory.
fn of_many(plans: f64, shared: f64, are_known: bool) -> Inventory {
    let anonymous = |mib: f64| Mapping {
        start: 0x5500_0000_0000,
        end: 0x5600_0000_0000,
        permissions: "rw-p".into(),
        path: "[heap]".into(),
        rss: bytes(mib),
        pss: bytes(mib),
        anonymous: bytes(mib),
        ..Mapping::default()
    };
    let status = |own: f64, shared: f64| -> BTreeMap<String, u64> {
        [("RssAnon".to_owned(), bytes(own)), ("RssShmem".to_owned(), bytes(shared))].into()
    };
    let context =
        |level, name: &str, mib| Context { level, name: name.into(), allocated: bytes(mib), ..Context::default() };
    let read = |pid, role: &str, own: f64, plans| ProcessSeen {
        pid,
        role: role.into(),
        status: status(own, 0.0),
        mappings: Some(vec![anonymous(own)]),
        contexts: Some(vec![context(0, "TopMemoryContext", 1.0), context(1, "CachedPlanSource", plans)]),
        ..ProcessSeen::default()
    };
    let other = |pid| {
        let (status, rollup) = (status(1.0, shared), [("Pss".to_owned(), bytes(1.0))].into());
        let then = ProcessSeen { status: status.clone(), rollup: Some(rollup), ..ProcessSeen::default() };
        let earlier = Earlier::of(&then).filter(|_| are_known);
        ProcessSeen { pid, role: "client backend".into(), status, earlier, ..ProcessSeen::default() }
    };
    let mut processes = vec![read(9, "postmaster", 2.0, 0.0), read(10, "client backend", 2.0 + plans, plans)];
    processes.extend((11..17).map(other));
    Inventory {
        flavour: serde_json::from_value("postgresql".into()).unwrap(),
        version: Some("18.1".into()),
        processes,
        server: Some(ServerSeen::default()),
        ..Inventory::default()
    }
}

/// The estimates of the others may be off by more than all that grew.
#[test]
fn of_estimates_nothing_is_said_and_what_was_read_is_a_leak() {
    let over = |are_known: bool, plans: f64, shared: f64| {
        let at = |index: u64| index as f64 / TAKEN as f64;
        let taken = (0..TAKEN).map(|it| (at(it), of_many(plans * at(it), 20.0 + shared * at(it), are_known)));
        growth(&recording_of(taken))
    };
    let rough = over(false, 0.0, 6.0);
    assert_eq!(verdict(&rough), "none", "{}", rough.statement);
    assert_eq!(leaf(&rough, "shared_memory/main")["course"], "unjudged");
    assert!(figures(&rough)["estimate_uncertainty_bytes"].as_f64().unwrap() > 20.0 * MIB);
    let doubt = rough.doubts.iter().find(|doubt| doubt.id == "growth.sampled").unwrap();
    assert!(doubt.text.contains("1 part grew") && !doubt.hint.as_ref().unwrap().contains("--deep"), "{doubt:?}");
    let leaks = over(true, 50.0, 0.0);
    assert_eq!((verdict(&leaks).as_str(), doubts(&leaks)), ("leak", vec!["growth.fills"]), "{}", leaks.statement);
    assert_eq!(leaf(&leaks, "backends/plans")["growth"], "leak");
}
