// SPDX-License-Identifier: Apache-2.0
//! A whole recording in, findings out: what they say, and what they doubt.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test

mod common;
#[path = "../../modes/tests/random/mod.rs"]
mod random;

use common::figures;
use evidence::{
    Arm, Delay, DelayMode, Evidence, LatencyHistogram, Measured, Phase, Point, Quantity, Series, TimelinePoint, Witness,
};
use explain::{Finding, explain};
use random::Random;

const QUERIES: u64 = 4000;

/// 60 % of the queries need no read, 35 % one, 5 % two.
fn service(delay_us: f64, random: &mut Random) -> (LatencyHistogram, u64) {
    let mut histogram = LatencyHistogram::new();
    let mut reads = 0;
    for query in 0..QUERIES {
        let needed = match query % 20 {
            0..=11 => 0,
            12..=18 => 1,
            _ => 2,
        };
        reads += needed;
        let us =
            150.0 * (0.1 * random.normal()).exp() + needed as f64 * (delay_us + 80.0 + 10.0 * random.exponential());
        histogram.record((us * 1000.0) as u64);
    }
    (histogram, reads)
}

fn arm(name: &str, read_us: u64, counted: f64) -> Arm {
    let mut random = Random(read_us + 5);
    let (service, reads) = service(read_us as f64, &mut random);
    let counted = (reads as f64 * counted) as u64;
    let mut measured = Phase { elapsed_us: 10_000_000, transactions: QUERIES, reads: QUERIES, ..Phase::default() };
    measured.transaction.response = service.clone();
    measured.transaction.service = service;
    let slot = |index: u64| TimelinePoint {
        at_us: index * 100_000,
        length_us: 100_000,
        transactions: 40 + index % 3,
        ..TimelinePoint::default()
    };
    measured.timeline = (0..100).map(slot).collect();
    let witness = |of: &str, counter: &str| Witness {
        of: of.into(),
        counter: counter.into(),
        before: 1000,
        after: 1000 + counted,
    };
    Arm {
        delay: Some(Delay { read_us, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false }),
        load: Some(common::load("mysql", 1, measured)),
        witnesses: vec![witness("server", "Innodb_buffer_pool_reads"), witness("layer", "slow layer reads")],
        ended_us: 10_000_000,
        ..Arm::begun(name, 0)
    }
}

fn run(flavour: &str, arms: Vec<Arm>) -> Evidence {
    let conditions = common::conditions(flavour);
    Evidence {
        run_id: "w-1".into(),
        started: "2026-01-01T00:00:00Z".into(),
        elapsed_us: 20_000_000,
        is_cut_off: false,
        experiment: String::new(),
        files: [].into(),
        conditions,
        arms,
        measured: Vec::new(),
        samples: Vec::new(),
        snapshots: Vec::new(),
        spans: Vec::new(),
        events: Vec::new(),
    }
}

fn one<'f>(findings: &'f [Finding], id: &str) -> &'f Finding {
    let found: Vec<_> = findings.iter().filter(|finding| finding.id() == id).collect();
    assert_eq!(found.len(), 1, "{id}: {findings:#?}");
    found[0]
}

fn doubts(finding: &Finding) -> Vec<&str> {
    finding.doubts.iter().map(|doubt| doubt.id.as_str()).collect()
}

#[test]
fn modes_and_witnesses_stand_side_by_side_per_arm() {
    let explained = explain(&run("mariadb", vec![arm("no delay", 0, 1.0), arm("10 ms", 10_000, 1.0)]));
    let finding = one(&explained.findings, "latency.modes");
    let figures = figures(finding);
    let arms = figures["arms"].as_array().unwrap();
    assert_eq!(arms.iter().map(|arm| arm["arm"].as_str().unwrap()).collect::<Vec<_>>(), ["no delay", "10 ms"]);
    assert!(arms[0]["reads_per_query_by_modes"].is_null() && arms[0]["reason"].as_str().unwrap().contains("no delay"));
    assert_eq!(arms[0]["reads_per_query_by_server"], 0.45);
    let by_modes = arms[1]["reads_per_query_by_modes"].as_f64().unwrap();
    assert!((by_modes - 0.45).abs() < 0.003, "{by_modes}");
    assert!(arms[1]["discrepancy_server"].as_f64().unwrap().abs() < 0.01);
    assert_eq!(arms[1]["reads_per_query_by_layer"], 0.45);
    assert_eq!(arms[1]["reference"], "server");
    assert_eq!(arms[1]["modes"].as_array().unwrap().len(), 3);
    assert_eq!(
        finding.statement,
        "Of the queries in arm \"10 ms\" (10.0 ms a read), 60.0 % needed no read, 35.0 % needed one read and 5.0 % needed two."
    );
    assert_eq!(doubts(finding), ["modes.undelayed"]);
}

