// SPDX-License-Identifier: Apache-2.0
//! Recordings of earlier builds, and what those builds made of them: this one makes the same, but for what `fixtures/recordings/README.md`
//! says has come since.

#![allow(clippy::unwrap_used)] // helpers of tests

use recording::Recording;
use report::Context;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// What is left of a page without what may change: the code of style and script, whose data stay, the texts that help to read it, and the bars
/// above the table of arms.
fn content(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, script) = rest.split_once("const DATA = ").unwrap();
    let body = without(body, "<details class=\"help\">", "</details>");
    let body = without(&body, "<h2>Arms side by side</h2>", "<table class=\"cards\">");
    let data = script.lines().next().unwrap();
    let data = serde_json::from_str(data.trim_end_matches(';')).unwrap();
    format!("{head}{body}{}", as_doubles(data))
}

/// A number is the same number whether it is written with `.0` or without.
fn as_doubles(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(as_doubles).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, as_doubles(value))).collect(),
        Value::Number(number) => Value::from(number.as_f64()),
        other => other,
    }
}

/// Without each part that begins and ends so.
fn without(text: &str, begin: &str, end: &str) -> String {
    let mut parts = text.split(begin);
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once(end).unwrap().1)
}

/// Fails with the first line that differs, and not with two whole pages.
fn assert_same_lines(ours: &str, stored: &str, name: &str) {
    let lines = ours.lines().zip(stored.lines()).enumerate();
    for (number, (ours, stored)) in lines {
        assert_eq!(ours, stored, "{name}: line {}", number + 1);
    }
    assert_eq!(ours.lines().count(), stored.lines().count(), "{name}");
}

/// The keys that came since, which no stored recording has a value for.
fn without_what_came_since(mut result: Value) -> Value {
    let top = result.as_object_mut().unwrap();
    for list in ["snapshots", "spans"] {
        assert_eq!(top.remove(list), Some(Value::Array(Vec::new())), "{list}");
    }
    for arm in top["arms"].as_array_mut().unwrap() {
        let arm = arm.as_object_mut().unwrap();
        assert!(arm.remove("cell").is_some() && arm.remove("repeat").is_some());
        let came_to = if arm.get("broke_off").is_none_or(Value::is_null) { "measured" } else { "broke_off" };
        assert_eq!(arm.remove("outcome"), Some(Value::from(came_to)));
        if let Some(measured) = arm.get_mut("load").and_then(|load| load.get_mut("measured")?.as_object_mut()) {
            assert_eq!(measured.remove("unended"), Some(Value::Null));
            assert_eq!(measured.remove("unconnected_us"), Some(Value::from(0)));
        }
    }
    result
}

fn check(name: &str) {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings")).join(name);
    let stored = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    let recording = folder.join("recording.sqlite");
    let evidence = Recording::read_for(&recording, report::needs).unwrap();
    let explained = explain::explain(&evidence);
    let context = Context::new(&evidence, &explained);
    let fewer = Recording::read_for(&recording, explain::needs).unwrap();
    assert_eq!(explain::explain(&fewer), explained, "{name}");
    let reduced = Recording::read_reduced(&recording, explain::needs, explain::with_figures_alone).unwrap();
    assert_eq!(explain::explain(&reduced), explained, "{name}");
    assert!(fewer.samples.len() < evidence.samples.len(), "{name}: charts show more series than explaining asks for");
    assert_eq!(report::findings_text(&context), stored("findings.txt"), "{name}");
    assert_eq!(report::text(&context), stored("summary.txt"), "{name}");
    assert_eq!(report::markdown(&context), stored("summary.md"), "{name}");
    assert_eq!(report::junit(&context), stored("junit.xml"), "{name}");
    let result = without_what_came_since(report::json(&context));
    assert_eq!(report::pretty(&result).unwrap(), stored("result.json"), "{name}");
    let mut page = Vec::new();
    report::write_html(&context, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_same_lines(&content(&page), &content(&stored("report.html")), name);
}

#[test]
fn a_run_of_repeated_arms() {
    check("v1-repeated");
}

#[test]
fn what_was_observed() {
    check("v1-observed");
}

/// Its turns stand in the arms' names alone.
#[test]
fn turns_of_a_recording_that_has_no_column_for_them() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/v1-repeated/recording.sqlite");
    let arms = Recording::read(path.as_ref()).unwrap().arms;
    let turns: Vec<_> = arms.iter().map(|arm| (arm.cell.as_str(), arm.repeat)).collect();
    assert_eq!(turns, [("no delay", 1), ("10 ms", 1), ("no delay", 2), ("10 ms", 2)]);
}
