// SPDX-License-Identifier: Apache-2.0
use super::*;
use evidence::Arrivals;
use serde_json::json;

/// 100 transactions in 2 s, with response times of 1 to 100 ms and service times of 1 to 10 ms.
fn result() -> LoadResult {
    let mut measured = Phase { elapsed_us: 2_000_000, transactions: 100, reads: 300, late: 7, ..Phase::default() };
    for ms in 1..=100u64 {
        measured.transaction.response.record(ms * 1_000_000);
        measured.transaction.service.record((ms - 1) / 10 * 1_000_000 + 1_000_000);
        measured.statements.entry("point_select".into()).or_default().response.record(ms * 100_000);
        measured.statements.entry("never sent".into()).or_default();
    }
    measured.errors.insert("1213".into(), 2);
    measured.errors.insert("1205".into(), 1);
    let mut connect = LatencyHistogram::new();
    connect.record(5_000_000);
    LoadResult {
        workload: "w".into(),
        driver: "mysql".into(),
        connections: 1,
        workers: 1,
        arrivals: Arrivals::Closed,
        seed: 1,
        distribution: String::new(),
        prepared_statements: true,
        connect,
        warmup: None,
        measured,
    }
}

fn passes(text: &str) -> bool {
    text.parse::<Assertion>().unwrap_or_else(|error| panic!("{text}: {error}")).judge(&result()).passed
}

#[test]
fn figures_are_held_against_what_was_measured() {
    for met in [
        "p99<100ms",
        "p50 < 50.1ms",
        "response p50>49ms",
        "service p50<7ms",
        "transaction service max<10.1ms",
        "max>=100ms",
        "mean<51ms",
        "min<=1.001ms",
        "point_select p99.9<=10.01ms",
        "point_select response median<6ms",
        "connect max<6ms",
        "queries/s=150",
        "qps >= 150",
        "transactions/s<50.5",
        "errors=3",
        "errors == 3",
        "late<8",
        "skipped=0",
        "backlog<=0",
        "reconnects=0",
    ] {
        assert!(passes(met), "{met}");
    }
    for failed in ["p99<20ms", "service p50>7ms", "errors=0", "queries/s>150", "tps>51", "point_select p50<1ms"] {
        assert!(!passes(failed), "{failed}");
    }
}

/// The classes of a replay are the statements' own texts.
#[test]
fn a_class_may_have_signs_of_relations_in_its_text() {
    let class = "select c from t where id = ? and k >= ?";
    let assertion: Assertion = format!("{class} service p99 <= 2ms").parse().unwrap();
    assert_eq!(assertion.class(), Some(class));
    let mut result = result();
    result.measured.statements.entry(class.into()).or_default().service.record(2_100_000);
    assert!(!assertion.judge(&result).passed);
    assert!(format!("{class} service max<3ms").parse::<Assertion>().unwrap().judge(&result).passed);
}

#[test]
fn percentiles_are_the_histograms() {
    for (percentile, ms) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.99", 100.0), ("p100", 100.0)] {
        let verdict = format!("{percentile}<1h").parse::<Assertion>().unwrap().judge(&result());
        let measured = verdict.json()["measured_us"].as_f64().unwrap() / 1e3;
        assert!((measured - ms).abs() <= ms * 0.001, "{percentile}: {measured}");
    }
}

#[test]
fn nothing_measured_meets_no_assertion_about_a_latency() {
    let mut nothing = result();
    nothing.measured = Phase::default();
    let verdict = "p99<20ms".parse::<Assertion>().unwrap().judge(&nothing);
    assert_eq!((verdict.passed, verdict.measured_text().as_str()), (false, "nothing"));
    assert!(verdict.json()["measured_us"].is_null());
    assert!(!passes("never sent max<1h"), "a class of which none was sent");
    assert!(!"queries/s>=0".parse::<Assertion>().unwrap().judge(&nothing).passed, "no time, no rate");
}

/// Half of the transactions that were due had not ended, and had waited for up to 3 s.
#[test]
fn a_limit_is_not_met_on_those_alone_that_ended() {
    let mut result = result();
    let mut unended = evidence::Latencies::default();
    (1..=100u64).for_each(|number| unended.response.record(number * 30_000_000));
    result.measured.unended = Some(unended);
    let judge = |text: &str| text.parse::<Assertion>().unwrap().judge(&result);
    for (text, passed, measured) in [
        ("p10<60ms", true, "20."),
        ("p99<1s", false, ">= 2940."),
        ("p99<3s", false, ">= 2940."),
        ("p99>2s", true, ">= 2940."),
        ("p99=3s", false, ">= 2940."),
        ("max<=1h", false, ">= 3001."),
        ("service p99<11ms", true, "10."),
    ] {
        let verdict = judge(text);
        assert_eq!(verdict.passed, passed, "{text}");
        assert!(verdict.measured_text().starts_with(measured), "{text}: {}", verdict.measured_text());
        assert_eq!(verdict.measured_text().ends_with(" ms (not all had ended)"), measured.starts_with('>'), "{text}");
    }
    let json = judge("p99<1s").json();
    assert_eq!(json["measured_at_least"], true, "{json}");
    assert!(judge("errors=3").json().get("measured_at_least").is_none());
}

