// SPDX-License-Identifier: Apache-2.0
//! docs/articles.md says what the stored results say, and nothing else; the gallery has the report of each run.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::Lab;

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
/// A report is read in a browser, and kept in the repository.
const MOST_BYTES: u64 = 400 << 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn stored() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("docs/gallery/articles.json")).unwrap()).unwrap()
}

#[test]
fn the_page_is_what_the_results_make() {
    let lab = Lab::new(WRINGER);
    let extract = root().join("docs/gallery/articles.json");
    let made =
        ["report", "--articles", extract.to_str().unwrap(), "--gallery", "docs/gallery", "--to", "docs/articles.md"];
    fs::create_dir(lab.home().join("docs")).unwrap();
    lab.run(made).expect_code(0);
    for file in ["docs/articles.md", "docs/gallery/articles.json"] {
        let (here, there) = (fs::read_to_string(root().join(file)), fs::read_to_string(lab.home().join(file)));
        assert_eq!(
            here.unwrap(),
            there.unwrap(),
            "{file} is not what docs/gallery/articles.json makes: docs/articles.sh"
        );
    }
}

#[test]
fn each_result_is_of_a_ready_experiment_and_has_its_report() {
    let stored = stored();
    let runs = stored["articles"].as_array().unwrap();
    let articles: BTreeSet<u64> = runs.iter().map(|run| run["article"].as_u64().unwrap()).collect();
    assert_eq!(articles, (1..=5).collect(), "all five articles");
    let experiments = fs::read_dir(root().join("experiments")).unwrap();
    let experiments = experiments.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let experiments: BTreeSet<String> = experiments
        .filter_map(|name| name.strip_suffix(".toml").filter(|name| name.starts_with("article-")).map(str::to_owned))
        .collect();
    let names: BTreeSet<String> = runs.iter().map(|run| run["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, experiments);
    let page = fs::read_to_string(root().join("docs/articles.md")).unwrap();
    for run in runs {
        let name = run["name"].as_str().unwrap();
        let report = root().join(format!("docs/gallery/{name}.html"));
        assert!(fs::metadata(&report).unwrap().len() < MOST_BYTES, "{name}.html is too large to be kept here");
        let report = fs::read_to_string(report).unwrap();
        assert!(page.contains(&format!("(gallery/{name}.html)")), "the page leads to {name}.html");
        // the report is of the same run as the figures
        for figure in run["figures"].as_array().unwrap().iter().filter(|figure| !figure["ours"].is_null()) {
            let (called, from) = (figure["name"].as_str().unwrap(), figure["from"].as_str().unwrap());
            let shown = from.replace('&', "&amp;").replace('<', "&lt;");
            assert!(
                report.contains(&shown) || report.contains(from),
                "{name}.html has not that {called} is from {from}"
            );
        }
        let file = fs::read_to_string(root().join(format!("experiments/{name}.toml"))).unwrap();
        for conclusion in run["conclusions"].as_array().unwrap() {
            let asserted = conclusion["assertion"].as_str().unwrap();
            assert!(file.contains(&format!("\"{asserted}\"")), "{name}.toml does not assert {asserted} any more");
        }
    }
}

#[test]
fn a_run_of_no_article_is_refused() {
    let lab = Lab::new(WRINGER);
    let recording = root().join("fixtures/recordings/v1-repeated");
    lab.run(["report", "--articles", recording.to_str().unwrap()])
        .expect_code(2)
        .expect_said(&["has measured no figure of an article", "article = N"]);
    lab.run(["report", "--articles", "none"]).expect_code(3).expect_said(&["none does not exist"]);
    lab.run(["report", "--gallery", "out", "none"]).expect_code(2);
    lab.write("other.json", "{\"schema\": 9, \"articles\": []}");
    lab.run(["report", "--articles", "other.json"]).expect_code(3).expect_said(&["has schema 9"]);
}
