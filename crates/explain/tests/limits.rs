// SPDX-License-Identifier: Apache-2.0
//! What limits an arm, from what was counted: one limit at a time, and several.
#![allow(clippy::unwrap_used)] // a test

mod common;

use common::figures;
use evidence::{
    Arm, Arrivals, Delay, DelayMode, Evidence, LatencyHistogram, LoadResult, Measured, Phase, Point, Quantity, Series,
    Witness,
};
use explain::{Finding, explain};
use serde_json::json;

const SECOND: u64 = 1_000_000;
const TRANSACTIONS: u64 = 10_000;

/// Ten seconds on a host with 2 CPUs: 10,000 point selects by 4 connections, 4 ms each, a tenth of a read a query, half of the CPUs idle.
struct Case {
    arrivals: Arrivals,
    writes: u64,
    late: u64,
    layer: Vec<(&'static str, u64)>,
    limits: Vec<(&'static str, u64)>,
    asked: Vec<(&'static str, f64)>,
    idle_us: f64,
    with_layer: bool,
    pressure_us: f64,
}

fn case() -> Case {
    Case {
        arrivals: Arrivals::Closed,
        writes: 0,
        late: 0,
        layer: vec![("slow layer reads", 1000), ("slow layer read bytes", 16 << 20), ("slow layer read us", SECOND)],
        limits: Vec::new(),
        asked: Vec::new(),
        idle_us: 10e6,
        with_layer: true,
        pressure_us: 0.0,
    }
}

fn evidence(case: &Case) -> Evidence {
    let mut service = LatencyHistogram::new();
    service.record_n(4_000_000, TRANSACTIONS);
    let mut measured = Phase {
        started_us: SECOND,
        elapsed_us: 10 * SECOND,
        transactions: TRANSACTIONS,
        reads: TRANSACTIONS,
        writes: case.writes,
        late: case.late,
        client_user_us: 2 * SECOND,
        ..Phase::default()
    };
    measured.transaction.response = service.clone();
    measured.transaction.service = service;
    let load = LoadResult { arrivals: case.arrivals, ..common::load("mysql", 4, measured) };
    let witness = |of: &str, (counter, grown): (&str, u64)| Witness {
        of: of.into(),
        counter: counter.into(),
        before: 7,
        after: 7 + grown,
    };
    let mut witnesses = vec![witness("server", ("Innodb_buffer_pool_reads", TRANSACTIONS / 10))];
    witnesses.extend(case.layer.iter().filter(|_| case.with_layer).map(|one| witness("layer", *one)));
    witnesses.extend(case.limits.iter().map(|one| witness("limits", *one)));
    let delay = Delay { read_us: 1000, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: true };
    let arm = Arm {
        load: Some(load),
        delay: case.with_layer.then_some(delay),
        witnesses,
        ended_us: 12 * SECOND,
        ..Arm::begun("small", 0)
    };
    let measured = |(what, got): &(&str, f64)| Measured {
        at_us: 0,
        arm: Some("small".into()),
        what: (*what).into(),
        mechanism: "cgroup v2".into(),
        asked: None,
        predicted: None,
        got: Some(Quantity::count(*got)),
        witness: String::new(),
        within_tolerance: None,
        tolerance: None,
        looks: None,
        came_on: None,
    };
    let conditions = json!({
        "tool": {"version": "0", "command": [], "as_root": true},
        "host": {"kernel": "", "distribution": "", "cpu_model": "", "cpus": 2, "mem_total_bytes": 0, "swap_total_bytes": 0,
            "page_size_bytes": 4096, "huge_page_size_bytes": 0, "hz": 250, "virtualisation": "", "cgroup": "", "storage": "", "clock_source": ""},
        "server": {"flavour": "mariadb", "version": "", "binary": "", "source": "", "variables": {}},
        "mechanisms": {}, "caveats": []
    });
    let counter = |source: &str, name: &str, grown: f64| Series {
        source: source.into(),
        entity: String::new(),
        name: name.into(),
        unit: "us".into(),
        cumulative: true,
        // a second before and after what is measured, at the same pace
        points: [(0, 0.0), (12 * SECOND, grown * 1.2)].map(|(at_us, value)| Point { at_us, value }).into(),
    };
    Evidence {
        run_id: "w-1".into(),
        started: "2026-01-01T00:00:00Z".into(),
        elapsed_us: 12 * SECOND,
        is_cut_off: false,
        experiment: String::new(),
        files: [].into(),
        conditions: serde_json::from_value(conditions).unwrap(),
        arms: vec![arm],
        measured: case.asked.iter().map(measured).collect(),
        samples: vec![
            counter("stat", "user", 20e6 - case.idle_us),
            counter("stat", "idle", case.idle_us),
            counter("process.stat", "utime", 4e6),
            counter("psi.io", "some.total", case.pressure_us),
        ],
        snapshots: Vec::new(),
        spans: Vec::new(),
        events: Vec::new(),
    }
}

fn found(case: &Case) -> Option<Finding> {
    explain(&evidence(case)).findings.into_iter().find(|finding| finding.id() == "limit.by")
}

#[track_caller]
fn check(case: &Case, limited_by: &str, says: &str) -> Finding {
    let finding = found(case).expect("a finding");
    assert_eq!(figures(&finding)["limited_by"], limited_by, "{finding:#?}");
    assert_eq!(finding.arm.as_deref(), Some("small"));
    assert!(finding.statement.contains(says), "{}", finding.statement);
    finding
}

fn layer(waited: (&'static str, u64)) -> Case {
    let mut case = case();
    case.layer.push(waited);
    case
}

#[test]
fn each_limit_of_the_disk_is_named_by_who_waited_for_it() {
    let iops = layer(("slow layer waited for operations us", 9 * SECOND));
    let finding =
        check(&iops, "iops", "limited by the disk's IOPS: it does 100 reads and writes a second, and in 90.0 %");
    assert_eq!(figures(&finding)["server_cpus"], 0.4);
    assert_eq!(figures(&finding)["client_cpus"], 0.2);
    let bandwidth = layer(("slow layer waited for bytes us", 10 * SECOND));
    check(&bandwidth, "bandwidth", "the disk's bandwidth: it moves");
    let queue = layer(("slow layer waited for its queue us", 8 * SECOND));
    check(&queue, "queue", "how many requests its disk works on at once");
    let hardly = layer(("slow layer waited for operations us", 5 * SECOND));
    check(&hardly, "connections", "each of its 4 connections waits");
}

#[test]
fn cpu_is_named_by_what_used_it_up() {
    let mut quota = case();
    quota.limits = vec![("cpu.periods", 100), ("cpu.throttled_periods", 96), ("cpu_us", 5 * SECOND)];
    quota.asked = vec![("server.cpus.limit", 0.5)];
    check(&quota, "cpu_quota", "it used 0.50 CPUs of 0.50, and was stopped for that in 96.0 %");
    quota.limits[1].1 = 20;
    check(&quota, "cpu_quota", "it used 0.50 CPUs of 0.50, and was stopped for that in 20.0 %");
    quota.limits[2].1 = 2 * SECOND;
    check(&quota, "connections", "Nothing that was looked at was used up");
    // others keep the CPUs busy, so that it does not come to use up its own in each period
    quota.limits[1].1 = 35;
    quota.idle_us = 0.2e6;
    check(&quota, "cpu_quota", "it used 0.20 CPUs of 0.50, and was stopped for that in 35.0 %");
    quota.limits[1].1 = 5;
    check(&quota, "host_cpu", "all 2 CPUs of this host");
    let mut list = case();
    list.limits = vec![("cpu_us", 9_700_000)];
    list.asked = vec![("server.cpuset", 1.0)];
    check(&list, "cpu_list", "it used 0.97 of 1.00");
    list.asked = vec![("server.cpuset", 2.0)];
    check(&list, "connections", "");
    let host = Case { idle_us: 0.2e6, ..case() };
    let finding = check(
        &host,
        "host_cpu",
        "all 2 CPUs of this host were busy 99.0 % of the time (0.40 by the server, 0.20 by the load)",
    );
    assert_eq!(finding.doubts[0].id, "limit.others", "1.38 CPUs were somebody else's");
}

/// A load that only sleeps, beside busy loops of others: their CPUs are no limit of it, unless its threads wait for one.
#[test]
fn cpus_of_others_limit_an_arm_only_when_it_waits_for_them() {
    let finding = |waited_us: u64| {
        let mut evidence = evidence(&Case { idle_us: 0.2e6, ..case() });
        for of in ["process", "load"] {
            let waited =
                Witness { of: of.into(), counter: "waited for a CPU us".into(), before: 7, after: 7 + waited_us };
            evidence.arms[0].witnesses.push(waited);
        }
        explain(&evidence).findings.into_iter().find(|finding| finding.id() == "limit.by").unwrap()
    };
    let (slept, waited) = (finding(SECOND), finding(4 * SECOND));
    let told = |finding: &Finding| {
        let figures = figures(finding);
        (figures["limited_by"].clone(), format!("{:.3}", figures["cpu_waited_share"].as_f64().unwrap()))
    };
    assert_eq!(
        (told(&slept), told(&waited)),
        ((json!("connections"), "0.050".into()), (json!("host_cpu"), "0.200".into()))
    );
    for finding in [slept, waited] {
        let doubts: Vec<_> = finding.doubts.iter().map(|doubt| doubt.id.as_str()).collect();
        assert_eq!(doubts, ["limit.others"], "{:?}", finding.doubts);
    }
}

#[test]
fn misses_and_commits_are_named_where_they_take_the_time() {
    // 40 s of transactions, 30 s of them in reads
    let mut pool = case();
    pool.layer[2].1 = 30 * SECOND;
    check(
        &pool,
        "pool_misses",
        "reads that miss the buffer pool: 0.10 a query, and waiting for them is 75.0 % of the time",
    );
    let untimed = Case { with_layer: false, pressure_us: 8e6, ..case() };
    let finding = check(&untimed, "pool_misses", "80.0 % of the time");
    assert_eq!(finding.doubts[0].id, "limit.untimed");
    pool.idle_us = 0.2e6;
    check(&pool, "pool_misses", "75.0 %"); // 1.38 CPUs are somebody else's: that is no limit of the arm's own
    let mut commits = layer(("slow layer sync us", 9 * SECOND));
    commits.writes = 100;
    check(&commits, "syncs", "limited by commits: in 90.0 % of the time");
    // a transaction takes 4 ms: as long as each of these syncs, or much less than each of those of data files, for which it does not wait
    commits.layer.push(("slow layer syncs", 3000));
    check(&commits, "syncs", "limited by commits: in 90.0 % of the time");
    commits.layer.last_mut().unwrap().1 = 90;
    check(&commits, "connections", "");
    let with_commits = |commits: &Case, count: u64, commit_us: u64| {
        let mut evidence = evidence(commits);
        let measured = &mut evidence.arms[0].load.as_mut().unwrap().measured;
        measured.statements.entry("commit".into()).or_default().service.record_n(commit_us * 1000, count);
        let found = explain(&evidence).findings.into_iter().find(|finding| finding.id() == "limit.by").unwrap();
        figures(&found)["limited_by"].clone()
    };
    let with_class = |commit_us| with_commits(&commits, TRANSACTIONS, commit_us);
    assert_eq!((with_class(2500), with_class(100)), ("syncs".into(), "connections".into()));
    // one of twenty transactions has a commit of its own: the others commit by themselves
    commits.layer.last_mut().unwrap().1 = 3000;
    assert_eq!(with_commits(&commits, TRANSACTIONS / 20, 2500), "syncs");
    commits.layer.pop();
    commits.writes = 0;
    check(&commits, "connections", "");
}

/// A disk that is out of operations makes each miss wait; and one that is out of both is told by the one that holds more.
#[test]
fn what_caps_the_rate_comes_before_what_takes_long() {
    let mut both = layer(("slow layer waited for operations us", 9 * SECOND));
    both.layer[2].1 = 39 * SECOND;
    both.idle_us = 0.0;
    let finding = check(&both, "iops", "IOPS");
    let doubts: Vec<_> = finding.doubts.iter().map(|doubt| doubt.id.as_str()).collect();
    assert_eq!(doubts, ["limit.others"], "{:?}", finding.doubts);
    both.layer.push(("slow layer waited for bytes us", 95 * SECOND / 10));
    check(&both, "bandwidth", "bandwidth");
}

#[test]
fn a_load_with_a_rate_is_its_own_limit_unless_the_rate_was_not_reached() {
    let mut open = Case { arrivals: Arrivals::Constant { per_second: 1000.0 }, ..case() };
    check(&open, "rate", "\"small\" did all that was asked of it, 1000 transactions a second");
    // late or beside a host that is busy: it did all that was due
    open.late = TRANSACTIONS / 2;
    open.idle_us = 0.0;
    check(&open, "rate", "\"small\" did all that was asked of it, 1000 transactions a second");
    let overload = |evidence: &Evidence| {
        let findings = explain(evidence).findings;
        findings.into_iter().find(|finding| finding.id() == "load.overload").map(|finding| finding.statement)
    };
    let mut evidence = evidence(&open);
    let said = overload(&evidence).unwrap();
    assert!(said.contains("The server did all that was asked of it"), "{said}");
    evidence.arms[0].load.as_mut().unwrap().measured.skipped = TRANSACTIONS;
    let said = overload(&evidence).unwrap();
    assert!(said.starts_with("The rate was more than the server could take"), "{said}");
    let limit = explain(&evidence).findings.into_iter().find(|finding| finding.id() == "limit.by").unwrap();
    assert!(limit.statement.contains("is limited by CPU"), "{}", limit.statement);
}

#[test]
fn without_any_reading_of_cpu_nothing_is_said() {
    let mut evidence = evidence(&case());
    evidence.samples.clear();
    assert!(explain(&evidence).findings.iter().all(|finding| finding.id() != "limit.by"));
    evidence.arms[0].load = None;
    assert!(explain(&evidence).findings.is_empty());
}

/// A server that crashed may have begun its counters anew: 0 reads would be a wrong figure.
#[test]
fn a_counter_that_began_anew_is_no_figure() {
    let with = |after| {
        let mut evidence = evidence(&case());
        evidence.arms[0].witnesses.iter_mut().filter(|witness| witness.counter.ends_with("reads")).for_each(|reads| {
            (reads.before, reads.after) = (1000, after);
        });
        let explained = explain(&evidence);
        let limits = explained.findings.into_iter().find(|finding| finding.id() == "limit.by").unwrap();
        ["operations_per_second", "reads_per_query"].map(|key| figures(&limits)[key].as_f64())
    };
    assert_eq!(with(2000), [Some(100.0), Some(0.1)]);
    assert_eq!(with(7), [None, None]);
}
