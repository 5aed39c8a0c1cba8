// SPDX-License-Identifier: Apache-2.0
//! Several recordings, explained together. Both are of fixtures that earlier builds wrote.
#![allow(clippy::unwrap_used)] // helpers of tests

mod common;

use common::figures;
use evidence::Evidence;
use explain::{Together, explain_together};
use recording::Recording;

fn stored() -> Evidence {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/v1-repeated/recording.sqlite");
    Recording::read(path.as_ref()).unwrap()
}

/// Of every arm, so many times the throughput.
fn faster(times: u64) -> Evidence {
    let mut evidence = stored();
    for load in evidence.arms.iter_mut().filter_map(|arm| arm.load.as_mut()) {
        load.measured.transactions *= times;
        load.measured.timeline.iter_mut().for_each(|slot| slot.transactions *= times);
    }
    evidence
}

fn doubts(together: &Together) -> Vec<&str> {
    together.findings[0].doubts.iter().map(|doubt| doubt.id.as_str()).collect()
}

#[test]
fn the_same_run_twice_differs_in_nothing() {
    let both = stored();
    let together = explain_together(&[&both, &both]);
    let [compared, conditions] = together.findings.as_slice() else { panic!("{:?}", together.findings) };
    assert_eq!((compared.id(), conditions.id()), ("runs.compare", "runs.conditions"));
    assert!(
        compared.statement.starts_with("Between \"no delay, run 2\" and \"no delay, run 1\" no difference is shown")
    );
    assert!(conditions.statement.contains("under the same conditions"), "{}", conditions.statement);
    assert_eq!((doubts(&together), together.runs.len()), (vec!["compare.broke_off", "compare.repeats"], 2));
    assert_eq!(together.runs[0], explain::explain(&both));
}

#[test]
fn turns_of_a_cell_are_taken_together() {
    let together = explain_together(&[&stored(), &faster(3)]);
    let cells = &figures(&together.findings[0])["cells"];
    assert_eq!((&cells[0]["cell"], &cells[1]["cell"]), (&"no delay".into(), &"10 ms".into()));
    assert_eq!(cells.as_array().unwrap().len(), 2, "one for each cell, not for each turn");
    let ratio = cells[0]["throughput_ratio"].as_f64().unwrap();
    assert!((ratio - 3.0).abs() < 1e-9 && cells[0]["difference_shown"] == true, "{cells:#}");
    // by batches of the run's time, as the arms of one run
    assert!(
        cells[0]["low"].as_f64().unwrap() > 1.0 && cells[0]["detectable_ratio"].as_f64().unwrap() > 1.0,
        "{cells:#}"
    );
}

#[test]
fn what_else_differs_is_named_and_doubted() {
    let mut other = stored();
    other.conditions.host.kernel = "6.12.1".into();
    let variables = &mut other.conditions.server.variables;
    variables.insert("innodb_buffer_pool_size".into(), "1".into());
    // those are another's in every sandbox
    variables.insert("datadir".into(), "/elsewhere".into());
    variables.insert("port".into(), "1".into());
    let first = stored();
    let together = explain_together(&[&first, &other]);
    assert_eq!(doubts(&together), ["runs.conditions", "compare.broke_off", "compare.repeats"]);
    let different = &figures(&together.findings[1])["different"];
    assert_eq!(different[0]["what"], "host.kernel");
    assert_eq!(different[0]["values"][1], "6.12.1");
    assert_eq!(different[1]["what"], "server.variables.innodb_buffer_pool_size");
    assert_eq!(different.as_array().unwrap().len(), 2, "{different:#}");
}

#[test]
fn runs_without_a_common_cell_are_told_by_their_conditions() {
    let mut other = stored();
    other.arms.iter_mut().for_each(|arm| arm.cell.push('x'));
    let together = explain_together(&[&stored(), &other]);
    let ids: Vec<&str> = together.findings.iter().map(|finding| finding.id()).collect();
    assert_eq!(ids, ["runs.conditions"]);
    assert!(explain_together(&[]).findings.is_empty() && explain_together(&[&other]).findings.is_empty());
}