#[test]
fn asked_and_measured_stand_side_by_side() {
    let verdicts: Vec<Verdict> = ["p99<20ms", "queries/s > 100", "errors=0"]
        .map(|text| text.parse::<Assertion>().unwrap().judge(&result()))
        .into();
    insta::assert_snapshot!(text(&verdicts), @r"
    assertions
      FAILED  p99<20ms         measured 99.025 ms
      met     queries/s > 100  measured 150.0/s
      FAILED  errors=0         measured 3
    ");
    assert_eq!(
        verdicts[1].json(),
        json!({"assertion": "queries/s > 100", "passed": true, "asked_per_second": 100.0, "measured_per_second": 150.0})
    );
    assert_eq!(verdicts[0].json()["asked_us"], 20_000.0);
    assert_eq!(verdicts[2].json()["measured"], 3.0);
}

#[test]
fn what_is_no_assertion_is_refused_with_the_grammar() {
    for (text, why) in [
        ("p99", "no <, <="),
        ("p99<20", "has no unit"),
        ("p99<soon", "is not a time"),
        ("p0<1ms", "is no percentile"),
        ("p101<1ms", "is no percentile"),
        ("<20ms", "which figure"),
        ("speed>3", "'speed' is none of the figures"),
        ("queries/s>fast", "'fast' is not a number"),
        ("errors<-1", "'-1' is not a number"),
        ("point_select errors=0", "for the whole load"),
        ("service queries/s>5", "for the whole load"),
        ("connect service p99<1ms", "no response and service time"),
        ("p99<>20ms", "is not a time"),
    ] {
        let said = text.parse::<Assertion>().unwrap_err().to_string();
        assert!(said.contains(why), "{text}: {said}");
        assert!(said.contains("for example: p99<20ms"), "{text}: {said}");
    }
}

#[test]
fn a_class_that_the_load_does_not_have_is_known_before_it_runs() {
    let assertion: Assertion = "point_selects p99<1ms".parse().unwrap();
    let said = assertion.check_class(["commit", "begin", "point_select", "begin"]).unwrap_err();
    assert!(said.contains("'point_selects'") && said.ends_with("begin, commit, point_select"), "{said}");
    "begin p99<1ms".parse::<Assertion>().unwrap().check_class(["begin"]).unwrap();
    "errors=0".parse::<Assertion>().unwrap().check_class([]).unwrap();
}

#[test]
fn what_a_run_records_is_asserted_in_the_unit_of_its_figure() {
    let judge = |text: &str, value: f64| Assertion::of_run(text).unwrap().judge_recorded(Some(value));
    for (text, value, passed, measured) in [
        ("memory.explained>=0.9", 0.95, true, "0.950"),
        ("memory.explained>=96%", 0.95, false, "0.950"),
        ("memory.rss < 64M", 67108863.0, true, "64.00 MiB"),
        ("memory.rss<64M", 67108864.0, false, "64 MiB"),
        ("stalls.longest>=60ms", 61000.0, true, "61.000 ms"),
        ("probe.read.cached.warm<10us", 9.0, true, "0.009 ms"),
        ("probe.scan.warm>1G", 2e9, true, "2000000000.0/s"),
        ("beside.shop.refused=0", 7.0, false, "7"),
        ("article second scan over first, file cached>=1.5", 46.2, true, "46.200"),
    ] {
        let verdict = judge(text, value);
        assert_eq!((verdict.passed, verdict.measured_text().as_str()), (passed, measured), "{text}");
    }
    assert_eq!(
        judge("memory.page_tables<1M", 4096.0).json(),
        json!({"assertion": "memory.page_tables<1M", "passed": true, "asked_bytes": 1048576.0, "measured_bytes": 4096.0})
    );
    assert_eq!(judge("memory.explained>0.9", 0.5).json()["measured"], json!(0.5));
    let longest = judge("stalls.longest<1s", 5.0);
    assert_eq!((longest.asked.value, longest.asked.unit), (1e6, Unit::Microseconds));
    let nothing = Assertion::of_run("memory.rss<1G").unwrap().judge_recorded(None);
    assert!(!nothing.passed && nothing.measured.is_none(), "what was not recorded is not small");
    assert!(!Assertion::of_run("stalls.count=0").unwrap().judge(&result()).passed);
    // a class of statements may have that name
    assert_eq!(Assertion::of_run("article p99<20ms").unwrap().class(), Some("article"));
}

#[test]
fn a_name_that_names_nothing_is_refused_with_those_that_there_are() {
    let refused = |text: &str| Assertion::of_run(text).unwrap_err().reason().to_owned();
    assert!(refused("memory.explaned>0.9").contains("there are memory.explained, memory.unexplained, "));
    assert!(!refused("memory.explaned>0.9").contains("stalls."));
    assert!(refused("mem.rss>1").contains("beside.ACCOUNT.refused"));
    assert!(refused("beside..refused=0").contains("is no figure"));
    assert!(refused("article>=1").contains("which figure of the article"));
    assert!(refused("memory.rss<fast").contains("fast"));
    assert!(refused("memory.explained>x%").contains("is not a number"));
    assert!(refused("stalls.share<5").contains("write 0.95, or 95%"));
    let load = "memory.rss<1G".parse::<Assertion>().unwrap_err().reason().to_owned();
    assert!(load.contains("assert it in an experiment's file"), "{load}");
}