#[test]
fn a_witness_that_counted_otherwise_is_a_doubt() {
    let explained = explain(&run("mariadb", vec![arm("10 ms", 10_000, 1.2)]));
    assert_eq!(doubts(one(&explained.findings, "latency.modes")), ["witness.disagrees"]);
}

#[test]
fn postgresql_is_held_to_the_layer() {
    let mut arm = arm("10 ms", 10_000, 1.0);
    // nine of ten of its reads were answered by the page cache
    arm.witnesses[0] =
        Witness { of: "server".into(), counter: "pg_stat_database.blks_read".into(), before: 0, after: QUERIES * 9 };
    let explained = explain(&run("postgresql", vec![arm]));
    let finding = one(&explained.findings, "latency.modes");
    assert_eq!(figures(finding)["arms"][0]["reference"], "layer");
    assert_eq!(figures(finding)["arms"][0]["reads_per_query_by_server"], 9.0);
    assert!(doubts(finding).is_empty(), "{:?}", finding.doubts);
}

#[test]
fn innodb_without_direct_io_is_held_to_the_layer_too() {
    for (method, reference) in [("O_DIRECT", "server"), ("fsync", "layer")] {
        let mut evidence = run("mariadb", vec![arm("10 ms", 10_000, 1.0)]);
        evidence.conditions.server.variables.insert("innodb_flush_method".into(), method.into());
        assert_eq!(figures(one(&explain(&evidence).findings, "latency.modes"))["arms"][0]["reference"], reference);
    }
}

/// The kernel asked for a tenth more than the queries did.
#[test]
fn read_ahead_is_no_read_of_a_query() {
    let with = |unseen: u64| {
        let mut arm = arm("10 ms", 10_000, 1.0);
        let demanded = arm.witnesses.pop().unwrap().delta();
        let count = |counter: &str, after| Witness { of: "layer".into(), counter: counter.into(), before: 0, after };
        arm.witnesses.extend([
            count("slow layer read-ahead", demanded / 9),
            count("slow layer reads", demanded + demanded / 9),
            count("slow layer reads unseen", unseen),
        ]);
        let mut explained = explain(&run("postgresql", vec![arm]));
        explained.findings.retain(|finding| finding.id() == "latency.modes");
        explained.findings.remove(0)
    };
    let finding = with(0);
    let arm = &figures(&finding)["arms"][0];
    assert_eq!(arm["reads_per_query_by_layer"], 0.45);
    assert!((arm["read_ahead_share_by_layer"].as_f64().unwrap() - 0.1).abs() < 1e-6, "{arm:#}");
    assert!(arm["discrepancy_layer"].as_f64().unwrap().abs() < 0.01);
    assert!(doubts(&finding).is_empty(), "{:?}", finding.doubts);
    assert_eq!(doubts(&with(200)), ["witness.unseen"]);
}

#[test]
fn delayed_syncs_of_a_writing_load_leave_reads_unsaid() {
    let mut arm = arm("10 ms", 10_000, 1.0);
    arm.delay.as_mut().unwrap().sync_us = 5000;
    arm.load.as_mut().unwrap().measured.writes = 100;
    let explained = explain(&run("mariadb", vec![arm]));
    let finding = one(&explained.findings, "latency.modes");
    assert!(figures(finding)["arms"][0]["reads_per_query_by_modes"].is_null());
    assert_eq!(doubts(finding), ["modes.unreadable"]);
}

