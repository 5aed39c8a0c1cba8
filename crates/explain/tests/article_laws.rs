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

/// `begin`: under load; what is left when the connections are closed is not that.
fn rest(name: &str, begin: f64, end: f64) -> Vec<Measured> {
    vec![
        got(name, "load.rss", begin),
        got(name, "load.vsz", 4.0 * begin),
        got(name, "idle.rss.begin", end),
        got(name, "idle.rss.end", end),
        got(name, "idle.vsz.end", 4.0 * end),
    ]
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
    evidence.arms.push(arm("huge", &HUGE));
    evidence.measured.push(got("huge", "server.huge_pages", 1_090_519_040.0));
    evidence.conditions.server.variables = [("shared_buffers".to_owned(), "1GB".to_owned())].into();
    assert_eq!(of(&evidence, leak), (None, None));
    assert!(of(&evidence, "memory in huge pages over shared_buffers").0.is_some());
}

/// The application's throughput is its logins; that of the leaking client does not count.
#[test]
fn a_limit_keeps_the_applications_throughput() {
    let before = [("load.before", "[\"ALTER USER batch WITH MAX_USER_CONNECTIONS 30\"]")];
    let served = |limited: f64| {
        let arms = vec![arm("alone", &[]), arm("leak", &[]), arm("limited", &before)];
        let opened = |of: &str, account: &str, value: f64| got(of, &format!("beside.{account}.opened"), value);
        let refused = |of: &str, account: &str| got(of, &format!("beside.{account}.refused"), 0.0);
        let measured = vec![
            refused("alone", "web"),
            opened("alone", "web", 300.0),
            refused("leak", "web"),
            refused("leak", "batch"),
            opened("leak", "web", 20.0),
            refused("limited", "web"),
            refused("limited", "batch"),
            opened("limited", "web", limited),
            opened("limited", "batch", 300.0),
        ];
        let name = "logins of the application beside a leak with a limit, over those alone";
        let found = figure(&told(&run(5, arms, measured)).0, name);
        (found["ours"].as_f64().unwrap(), found["agrees"].as_bool().unwrap())
    };
    assert_eq!(served(300.0), (1.0, true));
    assert_eq!(served(285.0), (0.95, true));
    assert_eq!(served(282.0), (0.94, false));
}

const HUGE: [(&str, &str); 1] = [("server.huge_pages", "true")];

/// What a connection has mapped besides, with huge pages too, is not of shared_buffers.
#[test]
fn of_page_tables_counts_what_huge_pages_save() {
    const NAME: &str = "page tables of a page that a connection has touched";
    const PAGES: f64 = 1000.0;
    let few = ("server.pgbouncer", "20");
    let arms = || vec![arm("20", &[few]), arm("20 huge", &[few, HUGE[0]]), arm("80 huge", &HUGE), arm("80", &[])];
    let connection = |name: &str, tables: f64, pages: f64| {
        [got(name, "connection.page_tables", tables), got(name, "connection.shared_mapped", pages * 4096.0)]
    };
    let measured = |tables_of_20: f64, tables_of_80: f64| {
        [
            connection("20", 100.0 + tables_of_20 * PAGES, 4.0 + PAGES),
            connection("20 huge", 100.0, 4.0),
            connection("80 huge", 300.0, 0.0),
            connection("80", 300.0 + tables_of_80 * PAGES, PAGES),
        ]
        .concat()
    };
    let of = |arms: Vec<Arm>, measured: Vec<Measured>| {
        let found = figure(&told(&run(5, arms, measured)).0, NAME);
        (found["ours"].as_f64().unwrap(), found["agrees"].as_bool().unwrap())
    };
    // each arm with the one that differs from it by huge pages alone; told is the pair that is farthest from the law
    assert_eq!(of(arms(), measured(8.0, 8.25)), (8.25, true));
    assert_eq!(of(arms(), measured(8.5, 8.25)), (8.5, false));
    assert_eq!(of(arms(), measured(8.0, 7.5)), (7.5, false));
    // without such an arm nothing says what is not of shared_buffers
    let mut alone = measured(8.0, 8.0);
    alone.push(got("20 huge", "server.page_tables", 1.0));
    alone.push(got("80", "server.page_tables", 10.0));
    let arms = vec![arm("20 huge", &[few, HUGE[0]]), arm("80", &[])];
    let found = figure(&told(&run(5, arms, alone)).0, NAME);
    assert_eq!((&found["ours"], &found["agrees"]), (&Value::Null, &Value::Null));
}

