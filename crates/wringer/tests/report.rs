// SPDX-License-Identifier: Apache-2.0
//! `wringer report` and `wringer explain` on a recording made by hand.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // helpers of tests

#[path = "../../report/tests/common/mod.rs"]
mod common;

use recording::{Recording, Start};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// The sample of the report's own tests, as a recording on disk.
fn recorded(lab: &Lab) -> PathBuf {
    let evidence = common::sample().evidence;
    let path = lab.home().join("recording.sqlite");
    let start = Start {
        run_id: evidence.run_id,
        started: evidence.started,
        experiment: evidence.experiment,
        files: Vec::new(),
        is_private: false,
    };
    let recording = Recording::create(&path, &start).unwrap();
    recording.conditions(&evidence.conditions).unwrap();
    for (position, arm) in (0..).zip(&evidence.arms) {
        recording.arm(position, arm).unwrap();
    }
    evidence.measured.iter().for_each(|measured| recording.measured(measured).unwrap());
    evidence.events.iter().for_each(|event| recording.event(event).unwrap());
    recording.samples(&evidence.samples).unwrap();
    recording.finish(evidence.elapsed_us).unwrap();
    path
}

#[test]
fn a_folder_gets_its_page() {
    let lab = Lab::new(WRINGER);
    recorded(&lab);
    let ran = lab.run(["report", lab.home().to_str().unwrap()]).expect_code(0).expect_said(&["report.html"]);
    assert_eq!(ran.stdout, "", "the page is in its file");
    let page = std::fs::read_to_string(lab.home().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
}

/// The user did not write the page's name: what a link there leads to is left alone, and the page is as private as the recording.
#[test]
fn the_page_beside_a_private_recording_is_private_and_follows_no_link() {
    let lab = Lab::new(WRINGER);
    let (path, victim, page) = (recorded(&lab), lab.home().join("victim"), lab.home().join("report.html"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&victim, "of somebody else").unwrap();
    std::os::unix::fs::symlink(&victim, &page).unwrap();
    lab.run(["report", lab.home().to_str().unwrap()]).expect_code(0);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of somebody else");
    let found = std::fs::symlink_metadata(&page).unwrap();
    assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600, "{found:?}");
}

#[test]
fn a_report_does_not_replace_the_recording_that_it_is_made_from() {
    let lab = Lab::new(WRINGER);
    let path = recorded(&lab);
    let before = std::fs::read(&path).unwrap();
    let (folder, file) = (lab.home().to_str().unwrap(), path.to_str().unwrap());
    for words in [["report", folder, "--to", file], ["report", file, "--to", file]] {
        lab.run(words).expect_code(2).expect_said(&["would replace", "nothing was written"]);
    }
    assert!(std::fs::read(&path).unwrap() == before, "the recording is another");
    lab.run(["explain", file]).expect_code(0);
}

#[test]
fn a_recording_that_this_user_may_not_read_is_told_with_the_reason() {
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    let lab = Lab::as_ordinary_user(WRINGER);
    let path = recorded(&lab);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    for command in ["report", "explain"] {
        lab.run([command, path.to_str().unwrap()]).expect_code(3).expect_said(&["Permission denied"]);
    }
}

#[test]
fn the_result_has_the_modes_and_their_witnesses() {
    let lab = Lab::new(WRINGER);
    let path = recorded(&lab);
    let ran = lab.run(["report", path.to_str().unwrap(), "-o", "json"]).expect_code(0);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    let arm = &result["arms"][2];
    let reads: Vec<f64> = arm["modes"].as_array().unwrap().iter().map(|mode| mode["reads"].as_f64().unwrap()).collect();
    assert_eq!(reads, [0.0, 1.0, 2.0]);
    let modes = arm["reads_per_query_by_modes"].as_f64().unwrap();
    let server = arm["reads_per_query_by_server"].as_f64().unwrap();
    assert!((modes - server).abs() < 0.05 * server, "{modes} by modes, {server} by the server");
}

#[test]
fn text_goes_where_it_is_sent() {
    let lab = Lab::new(WRINGER);
    let path = recorded(&lab);
    let path = path.to_str().unwrap();
    let shown = lab.run(["report", path, "-o", "text"]).expect_code(0).stdout;
    let file = lab.home().join("summary.txt");
    lab.run(["report", path, "-o", "text", "--to", file.to_str().unwrap()]).expect_code(0);
    assert_eq!(std::fs::read_to_string(file).unwrap().trim_end(), shown.trim_end());
    assert!(shown.contains("no delay: service time of 168,400 transactions"), "{shown}");
    let page = lab.run(["report", path, "--to", "-"]).expect_code(0).stdout;
    assert!(page.starts_with("<!doctype html>"));
}

#[test]
fn findings_are_explained_anew() {
    let lab = Lab::new(WRINGER);
    let path = recorded(&lab);
    let ran = lab.run(["explain", path.to_str().unwrap(), "-o", "json"]).expect_code(0);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(result["findings"].is_array() && result["schema"].is_u64());
    assert!(!lab.run(["explain", path.to_str().unwrap()]).expect_code(0).stdout.is_empty());
}

/// Two runs of earlier builds: what differs stands beside how they compare.
#[test]
fn two_recordings_are_explained_together() {
    let lab = Lab::new(WRINGER);
    let path = recorded(&lab);
    let before = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/v1-repeated");
    let words = ["explain", before, path.to_str().unwrap()];
    let ran = lab.run([&words[..], &["-o", "json"]].concat()).expect_code(0);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["runs"].as_array().unwrap().len(), 2);
    let ids: Vec<&str> = result["findings"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["runs.compare", "runs.conditions"]);
    let cells = result["findings"][0]["evidence"]["cells"].as_array().unwrap();
    let cells: Vec<_> = cells.iter().map(|of| (of["cell"].as_str().unwrap(), of["run"].as_u64().unwrap())).collect();
    assert_eq!(cells, [("no delay", 2), ("10 ms", 2)], "the cells that both have");
    let shown = lab.run(words).expect_code(0).stdout;
    assert!(shown.starts_with("run 1: ") && shown.contains("\nruns.compare\n"), "{shown}");
    lab.run(["explain"]).expect_code(2);
}

#[test]
fn what_is_no_recording_is_refused() {
    let lab = Lab::new(WRINGER);
    lab.run(["report", "nowhere.sqlite"]).expect_code(3).expect_said(&["nowhere.sqlite", "hint:"]);
    let file = lab.write("other.sqlite", "this is no database");
    lab.run(["report", file.to_str().unwrap()]).expect_code(3).expect_said(&["other.sqlite", "hint:"]);
    lab.run(["explain", "nowhere"]).expect_code(3);
}