#[test]
fn times_that_vary_leave_reads_unsaid() {
    let mut arm = arm("gp3", 10_000, 1.0);
    arm.delay.as_mut().unwrap().varies = true;
    let explained = explain(&run("mariadb", vec![arm]));
    let finding = one(&explained.findings, "latency.modes");
    assert!(figures(finding)["arms"][0]["reads_per_query_by_modes"].is_null());
    assert!(finding.statement.contains("the disk's times varied"), "{}", finding.statement);
    assert_eq!(doubts(finding), ["modes.varied"]);
}

#[test]
fn classes_of_statements_are_read_one_by_one() {
    let mut arm = arm("10 ms", 10_000, 1.0);
    let phase = &mut arm.load.as_mut().unwrap().measured;
    let mut quick = phase.transaction.clone();
    quick.service.clear();
    (0..QUERIES).for_each(|query| quick.service.record(90_000 + query * 5));
    phase.statements.insert("SELECT".into(), phase.transaction.clone());
    phase.statements.insert("COMMIT".into(), quick);
    phase.others = QUERIES;
    let explained = explain(&run("mariadb", vec![arm]));
    let evidence = &figures(one(&explained.findings, "latency.modes"))["arms"][0];
    assert_eq!(evidence["statements"].as_array().unwrap().len(), 2);
    // 0.45 reads a SELECT, none a COMMIT
    assert!((evidence["reads_per_query_by_modes"].as_f64().unwrap() - 0.225).abs() < 0.002);
    assert_eq!(evidence["reads_per_query_by_server"], 0.225);
}

#[test]
fn equal_arms_show_no_difference_and_unequal_ones_do() {
    let mut half = arm("half", 10_000, 1.0);
    half.load.as_mut().unwrap().measured.elapsed_us *= 2;
    let explained = explain(&run("mariadb", vec![arm("a", 10_000, 1.0), arm("b", 10_000, 1.0), half]));
    let finding = one(&explained.findings, "arms.compare");
    let shown: Vec<_> =
        figures(finding)["arms"].as_array().unwrap().iter().map(|arm| arm["difference_shown"].clone()).collect();
    assert_eq!(shown, [false, true]);
    assert!(
        finding.statement.contains("Between \"b\" and \"a\" no difference is shown: as many transactions"),
        "{}",
        finding.statement
    );
    let half = &figures(finding)["arms"][1];
    assert_eq!(half["throughput_ratio"], 0.5);
    let half = half["statement"].as_str().unwrap();
    assert!(
        half.starts_with("\"half\" does 200 transactions a second, 50.0 % fewer than \"a\" (400); half of them take"),
        "{half}"
    );
    assert!(finding.statement.ends_with(half));
    assert_eq!(doubts(finding), ["compare.once"]);
}

/// What was measured is told in any case; without an interval no verdict stands beside it.
#[test]
fn an_arm_that_was_too_short_is_told_with_its_figures() {
    let mut short = arm("short", 10_000, 1.0);
    let phase = &mut short.load.as_mut().unwrap().measured;
    phase.elapsed_us *= 2;
    phase.timeline.truncate(4);
    let explained = explain(&run("mariadb", vec![arm("a", 10_000, 1.0), short]));
    let finding = one(&explained.findings, "arms.compare");
    let statement = &finding.statement;
    assert!(
        statement.starts_with("\"short\" does 200 transactions a second, 50.0 % fewer than \"a\" (400); half"),
        "{statement}"
    );
    assert!(statement.ends_with("; the run was too short to tell how much of that is chance."), "{statement}");
    assert_eq!(figures(finding)["arms"][0]["difference_shown"], false);
    assert_eq!(doubts(finding), ["compare.once", "compare.short"]);
}

