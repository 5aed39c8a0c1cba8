// SPDX-License-Identifier: Apache-2.0
//! `runs.compare`: each cell of the later runs against the same cell of the first. `runs.conditions`: the other conditions in which the runs differ.

use super::compare::{Cell, compare};
use super::figures::{ComparedCell, DifferentCondition, RunsCompare, RunsConditions};
use super::{Doubt, Finding, FindingEvidence, doubt};
use crate::conditions;
use evidence::{Arm, Evidence};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use units::counted;

/// Further names are only counted in a sentence.
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

/// `None` when the first run and the later runs have no common cell.
fn compared(runs: &[&Evidence], different: &BTreeMap<String, Vec<Value>>) -> Option<Finding> {
    let (first, later) = runs.split_first()?;
    let mut pairs: Vec<(&str, usize, &Evidence)> = Vec::new();
    for cell in cells(first) {
        pairs.extend((1..).zip(later).map(|(run, evidence)| (cell, run, *evidence)));
    }
    let sides = pairs.into_iter().filter_map(|(cell, run, evidence)| {
        let base = Cell::of(&named(cell, 0), &turns(first, cell))?;
        Some((cell, run, base, Cell::of(&named(cell, run), &turns(evidence, cell))?))
    });
    let sides: Vec<(&str, usize, Cell, Cell)> = sides.collect();
    let told = sides.iter().filter_map(|(cell, run, base, own)| {
        let compared = compare(&base.side, &own.side, own.beside(base, sides.len()))?;
        Some(ComparedCell { cell: (*cell).to_owned(), run: run + 1, compared: compared.figures(&base.side) })
    });
    let figures: Vec<ComparedCell> = told.collect();
    let told: Vec<&str> = figures.iter().map(|one| one.compared.statement.as_str()).collect();
    let statement = told.join(" ");
    let compared: BTreeSet<String> = figures.iter().map(|one| one.cell.clone()).collect();
    (!figures.is_empty()).then(|| Finding {
        arm: None,
        statement,
        evidence: FindingEvidence::RunsCompare(RunsCompare {
            baseline: 1,
            runs: runs.iter().map(|run| run.run_id.clone()).collect(),
            cells: figures,
        }),
        doubts: doubts(runs, &compared, different),
    })
}

fn doubts(runs: &[&Evidence], compared: &BTreeSet<String>, different: &BTreeMap<String, Vec<Value>>) -> Vec<Doubt> {
    let text = || format!("the runs differ in more than what was measured: {}", names(different));
    let others = (!different.is_empty()).then(|| {
        doubt(
            "runs.conditions",
            text(),
            Some("run both again on one host, one after the other, with what is to be compared as the only change"),
        )
    });
    let text = "each run is one repeat of its cells: the interval says what varied while they ran, and nothing of what another run would give";
    let hint = "a verdict needs three runs of each side: wringer compare --a A1 A2 A3 --b B1 B2 B3";
    let broken = (1..).zip(runs).flat_map(|(run, evidence)| {
        let is_compared = |arm: &&Arm| arm.load.is_some() && compared.contains(&arm.cell);
        let broken = evidence.arms.iter().filter(is_compared).filter(|arm| arm.broke_off.is_some());
        broken.map(move |arm| format!("\"{}\" of run {run}", arm.name))
    });
    let broken: Vec<String> = broken.collect();
    let broken = (!broken.is_empty()).then(|| {
        let text = format!("{} broke off: figures of such an arm are of the time until then", broken.join(", "));
        doubt("compare.broke_off", text, Some("run again what broke off, before the runs are compared"))
    });
    others.into_iter().chain(broken).chain([doubt("compare.repeats", text, Some(hint))]).collect()
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

/// Cells in the order in which they first ran.
fn cells(run: &Evidence) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    run.arms.iter().map(|arm| arm.cell.as_str()).filter(|cell| seen.insert(*cell)).collect()
}

/// The turns of the cell that had a load.
fn turns<'e>(run: &'e Evidence, cell: &str) -> Vec<&'e Arm> {
    run.arms.iter().filter(|arm| arm.cell == cell && arm.load.is_some()).collect()
}

/// The conditions that are not the same in all runs, with the value in each; `null` when a run has none.
fn different(runs: &[&Evidence]) -> BTreeMap<String, Vec<Value>> {
    let told: Vec<BTreeMap<String, Value>> = runs.iter().map(|run| all_conditions(run)).collect();
    let is_condition = |name: &&String| *name != conditions::EXPERIMENT;
    let names: BTreeSet<&String> = told.iter().flat_map(BTreeMap::keys).filter(is_condition).collect();
    let values =
        |name: &String| -> Vec<Value> { told.iter().map(|of| of.get(name).cloned().unwrap_or(Value::Null)).collect() };
    let rows = names.into_iter().map(|name| (name.clone(), values(name)));
    rows.filter(|(_, values)| values.windows(2).any(|two| two[0] != two[1])).collect()
}

fn all_conditions(run: &Evidence) -> BTreeMap<String, Value> {
    let mut flat = conditions::of_run(run);
    for cell in cells(run) {
        let Some(arm) = turns(run, cell).into_iter().next() else { continue };
        conditions::of_arm(run, arm, &format!("arm \"{cell}\""), &mut flat);
    }
    flat
}
