// SPDX-License-Identifier: Apache-2.0
//! `article.figures`: which figures a run has, what they are computed from, and what is said where a law was not kept.
#![allow(clippy::unwrap_used)] // a test

mod common;

use common::figures;
use evidence::{
    Arm, ArmOutcome, Arrivals, Evidence, LatencyHistogram, LoadResult, Measured, Phase, Quantity, SLOW_STATEMENT, Span,
    Witness,
};
use explain::explain;
use serde_json::Value;

const NONE: &str = "the recording has no evidence of the reason";

fn run(article: u32, arms: Vec<Arm>, measured: Vec<Measured>) -> Evidence {
    Evidence { experiment: format!("article = {article}"), arms, measured, ..Evidence::default() }
}

fn arm(name: &str, settings: &[(&str, &str)]) -> Arm {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Arm { cell: name.into(), settings, ..Arm::begun(name, 0) }
}

fn got(arm: &str, what: &str, value: f64) -> Measured {
    Measured { arm: Some(arm.into()), got: Some(Quantity::count(value)), ..Measured::of(what, "test", "test") }
}

/// The finding's evidence and its statement.
fn told(evidence: &Evidence) -> (Value, String) {
    let explained = explain(evidence);
    let finding = explained.findings.iter().find(|finding| finding.id() == "article.figures").expect("the finding");
    (figures(finding), finding.statement.clone())
}

fn figure(told: &Value, name: &str) -> Value {
    let all = told["figures"].as_array().unwrap();
    all.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name} in {told:#}")).clone()
}

fn rest(name: &str, begin: f64, end: f64) -> Vec<Measured> {
    vec![got(name, "idle.rss.begin", begin), got(name, "idle.rss.end", end), got(name, "idle.vsz.end", 4.0 * end)]
}

#[test]
fn a_figure_without_a_law_stands_there_and_agrees_with_nothing() {
    let mut evidence = run(3, vec![arm("a", &[])], rest("a", 1100.0, 1090.0));
    evidence.conditions.server.variables = [("innodb_buffer_pool_size".to_owned(), "1000".to_owned())].into();
    let (article, statement) = told(&evidence);
    let share = figure(&article, "RSS over the buffer pool");
    assert_eq!((share["ours"].as_f64(), share["article"].as_f64()), (Some(1.1), Some(1.1)));
    assert_eq!(share["article_from"], "chapter 1: \"usually innodb uses 10% more memory than the one specified\"");
    for key in ["law", "law_low", "law_high", "agrees", "because"] {
        assert!(share[key].is_null(), "{key}: {share:#}");
    }
    let kept = figure(&article, "RSS after a rest over RSS at the load's end");
    assert_eq!((&kept["agrees"], &kept["because"]), (&Value::from(true), &Value::Null), "{kept:#}");
    assert_eq!((kept["law_low"].as_f64(), kept["law_high"].as_f64()), (Some(0.8), Some(1.05)));
    assert!(statement.contains("so here for 1 of 1 figure"), "those without are not counted: {statement}");
    // a law with one bound
    let probe = [("probe.scan.cold", 100.0), ("probe.scan.warm", 150.0), ("probe.scan.warm.cached", 1.0)];
    let evidence = run(1, vec![arm("a", &[])], probe.map(|(what, value)| got("a", what, value)).into());
    let scan = figure(&told(&evidence).0, "second scan over first, file cached");
    assert_eq!((&scan["law_low"], &scan["law_high"], &scan["agrees"]), (&1.5.into(), &Value::Null, &true.into()));
}

#[test]
fn a_law_that_is_not_kept_is_told_with_what_else_the_recording_has() {
    let name = "RSS after a rest over RSS at the load's end";
    let evidence = run(3, vec![arm("a", &[])], rest("a", 1000.0, 500.0));
    let (article, statement) = told(&evidence);
    let against = figure(&article, name);
    assert_eq!((&against["agrees"], &against["because"]), (&Value::from(false), &NONE.into()), "{against:#}");
    assert!(statement.contains("0 of 1 figure") && statement.ends_with(&format!("; not so: {name}.")), "{statement}");

    let mut measured = rest("a", 1000.0, 500.0);
    measured.push(Measured { within_tolerance: Some(false), ..got("a", "ram.hidden", 1.0) });
    measured.push(Measured { within_tolerance: Some(true), ..got("a", "disk.read.median", 1.0) });
    measured.push(Measured { within_tolerance: Some(false), arm: None, ..got("", "fill.size", 1.0) });
    let killed = Arm { broke_off: Some("no RAM".into()), outcome: ArmOutcome::OutOfMemory, ..arm("b", &[]) };
    let evidence = run(3, vec![arm("a", &[]), killed], measured);
    let because = figure(&told(&evidence).0, name)["because"].as_str().unwrap().to_owned();
    for words in [
        "not shown to be the reason",
        "arm “b” has no whole measurement (no RAM)",
        "ram.hidden in arm “a” is out of its tolerance",
        "fill.size is out of its tolerance",
    ] {
        assert!(because.contains(words), "'{words}' is not in {because}");
    }
    assert!(!because.contains("disk.read"), "{because}");
}