/// A rate that rises all the time has no batches that do not depend on each other, however long it is measured. What its seconds show is told.
#[test]
fn seconds_that_do_not_overlap_are_told_where_there_is_no_interval() {
    let with_rate = |name: &str, rate: fn(u64) -> u64| {
        let mut arm = arm(name, 0, 1.0);
        let phase = &mut arm.load.as_mut().unwrap().measured;
        for (point, index) in phase.timeline.iter_mut().zip(0..) {
            point.transactions = rate(index);
        }
        phase.transactions = phase.timeline.iter().map(|point| point.transactions).sum();
        arm
    };
    let statement = |rate: fn(u64) -> u64| {
        let explained = explain(&run("mariadb", vec![arm("a", 0, 1.0), with_rate("rises", rate)]));
        one(&explained.findings, "arms.compare").statement.clone()
    };
    let told = statement(|index| 10 + index / 10);
    assert!(
        told.ends_with(
            "how much of that is chance, but its fastest second (190) was slower than the slowest there (409)."
        ),
        "{told}"
    );
    let told = statement(|index| 30 + index / 5);
    assert!(told.ends_with("; the run was too short to tell how much of that is chance."), "{told}");
}

/// Slots of a second, as sysbench tells of them, give an interval as ours do; without them none is given.
#[test]
fn a_load_by_another_program_is_compared_by_its_own_slots() {
    let ours = arm("ours", 0, 1.0);
    let driven = |slots: u64| {
        let mut arm = arm("sysbench", 0, 1.0);
        let phase = &mut arm.load.as_mut().unwrap().measured;
        phase.transactions /= 2;
        let slot = |s: u64| TimelinePoint {
            at_us: s * 1_000_000,
            length_us: 1_000_000,
            transactions: 200 + s % 3,
            p95_us: Some(9),
            ..TimelinePoint::default()
        };
        phase.timeline = (0..slots).map(slot).collect();
        arm.driven = Some(evidence::Driven { driver: "sysbench".into(), ..Default::default() });
        let explained = explain(&run("mariadb", vec![ours.clone(), arm]));
        let finding = one(&explained.findings, "arms.compare").clone();
        let text = finding.doubts.iter().find(|doubt| doubt.id == "compare.driver").expect("a doubt").text.clone();
        (figures(&finding)["arms"][0]["difference_shown"].clone(), text)
    };
    let (shown, doubt) = driven(10);
    assert!(shown == true && doubt.contains("counted by that program"), "{shown} {doubt}");
    let (shown, doubt) = driven(4);
    assert!(shown == false && doubt.contains("too few slots"), "{shown} {doubt}");
}

/// Recordings of earlier builds give the last slot its full length, however early the phase ended.
#[test]
fn the_end_of_a_phase_is_no_slow_slot() {
    let arm = arm("a", 0, 1.0);
    let mut longer = arm.clone();
    let phase = &mut longer.load.as_mut().unwrap().measured;
    phase.elapsed_us += 300;
    phase.timeline.push(TimelinePoint { at_us: 10_000_000, transactions: 1, ..phase.timeline[0] });
    assert_eq!(explain::steady::halves(&longer), explain::steady::halves(&arm));
}

#[test]
fn a_half_in_which_nothing_ended_is_named() {
    let idle = |slots: std::ops::Range<usize>| {
        let mut arm = arm("a", 0, 1.0);
        let timeline = &mut arm.load.as_mut().unwrap().measured.timeline;
        let half = timeline.len() / 2;
        timeline[slots.start * half..slots.end * half].iter_mut().for_each(|point| point.transactions = 0);
        explain::steady::idle_half(&arm)
    };
    assert_eq!([idle(0..0), idle(0..1), idle(1..2), idle(0..2)], [None, Some("first"), Some("second"), None]);
}

