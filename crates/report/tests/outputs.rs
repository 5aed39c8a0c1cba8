// SPDX-License-Identifier: Apache-2.0
//! The three outputs of whole recordings, and of broken ones.

#![allow(clippy::unwrap_used)] // helpers of tests

mod common;

use common::{Sample, cut_off, empty, hostile, sample, with_memory};
use explain::findings::HostBusy;
use explain::{ArticleFigure, ArticleFigures, Doubt, Finding, FindingEvidence};

fn html(sample: &Sample) -> String {
    let mut page = Vec::new();
    report::write_html(&sample.context(), &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn text_of_a_run() {
    insta::assert_snapshot!(report::text(&sample().context()));
}

#[test]
fn text_of_a_run_that_was_cut_off() {
    insta::assert_snapshot!(report::text(&cut_off().context()));
}

#[test]
fn findings_as_text() {
    insta::assert_snapshot!(report::findings_text(&sample().context()));
}

/// Every key of the result, flat; what has names of the user's own is one `*`.
fn keys(prefix: &str, value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
    use serde_json::Value;
    const FREE: [&str; 8] =
        ["attributes", "settings", "variables", "mechanisms", "traits", "errors", "statements", "evidence"];
    match value {
        Value::Object(map) => {
            let free = FREE.iter().any(|name| prefix.ends_with(&format!(".{name}")));
            for (key, value) in map {
                let key = if free { "*" } else { key };
                let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                into.insert(path.clone());
                if !prefix.ends_with(".evidence") {
                    keys(&path, value, into);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(&format!("{prefix}[]"), value, into)),
        _ => {}
    }
}

/// Sentences and bars fit into the window; a table is as wide as its cells.
#[test]
fn text_for_a_window_is_as_wide_as_the_window() {
    let sample = sample();
    let (piped, window) = (sample.context(), sample.context().within(Some(70)));
    assert_eq!(report::text(&sample.context().within(Some(500))), report::text(&piped), "long lines are hard to read");
    let longest = |text: String| text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest(report::findings_text(&piped)) > 100);
    assert!(longest(report::findings_text(&window)) <= 70, "{}", report::findings_text(&window));
    let is_bar = |line: &&str| line.contains('│') || line.starts_with("» ") || line.starts_with("doubt: ");
    let text = report::text(&window);
    let too_long: Vec<&str> = text.lines().filter(is_bar).filter(|line| line.chars().count() > 70).collect();
    assert!(text.lines().filter(is_bar).count() > 5 && too_long.is_empty(), "{too_long:#?}");
    assert!(
        longest(report::findings_text(&sample.context().within(Some(1)))) < 70,
        "no panic in a window of one column"
    );
}

#[test]
fn keys_of_the_result() {
    let mut found = std::collections::BTreeSet::new();
    keys("", &report::json(&sample().context()), &mut found);
    insta::assert_snapshot!(found.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_key_of_the_result_is_documented() {
    let page = include_str!("../../../docs/report.md");
    let mut found = std::collections::BTreeSet::new();
    keys("", &report::json(&sample().context()), &mut found);
    let last = |path: &String| path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]").to_owned();
    let missing: Vec<_> =
        found.iter().map(last).filter(|key| key != "*" && !page.contains(&format!("`{key}`"))).collect();
    assert_eq!(missing, Vec::<String>::new(), "missing in docs/report.md");
}

#[test]
fn every_key_of_the_memory_ledger_is_documented() {
    let page = include_str!("../../../docs/report.md");
    let mut found = std::collections::BTreeSet::new();
    keys("", &report::json(&with_memory().context())["memory"], &mut found);
    let last = |path: &String| path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]").to_owned();
    let missing: Vec<_> = found.iter().map(last).filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert_eq!(missing, Vec::<String>::new(), "missing in docs/report.md");
    assert!(found.contains("[].leaves[].resident_bytes"), "{found:?}");
}

/// Inventories stand in the ledger, and not among the texts: they are large.
#[test]
fn a_run_with_inventories_has_the_ledger_in_each_output() {
    let (with, without) = (with_memory(), sample());
    let context = with.context();
    let result = report::json(&context);
    assert_eq!(result["snapshots"], report::json(&without.context())["snapshots"]);
    assert_eq!(result["memory"].as_array().unwrap().len(), 3);
    assert_eq!(result["memory"][2]["arm"], "10 ms");
    let times = result["memory"][2]["at_us"].as_array().unwrap().len();
    assert_eq!(result["memory"][2]["kernel_total_bytes"].as_array().unwrap().len(), times);
    assert!(report::json(&without.context()).get("memory").is_none());
    let (text, page) = (report::text(&context), report::markdown(&context));
    let row = text.lines().find(|line| line.starts_with("sessions/prepared")).expect("the leaf that leaks");
    assert!(row.contains("10 ms") && row.ends_with("keeps growing: leak"), "{row}");
    assert!(page.contains("| sessions/prepared | 10 ms |"), "{page}");
    let (with_html, without_html) = (html(&with), html(&without));
    assert!(
        with_html.contains("data-chart=\"memory-ledger\"")
            && with_html.contains("8.00 TiB of the address space are only reserved")
    );
    assert!(!without_html.contains("memory-ledger") && !without_html.contains("--m7"), "not even its script");
    assert!(!with_html.contains("memory.inventory"));
}

#[test]
fn the_ledger_of_a_long_recording_stays_small() {
    let mut sample = with_memory();
    let over = &mut sample.explained.memory[2].over_time;
    let times: u32 = 20_000;
    over.at_us = (0..times).map(|second| u64::from(second) * 1_000_000).collect();
    let long =
        |column: &mut Vec<u64>| *column = (0..times).map(|second| u64::from(second) * 7919 % 1_000_003).collect();
    let known = |column: &mut Vec<Option<u64>>| {
        *column = (0..times).map(|second| Some(u64::from(second) * 7919 % 1_000_003)).collect()
    };
    over.unexplained_bytes = vec![Some(1); over.at_us.len()];
    over.starts = vec![0; over.at_us.len()];
    [&mut over.kernel_total_bytes, &mut over.page_tables_bytes, &mut over.rss_bytes].into_iter().for_each(long);
    for column in [
        &mut over.vsz_bytes,
        &mut over.reserved_bytes,
        &mut over.swap_bytes,
        &mut over.host_available_bytes,
        &mut over.host_swap_bytes,
    ] {
        known(column);
    }
    over.leaves.iter_mut().for_each(|leaf| known(&mut leaf.resident_bytes));
    let length = html(&sample).len();
    assert!(length < 600_000, "{length} bytes");
}

#[test]
fn the_result_is_what_the_run_saw() {
    let result = report::json(&sample().context());
    assert_eq!(result["schema"], report::SCHEMA);
    let ids: Vec<_> =
        result["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    let limits = ["limit.by"; 3];
    assert_eq!(ids, [&["arms.compare"], &limits[..], &["latency.modes", "observe.cost"]].concat());
    let arm = &result["arms"][2];
    assert_eq!((&arm["name"], &arm["delay"]["read_us"]), (&"10 ms".into(), &10_000.into()));
    let by = |key: &str| arm[key].as_f64().unwrap();
    let modes = by("reads_per_query_by_modes");
    for witness in ["reads_per_query_by_server", "reads_per_query_by_layer"] {
        assert!((modes - by(witness)).abs() < 0.05 * modes, "{witness}");
    }
    let response = &arm["load"]["measured"]["transaction"]["response"];
    let median = response["p50_us"].as_f64().unwrap();
    assert!((50.0..70.0).contains(&median), "{median}");
    let histogram: evidence::LatencyHistogram = serde_json::from_value(response["histogram"].clone()).unwrap();
    assert_eq!(histogram.count(), arm["load"]["measured"]["queries"].as_u64().unwrap());
    assert!(result["arms"][0]["reads_per_query_by_modes"].is_null(), "without a delay it cannot be said");
}

#[test]
fn an_arm_that_broke_off_has_nulls_not_zeros() {
    let result = report::json(&cut_off().context());
    assert!(result["arms"][2]["load"].is_null());
    let nothing = &result["arms"][1]["load"]["measured"];
    assert!(nothing["queries_per_second"].is_null() && nothing["transaction"]["response"]["p99_us"].is_null());
    let page = html(&cut_off());
    assert!(page.contains("did not get as far as the end of its load") && page.contains("no query was answered"));
    let (_, headline) = page.split_once("<h1>The run ended early: arm").expect("why is what comes first");
    assert!(!headline.split("</h1>").next().unwrap_or_default().contains("the end of its log"), "one line");
}

/// What else the host did is the first doubt, wherever its finding stands.
#[test]
fn how_busy_the_host_was_stands_in_the_conditions_and_comes_first_among_the_doubts() {
    let mut busy = sample();
    let figures = serde_json::json!({
        "elapsed_us": 10_000_000, "stolen_ratio": 0.05, "others_ratio": 0.4, "own_ratio": 0.35, "other_runs_ratio": 0.0,
        "other_runs": 0, "cpu_waiting_ratio": 0.25, "io_waiting_ratio": null, "memory_waiting_ratio": null,
        "disk_others_bytes_per_second": null, "disk_bytes_per_second": null,
    });
    let quiet = report::text(&busy.context());
    assert!(!quiet.contains("other programs"), "{quiet}");
    let doubt =
        Doubt { id: "host.others".into(), text: "other programs used 40.0 % of the CPU time".into(), hint: None };
    busy.explained.findings.push(Finding {
        arm: None,
        statement: "The host was busy with other work.".into(),
        evidence: FindingEvidence::HostBusy(HostBusy { arms: Vec::new() }),
        doubts: vec![doubt],
    });
    busy.explained.arms[1].busy = Some(serde_json::from_value(figures.clone()).unwrap());
    let seen = busy.context();
    let result = report::json(&seen);
    assert_eq!(result["conditions"]["busy"][0]["others_ratio"], figures["others_ratio"]);
    assert_eq!(result["conditions"]["busy"][0]["arm"], busy.evidence.arms[1].name.as_str());
    let text = report::text(&seen);
    let first = text.lines().find(|line| line.starts_with("doubt: ")).expect("doubts");
    assert!(first.contains("other programs used 40.0 %"), "{first}");
    assert!(text.contains("busy: in"), "{text}");
    let mut page = Vec::new();
    report::write_html(&seen, &mut page).unwrap();
    assert!(String::from_utf8(page).unwrap().contains("How busy the host was"));
}

/// The figures stay, and every output says of what they are.
#[test]
fn an_arm_that_broke_off_in_its_load_keeps_its_figures_and_says_why() {
    let mut broken = sample();
    broken.evidence.arms[2].broke_off =
        Some("the server ended by itself, killed by signal 9; mysql://root:hunter2@h/db".into());
    let result = report::json(&broken.context());
    let why = result["arms"][2]["broke_off"].as_str().unwrap();
    assert!(why.starts_with("the server ended by itself") && !why.contains("hunter2"), "{why}");
    assert!(result["arms"][1]["broke_off"].is_null());
    assert_eq!(result["arms"][2]["load"], report::json(&sample().context())["arms"][2]["load"]);
    let said = report::text(&broken.context()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("broke off: the server ended by itself, killed by signal 9"), "{said}");
    assert!(said.contains("its figures are of the"), "{said}");
    assert_eq!(html(&broken).matches("broke off: the figures are of what it did until then").count(), 1);
}

#[test]
fn a_recording_that_was_cut_off_is_told_in_each_output() {
    let mut sample = sample();
    sample.evidence.is_cut_off = true;
    let context = sample.context();
    let told = "The recording was cut off after";
    let result = report::json(&context);
    assert!(result["verdict"]["warnings"][0].as_str().is_some_and(|it| it.starts_with(told)), "{}", result["verdict"]);
    for output in [report::text(&context), report::markdown(&context), report::junit(&context), html(&sample)] {
        assert!(output.contains(told), "{output}");
    }
}

#[test]
fn a_run_without_anything_has_all_outputs() {
    let sample = empty();
    assert!(report::text(&sample.context()).contains("before its first arm"));
    assert!(html(&sample).contains("This run has no findings."));
    assert_eq!(report::findings_text(&sample.context()), "No findings.\n");
    assert!(report::json(&sample.context())["arms"].as_array().unwrap().is_empty());
}

/// sysbench and pgbench with a rate tell no service times.
#[test]
fn response_times_alone_are_not_called_service_times() {
    let mut sample = sample();
    let name = sample.evidence.arms[0].name.clone();
    let latencies = &mut sample.evidence.arms[0].load.as_mut().unwrap().measured.transaction;
    latencies.response = std::mem::take(&mut latencies.service);
    let text = report::text(&sample.context());
    assert!(text.contains(&format!("{name}: response time of ")), "{text}");
    assert!(text.contains("told response times alone") && !text.contains("the histogram is empty"), "{text}");
    assert!(html(&sample).contains("\"times\":\"response time\""));
}

/// What ran to its end holds; of an arm that broke off nothing was judged.
#[test]
fn assertions_of_an_arm_that_broke_off_do_not_hold() {
    let mut sample = sample();
    let judged = sample.evidence.arms.iter().position(|arm| !arm.verdicts.is_empty()).unwrap();
    sample.evidence.arms.iter_mut().flat_map(|arm| &mut arm.verdicts).for_each(|verdict| verdict.passed = true);
    let said = |sample: &Sample| report::text(&sample.context());
    assert!(!said(&sample).contains("Nothing was judged"), "{}", said(&sample));
    let other = (judged + 1) % sample.evidence.arms.len();
    sample.evidence.arms[other].verdicts.clear();
    sample.evidence.arms[other].broke_off = Some("the server died".into());
    assert!(said(&sample).contains("Nothing was judged of"), "{}", said(&sample));
}

#[test]
fn huge_values_break_nothing() {
    let mut sample = sample();
    let arm = &mut sample.evidence.arms[0];
    let phase = &mut arm.load.as_mut().unwrap().measured;
    phase.reads = u64::MAX / 4;
    phase.transaction.response.record_n(u64::MAX, 3);
    phase.timeline[5].max_us = u64::MAX;
    phase.timeline[6].queries = u64::MAX;
    for value in [f64::MAX, f64::NAN, f64::INFINITY] {
        sample.evidence.samples[0].points.push(evidence::Point { at_us: u64::MAX, value });
        sample.evidence.measured[0].got = Some(evidence::Quantity::count(value));
    }
    let page = html(&sample);
    assert!(!page.contains("NaN") && !page.contains("inf "), "no figure that is none");
    assert!(report::text(&sample.context()).contains("1.00 h") || report::text(&sample.context()).contains("60.0 min"));
    serde_json::to_string(&report::json(&sample.context())).unwrap();
}

#[test]
fn the_same_recording_gives_the_same_bytes_and_few_of_them() {
    let (first, again) = (html(&sample()), html(&sample()));
    assert_eq!(first, again);
    assert!(first.len() < 400_000, "{} bytes", first.len());
    assert!(
        !first.contains("http://")
            || first.matches("http://").count() == first.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!first.contains("https://"), "nothing to fetch");
}

#[test]
fn no_output_tells_a_secret() {
    let mut sample = hostile();
    let arm = sample.evidence.arms.last_mut().unwrap();
    arm.broke_off = Some("the connection to mysql://root:hunter2@h/db was lost".into());
    let context = sample.context();
    let outputs = [
        html(&sample),
        report::text(&context),
        report::json(&context).to_string(),
        report::findings_text(&context),
        report::markdown(&context),
        report::junit(&context),
    ];
    assert!(outputs.iter().all(|output| !output.contains("hunter2")));
}

#[test]
fn harmful_words_are_escaped() {
    let page = html(&hostile());
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script").count(), 1);
    assert!(!page.contains("<img"));
}

#[test]
fn a_long_run_stays_small() {
    let mut sample = sample();
    for series in &mut sample.evidence.samples {
        series.points = (0..40_000).map(|s| evidence::Point { at_us: s * 100_000, value: s as f64 }).collect();
    }
    for arm in &mut sample.evidence.arms {
        let phase = &mut arm.load.as_mut().unwrap().measured;
        let slot = phase.timeline[0];
        phase.timeline =
            (0..36_000).map(|n| evidence::TimelinePoint { at_us: slot.at_us + n * 100_000, ..slot }).collect();
    }
    let length = html(&sample).len();
    assert!(length < 1_000_000, "{length} bytes");
}

#[test]
fn markdown_of_a_run() {
    insta::assert_snapshot!(report::markdown(&sample().context()));
}

#[test]
fn junit_of_a_run() {
    insta::assert_snapshot!(report::junit(&sample().context()));
}

/// An arm without figures and a run that ended early are errors, not failures: nothing was held against anything.
#[test]
fn junit_tells_what_broke_from_what_failed() {
    let xml = report::junit(&cut_off().context());
    assert!(xml.contains("errors=\"2\"") && xml.contains("<error message=\"The run ended early"), "{xml}");
    let nothing = report::junit(&empty().context());
    assert!(nothing.contains("tests=\"0\" failures=\"0\" errors=\"0\""), "{nothing}");
}

#[test]
fn harmful_names_stay_words_in_xml_and_markdown() {
    let mut sample = hostile();
    sample.evidence.arms[2].name = "a|b \u{1}<i>".into();
    let (xml, page) = (report::junit(&sample.context()), report::markdown(&sample.context()));
    assert!(!xml.contains("<script") && !xml.contains("<i>") && !xml.contains('\u{1}') && xml.contains("a|b"), "{xml}");
    assert!(!page.contains("<script") && !page.contains("<i>") && page.contains("a\\|b"), "{page}");
    let text = report::text(&sample.context());
    assert!(!page.contains('\u{1}') && !text.contains('\u{1}') && text.contains("a|b \u{fffd}"), "{text}");
}

/// What was measured is told in the verdict, and a table has each figure beside the article's.
#[test]
fn a_run_of_an_article_stands_beside_it() {
    let figure = |name: &str, ours: Option<f64>, agrees: Option<bool>| ArticleFigure {
        name: name.into(),
        article: Some(419.7),
        article_from: Some("25 GB and 61 MB".into()),
        ours,
        unit: "ratio".into(),
        law: agrees.map(|_| "a huge page stands for 512 small ones".into()),
        law_low: agrees.map(|_| 5.0),
        law_high: None,
        agrees,
        because: (agrees == Some(false)).then(|| "the host was <busy>".into()),
        from: None,
    };
    let told = "With pages of 4 KiB the server has 85 times the page tables.";
    let figures = vec![
        figure("kept", Some(85.0), Some(true)),
        figure("broken", Some(2.0), Some(false)),
        figure("without a law", Some(1.5), None),
        figure("not measured", None, None),
    ];
    let mut run = sample();
    assert!(!html(&run).contains("id=\"article\""), "another experiment has none");
    run.explained.findings.push(Finding {
        arm: None,
        statement: format!("{told} Article 5, “HugePages”: so."),
        evidence: FindingEvidence::ArticleFigures(ArticleFigures {
            article: 5,
            title: "HugePages".into(),
            told: told.into(),
            figures,
        }),
        doubts: Vec::new(),
    });
    // numbers and their units are tied
    let page = html(&run).replace('\u{a0}', " ");
    let verdict =
        page.split("<section class=\"verdict\">").nth(1).and_then(|rest| rest.split("</section>").next()).unwrap();
    assert!(verdict.contains(&format!(">{told}</p>")) && verdict.contains(">Article 5, “HugePages”"), "{verdict}");
    let section =
        page.split("<section id=\"article\">").nth(1).and_then(|rest| rest.split("</section>").next()).unwrap();
    for words in ["✓ kept", "✗ not kept", "5 or more", "the host was &lt;busy&gt;", "25 GB and 61 MB", "without a law"]
    {
        assert!(section.contains(words), "'{words}' is not in {section}");
    }
    assert!(!section.contains("not measured"), "{section}");
}
