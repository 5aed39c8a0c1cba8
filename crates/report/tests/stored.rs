// SPDX-License-Identifier: Apache-2.0
//! Recordings of earlier builds, and what those builds made of them: this one makes the same, but for what `fixtures/recordings/README.md`
//! says has come since.

#![allow(clippy::unwrap_used)] // helpers of tests

use recording::Recording;
use report::Context;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// What is left of a page without the code of style and script, which may change; their data stays.
fn content(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, script) = rest.split_once("const DATA = ").unwrap();
    format!("{head}{body}{}", script.lines().next().unwrap())
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
    assert!(fewer.samples.len() < evidence.samples.len(), "{name}: charts show more series than explaining asks for");
    assert_eq!(report::findings_text(&context), stored("findings.txt"), "{name}");
    assert_eq!(report::text(&context), stored("summary.txt"), "{name}");
    assert_eq!(report::markdown(&context), stored("summary.md"), "{name}");
    assert_eq!(report::junit(&context), stored("junit.xml"), "{name}");
    let result = without_what_came_since(report::json(&context));
    assert_eq!(report::pretty(&result).unwrap(), stored("result.json"), "{name}");
    let mut page = Vec::new();
    report::write_html(&context, &mut page).unwrap();
    assert_eq!(content(&String::from_utf8(page).unwrap()), content(&stored("report.html")), "{name}");
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