#[test]
fn what_is_out_of_tolerance_late_or_costly_is_said() {
    let mut late = arm("rate", 0, 1.0);
    let phase = &mut late.load.as_mut().unwrap().measured;
    (phase.late, phase.skipped) = (1000, 1000);
    phase.errors.insert("1213".into(), 7);
    let mut evidence = run("mariadb", vec![late]);
    evidence.measured.push(Measured {
        at_us: 0,
        arm: Some("rate".into()),
        what: "disk.read.median".into(),
        mechanism: "fuse layer".into(),
        asked: Some(Quantity::micros(10_000.0)),
        predicted: Some(Quantity::micros(10_080.0)),
        got: Some(Quantity::micros(13_000.0)),
        witness: "probe".into(),
        within_tolerance: Some(false),
        tolerance: Some("2 %".into()),
        looks: None,
        came_on: None,
    });
    evidence.samples.push(Series {
        source: "observer".into(),
        entity: String::new(),
        name: "cpu".into(),
        unit: "us".into(),
        cumulative: true,
        points: vec![Point { at_us: 0, value: 0.0 }, Point { at_us: 10_000_000, value: 200_000.0 }],
    });
    let explained = explain(&evidence);
    assert!(
        one(&explained.findings, "squeeze.got")
            .statement
            .contains("The time of a read in \"rate\" came to 13.0 ms, where 10.1 ms was expected (allowed: 2 %).")
    );
    assert!(one(&explained.findings, "load.overload").statement.contains("20.0 % of the transactions started late"));
    assert!(one(&explained.findings, "load.errors").statement.starts_with("7 statements failed"));
    let cost = one(&explained.findings, "observe.cost");
    assert_eq!((cost.statement.as_str(), doubts(cost)), ("Observing took 2.0 % of one CPU.", vec!["observe.costly"]));
    let remedy = |evidence: &evidence::Evidence| {
        one(&explain(evidence).findings, "observe.cost").doubts[0].hint.clone().expect("a remedy")
    };
    assert!(remedy(&evidence).contains("observe.interval"), "a key of the experiment file");
    evidence.arms = vec![Arm::observed(0)];
    assert!(remedy(&evidence).contains("a longer `--interval`"), "`wringer observe` has no experiment file");
}

#[test]
fn a_run_that_broke_off_is_explained_as_far_as_it_got() {
    let broken = Arm { load: None, witnesses: Vec::new(), ..arm("broken", 0, 1.0) };
    let explained = explain(&run("mariadb", vec![broken]));
    assert!(explained.findings.is_empty());
    assert_eq!((explained.arms.len(), explained.arms[0].modes.is_none()), (1, true));
    assert!(explain(&run("mariadb", Vec::new())).arms.is_empty());
}

#[test]
fn what_a_broken_off_arm_did_is_compared_with_a_doubt() {
    let broken = Arm { broke_off: Some("the server ended by itself".into()), ..arm("10 ms", 10_000, 1.0) };
    let whole = explain(&run("mariadb", vec![arm("bare", 0, 1.0), arm("10 ms", 10_000, 1.0)]));
    let cut = explain(&run("mariadb", vec![arm("bare", 0, 1.0), broken]));
    let of = |explained: &explain::Explained| doubts(one(&explained.findings, "arms.compare")).join(" ");
    assert!(of(&cut).contains("compare.broke_off") && !of(&whole).contains("compare.broke_off"));
}

#[test]
fn explained_survives_json() {
    let explained = explain(&run("mariadb", vec![arm("10 ms", 10_000, 1.0)]));
    let read: explain::Explained = serde_json::from_str(&serde_json::to_string(&explained).unwrap()).unwrap();
    assert_eq!(read.run, explained.run);
    assert_eq!(read.findings.len(), explained.findings.len());
}

