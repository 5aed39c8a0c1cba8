// SPDX-License-Identifier: Apache-2.0
//! `runs.compare`: each cell of the later runs against the same cell of the first. `runs.conditions`: in what else the runs differ.

use super::compare::{ComparedArm, Interval, Side, compare};
use super::{Doubt, Finding, FindingEvidence, doubt};
use crate::{Percentiles, conditions};
use evidence::{Arm, Evidence, LatencyHistogram};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use units::counted;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsCompare {
    /// The number of the run that the others are compared with.
    pub baseline: usize,
    /// The ids of the runs.
    pub runs: Vec<String>,
    pub cells: Vec<ComparedCell>,
}

/// A cell of a later run against the same cell of the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedCell {
    pub cell: String,
    /// The number of the later run.
    pub run: usize,
    #[serde(flatten)]
    pub compared: ComparedArm,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsConditions {
    pub different: Vec<DifferentCondition>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DifferentCondition {
    pub what: String,
    /// One for each run, each of the condition's own type; `null` where a run has none.
    pub values: Vec<Value>,
}

/// Slots of the timeline are joined to batches, at least this many: their means are nearly independent.
const BATCHES: u64 = 10;
/// A longer batch gives no better interval.
const LONGEST_BATCH_US: u64 = 1_000_000;
/// Fewer batches give no interval worth the name.
const FEWEST_BATCHES: usize = 5;
/// Two-sided 95 % of Student's t with 4 to 9 degrees of freedom is 2.3 to 2.8; the runs also differ by what the host did meanwhile.
const DEVIATIONS: f64 = 2.8;

/// More are counted, not named, in a sentence.
const NAMED: usize = 4;

pub(crate) fn findings(runs: &[&Evidence]) -> Vec<Finding> {
    let different = different(runs);
    let compared = compared(runs, &different);
    compared.into_iter().chain((runs.len() > 1).then(|| in_conditions(&different))).collect()
}

/// `10 ms, run 2`: runs are counted from 1.
fn named(cell: &str, run: usize) -> String {
    format!("{cell}, run {}", run + 1)
}

/// `None` where no cell is in the first run and in a later one.
fn compared(runs: &[&Evidence], different: &BTreeMap<String, Vec<Value>>) -> Option<Finding> {
    let (first, later) = runs.split_first()?;
    let (mut figures, mut once) = (Vec::new(), false);
    for cell in cells(first) {
        let Some(base) = side(first, cell, 0) else { continue };
        for (run, evidence) in (1..).zip(later) {
            let of = |(side, error): (Side, Option<f64>)| compare(&base.0, &side, interval(base.1, error));
            let Some(one) = side(evidence, cell, run).and_then(of) else { continue };
            figures.push(ComparedCell { cell: cell.to_owned(), run: run + 1, compared: one.figures(&base.0) });
            once |= turns(first, cell).count() < 2 || turns(evidence, cell).count() < 2;
        }
    }
    let told: Vec<&str> = figures.iter().map(|one: &ComparedCell| one.compared.statement.as_str()).collect();
    let statement = told.join(" ");
    (!figures.is_empty()).then(|| Finding {
        arm: None,
        statement,
        evidence: FindingEvidence::RunsCompare(RunsCompare {
            baseline: 1,
            runs: runs.iter().map(|run| run.run_id.clone()).collect(),
            cells: figures,
        }),
        doubts: doubts(once, different),
    })
}

fn doubts(once: bool, different: &BTreeMap<String, Vec<Value>>) -> Vec<Doubt> {
    let text = || format!("the runs differ in more than what was measured: {}", names(different));
    let others = (!different.is_empty()).then(|| {
        doubt(
            "runs.conditions",
            text(),
            Some("run both again on one host, one after the other, with what is to be compared as the only change"),
        )
    });
    let once = once.then(|| {
        let text =
            "a cell ran only once in a run: a part of the difference may be what else happened on the host meanwhile";
        doubt("compare.once", text, Some("repeat = 3 runs all arms in turn, three times"))
    });
    others.into_iter().chain(once).collect()
}

fn in_conditions(different: &BTreeMap<String, Vec<Value>>) -> Finding {
    let statement = match different.len() {
        0 => "The runs were made under the same conditions, as far as those are recorded.".to_owned(),
        count => format!("The runs differ in {}: {}.", counted(count as u64, "condition"), names(different)),
    };
    let rows = different.iter();
    let rows = rows.map(|(what, values)| DifferentCondition { what: what.clone(), values: values.clone() });
    Finding {
        arm: None,
        statement,
        evidence: FindingEvidence::RunsConditions(RunsConditions { different: rows.collect() }),
        doubts: Vec::new(),
    }
}

fn names(different: &BTreeMap<String, Vec<Value>>) -> String {
    let named: Vec<&str> = different.keys().take(NAMED).map(String::as_str).collect();
    match different.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// In the order in which they first ran.
fn cells(run: &Evidence) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    run.arms.iter().map(|arm| arm.cell.as_str()).filter(|cell| seen.insert(*cell)).collect()
}

/// Those whose load came to something.
fn turns<'e>(run: &'e Evidence, cell: &'e str) -> impl Iterator<Item = &'e Arm> {
    let loaded = |arm: &&Arm| arm.load.as_ref().is_some_and(|load| load.measured.transactions > 0);
    run.arms.iter().filter(move |arm| arm.cell == cell).filter(loaded)
}

/// Around a ratio of two rates, each with its relative standard error.
fn interval(base: Option<f64>, own: Option<f64>) -> Option<Interval> {
    let half = DEVIATIONS * base?.hypot(own?);
    Some(Interval { low: 1.0 - half, high: 1.0 + half, detectable_ratio: None })
}

/// All turns of a cell together, with the standard error of their rate over the rate; `None`: too short a run.
fn side(run: &Evidence, cell: &str, number: usize) -> Option<(Side, Option<f64>)> {
    let turns: Vec<&Arm> = turns(run, cell).collect();
    let phases = || turns.iter().filter_map(|arm| arm.load.as_ref()).map(|load| &load.measured);
    let rates: Vec<f64> = phases().filter_map(|phase| phase.transactions_per_second()).collect();
    let count = rates.len() as f64;
    let rate = rates.iter().sum::<f64>() / count;
    let mut response = LatencyHistogram::new();
    phases().for_each(|phase| response.merge(&phase.transaction.response));
    let driven = turns.iter().any(|arm| arm.driven.is_some());
    let error = error(&turns, &rates, rate);
    (rate > 0.0)
        .then(|| (Side { name: named(cell, number), rate, response: Percentiles::of(&response), driven }, error))
}

/// Of the mean of the turns: from within them, or from how far they lie apart, whichever is more.
fn error(turns: &[&Arm], rates: &[f64], mean: f64) -> Option<f64> {
    let count = rates.len() as f64;
    let within: Option<Vec<f64>> = turns.iter().map(|arm| relative_error(arm)).collect();
    let within = within.map(|errors| errors.iter().map(|error| error * error).sum::<f64>().sqrt() / count);
    let apart = (rates.len() > 1).then(|| {
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (variance / count).sqrt() / mean
    });
    within.into_iter().chain(apart).reduce(f64::max)
}

/// Standard error of the throughput over its mean, from batch means.
fn relative_error(arm: &Arm) -> Option<f64> {
    let points = &arm.load.as_ref()?.measured.timeline;
    let slot_us = points.first()?.length_us.max(1);
    let batch_us = (slot_us * points.len() as u64 / BATCHES).min(LONGEST_BATCH_US);
    let per_batch = usize::try_from(batch_us / slot_us).ok()?.max(1);
    // the last batch may be cut short by the end of the phase
    let batches: Vec<f64> =
        points.chunks_exact(per_batch).map(|batch| batch.iter().map(|point| point.transactions as f64).sum()).collect();
    if batches.len() < FEWEST_BATCHES {
        return None;
    }
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean > 0.0).then(|| (variance / count).sqrt() / mean)
}

/// What is not the same in all runs, with its value in each; `null` where a run has none.
fn different(runs: &[&Evidence]) -> BTreeMap<String, Vec<Value>> {
    let told: Vec<BTreeMap<String, Value>> = runs.iter().map(|run| all_conditions(run)).collect();
    let names: BTreeSet<&String> = told.iter().flat_map(BTreeMap::keys).collect();
    let values =
        |name: &String| -> Vec<Value> { told.iter().map(|of| of.get(name).cloned().unwrap_or(Value::Null)).collect() };
    let rows = names.into_iter().map(|name| (name.clone(), values(name)));
    rows.filter(|(_, values)| values.windows(2).any(|two| two[0] != two[1])).collect()
}

fn all_conditions(run: &Evidence) -> BTreeMap<String, Value> {
    let mut flat = conditions::of_run(run);
    for cell in cells(run) {
        let Some(arm) = turns(run, cell).next() else { continue };
        conditions::of_arm(arm, &format!("arm \"{cell}\""), &mut flat);
    }
    flat
}