#[test]
fn arms_are_known_by_what_they_set() {
    // page tables: with pages of 4 KiB, whichever arm is first
    let arms = vec![arm("huge", &HUGE), arm("small", &[]), arm("more", &[])];
    let mut measured = vec![got("huge", "server.huge_pages", 1_090_519_040.0)];
    for (arm, bytes) in [("huge", 10.0), ("small", 100.0), ("more", 410.0)] {
        measured.push(got(arm, "server.page_tables", bytes));
    }
    let mut evidence = run(5, arms, measured);
    evidence.conditions.server.variables = [("shared_buffers".to_owned(), "1GB".to_owned())].into();
    let article = told(&evidence).0;
    let ours = |name: &str| figure(&article, name)["ours"].as_f64();
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
        found["ours"].as_f64().is_some_and(|ours| (4.0..4.6).contains(&ours)) && found["agrees"] == true,
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

#[test]
fn a_pause_that_makes_no_stall_longer_is_told_with_what_the_server_does() {
    let legacy = ("server.live.innodb_empty_free_list_algorithm", "legacy");
    let depth = ("server.live.innodb_lru_scan_depth", "128");
    let arms = || {
        vec![
            loaded(arm("no pause", &[("load.seed", "1")]), 893),
            loaded(arm("5 s", &[("load.pause", "5s")]), 870),
            loaded(arm("60 s", &[("load.pause", "60s")]), 860),
            loaded(arm("legacy", &[legacy]), 3),
            loaded(arm("another depth", &[depth]), 100),
        ]
    };
    let because = |version: &str| {
        let mut evidence = run(4, arms(), Vec::new());
        (evidence.conditions.server.flavour, evidence.conditions.server.version) = ("mariadb".into(), version.into());
        let found = figure(&told(&evidence).0, "longest query after a pause of 60 s over that after 5 s");
        assert_eq!((&found["agrees"], found["law_low"].as_f64()), (&Value::from(false), Some(1.5)), "{found:#}");
        found["because"].as_str().unwrap().to_owned()
    };
    let told = because("10.1.23-MariaDB");
    for words in ["without any pause the longest query takes 893", "(“no pause”), after one of 60 s 8", "(“60 s”)"]
    {
        assert!(told.contains(words), "'{words}' is not in {told}");
    }
    assert!(told.contains("only pages that were written count as progress") && told.contains("1000 ms"), "{told}");
    // nothing is said of a version that was not examined
    assert!(!because("99.1").contains("progress"));
}

/// What a probe measured in this arm, with this share of the file in the page cache before the second scan.
fn probed(arm: &str, [cold, warm]: [f64; 2], cached: f64) -> Vec<Measured> {
    let reads = [("probe.read.cached.cold", 100.0), ("probe.read.cached.warm", 100.0 * cold / warm)];
    let scans = [("probe.scan.cold", cold), ("probe.scan.warm", warm), ("probe.scan.warm.cached", cached)];
    reads.into_iter().chain(scans).map(|(what, value)| got(arm, what, value)).collect()
}

#[test]
fn reads_with_and_without_ram_are_told_apart_by_what_the_page_cache_kept() {
    let limit = ("squeeze.server_ram", "224M");
    let probe = ("load.probe", "1024");
    let busy = |settings: &[(&str, &str)], name: &str, seconds: u64| {
        let mut busy = loaded(arm(name, settings), 1);
        busy.load.as_mut().unwrap().measured.elapsed_us = seconds * 1_000_000;
        busy
    };
    let arms = vec![
        busy(&[limit, probe], "probed without", 100),
        busy(&[probe], "probed", 1),
        busy(&[], "free", 2),
        busy(&[limit], "squeezed", 6),
    ];
    let measured = [
        probed("probed without", [100.0, 110.0], 0.07),
        probed("half", [100.0, 900.0], 0.7),
        probed("probed", [100.0, 4000.0], 1.0),
    ];
    let found = told(&run(1, arms, measured.concat())).0;
    let of = |name: &str| (figure(&found, name)["ours"].as_f64(), figure(&found, name)["agrees"].as_bool());
    assert_eq!(of("second scan over first, file cached"), (Some(40.0), Some(true)));
    assert_eq!(of("second scan over first, no RAM for the file"), (Some(1.1), Some(true)));
    assert_eq!(of("cached read, cold over warm").0, Some(40.0));
    assert!(of("cached read, cold over warm, no RAM for the file").0.is_some_and(|ratio| ratio < 1.2));
    // the probe emptied the page cache before the load of its arm: such an arm is no load without RAM
    let (ratio, _) = of("queries a second, with over without the page cache's RAM");
    assert!(ratio.is_some_and(|ratio| (ratio - 3.0).abs() < 0.01), "{ratio:?}");
}