#[test]
fn what_a_server_did_while_it_was_observed() {
    let mut arm = Arm { ended_us: 11_000_000, ..Arm::observed(1_000_000) };
    let counted = |counter: &str, after| Witness { of: "server".into(), counter: counter.into(), before: 100, after };
    arm.witnesses = vec![counted("Questions", 1100)];
    let mut evidence = run("mariadb", vec![arm]);
    let mut add = |source: &str, entity: &str, name: &str, values: [f64; 2]| {
        let points = [(1_000_000, values[0]), (11_000_000, values[1])].map(|(at_us, value)| Point { at_us, value });
        let (source, entity, name) = (source.into(), entity.into(), name.into());
        let series = Series { source, entity, name, unit: "us".into(), cumulative: true, points: points.into() };
        evidence.samples.push(series);
    };
    add("stat", "", "user", [0.0, 5e6]);
    add("stat", "", "idle", [1e6, 16e6]);
    add("process.stat", "server", "utime", [1e6, 4e6]);
    add("process.stat", "server", "cutime", [0.0, 1e6]);
    add("process.stat", "server", "rss", [(1 << 20) as f64, (3 << 20) as f64]);
    let finding = explain(&evidence).findings.remove(0);
    assert_eq!((finding.id(), finding.arm.as_deref()), ("observe.server", Some("observed")));
    assert_eq!(
        finding.statement,
        "In 10.0 s the host's CPUs were busy for 25.0 % of the time; the server used 0.40 CPUs; it counted 100.0 statements a second; \
         its memory (RSS) went from 1 MiB to 3 MiB."
    );
    assert_eq!(
        (&figures(&finding)["statements"], &figures(&finding)["transactions"]),
        (&1000.into(), &serde_json::Value::Null)
    );
    // Pss was given up on the way
    let mut add = |name: &str, at_us| {
        let points = vec![Point { at_us, value: 7.0 }];
        let (source, entity, name) = ("process.smaps_rollup".into(), "server".into(), name.into());
        evidence.samples.push(Series { source, entity, name, unit: "bytes".into(), cumulative: false, points });
    };
    add("Pss", 2_000_000);
    evidence.arms[0].witnesses = vec![counted("pg_stat_database.xact_commit", 200)];
    let finding = explain(&evidence).findings.remove(0);
    assert!(finding.statement.contains("10.0 transactions a second; its memory (RSS)"), "{}", finding.statement);
    assert_eq!(doubts(&finding), ["observe.late_counts"]);
}

/// Counters of the host over 10 s of two CPUs, of which others used `others_us`.
fn host_counters(others_us: u64, stolen_us: u64) -> Vec<Witness> {
    let idle_us = 12_000_000 - others_us - stolen_us;
    let grown = [
        ("elapsed us", 10_000_000),
        ("host cpu us", 20_000_000),
        ("host idle us", idle_us),
        ("host interrupts us", 500_000),
        ("host stolen us", stolen_us),
        ("own cpu us", 7_000_000),
        ("kernel cpu us", 500_000),
        ("other runs cpu us", 0),
        ("waiting for cpu, some us", 2_500_000),
    ];
    let counted = |(counter, grown): (&str, u64)| Witness {
        of: explain::busy::HOST.into(),
        counter: counter.into(),
        before: 1000,
        after: 1000 + grown,
    };
    grown.map(counted).into()
}

#[test]
fn whose_work_a_host_did_is_told_and_is_the_first_doubt_when_it_is_much() {
    let with = |others_us, stolen_us| {
        let mut arms = vec![arm("bare", 0, 1.0), arm("10 ms", 10_000, 1.0)];
        arms[1].witnesses.extend(host_counters(others_us, stolen_us));
        explain(&run("mariadb", arms))
    };
    let quiet = with(400_000, 200_000);
    let busy = quiet.arms[1].busy.expect("was looked at");
    assert!((busy.others_ratio - 0.02).abs() < 1e-9 && (busy.own_ratio - 0.35).abs() < 1e-9, "{busy:?}");
    assert_eq!((busy.stolen_ratio, busy.cpu_waiting_ratio, busy.io_waiting_ratio), (0.01, Some(0.25), None));
    assert!(quiet.arms[0].busy.is_none() && !quiet.findings.iter().any(|finding| finding.id() == "host.busy"));

    let loud = with(8_000_000, 1_000_000);
    let finding = one(&loud.findings, "host.busy");
    assert_eq!(doubts(finding), ["host.others", "host.stolen"]);
    assert!(finding.statement.contains("other programs used 40.0 % of the CPU time in arm \"10 ms\""), "{finding:?}");
    assert!(finding.doubts[1].text.contains("5.0 %"), "{finding:?}");
}

#[test]
fn an_article_is_held_to_its_laws_only_where_the_experiment_names_it() {
    let mut evidence = run("mariadb", vec![arm("10 ms", 10_000, 1.0)]);
    assert!(explain(&evidence).findings.iter().all(|finding| finding.id() != "article.figures"));
    evidence.experiment = "article = 2".into();
    let explained = explain(&evidence);
    let told = figures(one(&explained.findings, "article.figures"));
    let each = told["figures"].as_array().unwrap();
    assert_eq!(each.len(), 2);
    assert!(each.iter().all(|figure| figure["agrees"] == true), "{each:#?}");
}