/// The application's refused logins, and those of the other client, where there is one.
fn beside(arm: &str, application: f64, other: Option<f64>) -> Vec<Measured> {
    let own = got(arm, "beside.web.refused", application);
    let opened = got(arm, "beside.web.opened", 300.0);
    [own, opened].into_iter().chain(other.map(|refused| got(arm, "beside.batch.refused", refused))).collect()
}

#[test]
fn the_application_is_the_account_that_is_alone_somewhere() {
    let before = [("load.before", "[\"ALTER USER batch WITH MAX_USER_CONNECTIONS 30\"]")];
    let arms = || vec![arm("limited", &before), arm("leak", &[]), arm("alone", &[])];
    let measured = |leak: f64, limited: f64| {
        [beside("limited", limited, Some(90.0)), beside("leak", leak, Some(40.0)), beside("alone", 0.0, None)].concat()
    };
    let (leak, limit) = (
        "logins of the application that fail beside a leak",
        "logins of the application that fail beside a leak with a limit",
    );
    let of = |evidence: &Evidence, name: &str| {
        let found = figure(&told(evidence).0, name);
        (found["ours"].as_f64(), found["agrees"].as_bool())
    };
    // in whichever order the arms ran, and whatever the accounts are called
    let evidence = run(5, arms(), measured(120.0, 0.0));
    assert_eq!((of(&evidence, leak), of(&evidence, limit)), ((Some(120.0), Some(true)), (Some(0.0), Some(true))));
    let words = "Beside a client that leaks connections, 120 logins of the application fail; with a limit for that client, 0 fail.";
    let (article, statement) = told(&evidence);
    assert_eq!(article["told"], words);
    assert!(statement.starts_with(&format!("{words} Article 5, ")), "what was measured is told first: {statement}");
    let evidence = run(5, arms(), measured(0.0, 1.0));
    assert_eq!((of(&evidence, leak), of(&evidence, limit)), ((Some(0.0), Some(false)), (Some(1.0), Some(false))));
    // nowhere alone: nothing says which of the two is the application
    let both = [beside("limited", 0.0, Some(90.0)), beside("leak", 120.0, Some(40.0))].concat();
    let mut evidence = run(5, arms()[..2].to_vec(), both);
    assert!(explain(&evidence).findings.iter().all(|finding| finding.id() != "article.figures"), "nothing is measured");
    evidence.measured.push(got("leak", "connection.page_tables", 8.0));
    evidence.measured.push(got("leak", "connection.shared_mapped", 4096.0));
    assert_eq!(of(&evidence, leak), (None, None));
    assert_eq!(of(&evidence, "page tables of a page that a connection has touched"), (Some(8.0), Some(true)));
}

#[test]
fn arms_are_known_by_what_they_set() {
    // page tables: with pages of 4 KiB, whichever arm is first
    let huge = [("server.huge_pages", "true")];
    let arms = vec![arm("huge", &huge), arm("small", &[]), arm("more", &[])];
    let mut measured = vec![
        got("huge", "connection.page_tables", 1.0),
        got("huge", "connection.shared_mapped", 4096.0),
        got("small", "connection.page_tables", 16.0),
        got("small", "connection.shared_mapped", 8192.0),
        got("huge", "server.huge_pages", 1_090_519_040.0),
    ];
    for (arm, bytes) in [("huge", 10.0), ("small", 100.0), ("more", 410.0)] {
        measured.push(got(arm, "server.page_tables", bytes));
    }
    let mut evidence = run(5, arms, measured);
    evidence.conditions.server.variables = [("shared_buffers".to_owned(), "1GB".to_owned())].into();
    let article = told(&evidence).0;
    let ours = |name: &str| figure(&article, name)["ours"].as_f64();
    assert_eq!(ours("page tables of a page that a connection has touched"), Some(8.0));
    assert_eq!(ours("page tables with pages of 4 KiB over those with huge pages"), Some(41.0));
    assert_eq!(ours("page tables of 80 connections over those of 20"), Some(4.1));
    assert_eq!(ours("memory in huge pages over shared_buffers"), Some(1_090_519_040.0 / f64::from(1 << 30)));

    // ticks a stall: of arms with backoff, which is what the file's section says
    let ticks = |before: u64| Witness {
        of: "server".into(),
        counter: "Innodb_buffer_pool_wait_free".into(),
        before,
        after: before + 479,
    };
    let legacy = [("server.live.innodb_empty_free_list_algorithm", "legacy")];
    let arms = vec![
        Arm { witnesses: vec![ticks(1)], ..arm("legacy", &legacy) },
        Arm { witnesses: vec![ticks(7)], ..arm("backoff", &[]) },
    ];
    let slow = |entity: &str| Span { kind: SLOW_STATEMENT.into(), entity: entity.into(), ..Span::default() };
    let spans = ["legacy", "backoff", "backoff", "backoff", "backoff", "backoff"].map(slow).into();
    let evidence = Evidence { spans, ..run(4, arms, Vec::new()) };
    let found = figure(&told(&evidence).0, "increases of wait_free a stalled query");
    assert_eq!((found["ours"].as_f64(), found["agrees"].as_bool()), (Some(95.8), Some(true)), "{found:#}");
}

fn loaded(arm: Arm, longest_ms: u64) -> Arm {
    let mut phase = Phase { elapsed_us: 2_000_000, transactions: 2, reads: 2, ..Phase::default() };
    for histogram in [&mut phase.transaction.service, &mut phase.transaction.response] {
        histogram.record(100_000);
        histogram.record(longest_ms * 1_000_000);
    }
    let load = LoadResult {
        workload: "oltp_point_select".into(),
        driver: "mysql".into(),
        connections: 1,
        workers: 1,
        arrivals: Arrivals::Closed,
        seed: 1,
        distribution: "uniform".into(),
        prepared_statements: true,
        connect: LatencyHistogram::default(),
        warmup: None,
        measured: phase,
    };
    Arm { load: Some(load), ..arm }
}

#[test]
fn a_pause_is_compared_with_legacy_and_a_busy_host_is_told() {
    let pause = ("load.pause", "60s");
    let legacy = ("server.live.innodb_empty_free_list_algorithm", "legacy");
    let with = |backoff_ms: u64, legacy_ms: u64| {
        let short = loaded(arm("backoff, 5 s", &[("load.pause", "5s")]), 70);
        let long = loaded(arm("backoff, 60 s", &[pause]), backoff_ms);
        let other = loaded(arm("legacy, 60 s", &[pause, legacy]), legacy_ms);
        run(4, vec![short, long, other], Vec::new())
    };
    let (name, growth) = (
        "longest query after a pause of 60 s, backoff over legacy",
        "longest query after a pause of 60 s over that after 5 s",
    );
    let article = told(&with(300, 3)).0;
    let found = figure(&article, name);
    assert!(found["ours"].as_f64().is_some_and(|ours| (95.0..105.0).contains(&ours)), "{found:#}");
    assert_eq!((&found["agrees"], &found["law_high"]), (&true.into(), &Value::Null));
    let found = figure(&article, growth);
    assert!(
        found["ours"].as_f64().is_some_and(|ours| (4.0..4.6).contains(&ours)) && found["law"].is_null(),
        "{found:#}"
    );

    let mut busy = with(300, 250);
    assert_eq!(figure(&told(&busy).0, name)["because"], NONE);
    let counters = [
        ("elapsed us", 1_000_000),
        ("host cpu us", 2_000_000),
        ("host stolen us", 0),
        ("host idle us", 100_000),
        ("host interrupts us", 0),
        ("own cpu us", 400_000),
        ("kernel cpu us", 0),
    ];
    let witness =
        |(counter, after): (&str, u64)| Witness { of: "host".into(), counter: counter.into(), before: 0, after };
    busy.arms[1].witnesses.extend(counters.map(witness));
    let because = figure(&told(&busy).0, name)["because"].as_str().unwrap().to_owned();
    assert!(
        because.ends_with("other programs used 75 % of the CPU time in arm “backoff, 60 s”, the worst of all"),
        "{because}"
    );
}
