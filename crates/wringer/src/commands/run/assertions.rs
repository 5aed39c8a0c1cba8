// SPDX-License-Identifier: Apache-2.0
//! What arms assert: looked at before anything is made, judged when the arm has ended.

use super::lab::Lab;
use super::translate;
use super::workloads::{MANY_ROWS, Workloads, family};
use crate::commands::plan;
use crate::exit::{Failure, Outcome};
use evidence::Arm as ArmEvidence;
use experiment::{Arm, Experiment, Load, Problem};
use std::path::Path;

/// So many rows do to name the classes of a workload's statements.
const SOME_ROWS: u64 = 10_000;

/// # Errors
/// Exit code 2: an assertion is about a class of statements that its arm's workload does not have.
pub fn check(file: &Path, text: &str, experiment: &Experiment, workloads: &Workloads) -> Outcome {
    let mut problems: Vec<Problem> = Vec::new();
    let of_classes =
        |arm: &&Arm| arm.load.driver.is_none() && arm.assertions.iter().any(|it| it.assertion.class().is_some());
    for arm in experiment.arms.iter().filter(of_classes) {
        let rows = if Load::is_file(&arm.load.workload) { MANY_ROWS } else { SOME_ROWS };
        let spec = translate::load_spec(experiment, &arm.load, family(experiment.server.flavour), rows, workloads)?;
        let classes: Vec<&str> = spec.workload.statements().iter().map(|it| it.class.as_str()).collect();
        problems.extend(arm.assertions.iter().filter_map(|asserted| {
            let message = asserted.assertion.check_class(classes.iter().copied()).err()?;
            let (line, column) = asserted.place;
            Some(Problem { line, column, message, suggestion: None })
        }));
    }
    problems.sort();
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(plan::refused(file, text, &problems)) }
}

/// Of an arm that got to its end. One that fails ends nothing: the run's exit code says it in the end.
///
/// # Errors
/// The recording cannot be written.
pub fn judge(lab: &Lab<'_>, arm: &Arm, evidence: &mut ArmEvidence) -> Outcome {
    for asserted in &arm.assertions {
        let assertion = &asserted.assertion;
        let verdict = evidence.load.as_ref().map_or_else(|| assertion.judge_nothing(), |load| assertion.judge(load));
        let word = if verdict.passed { "met" } else { "FAILED" };
        let said = format!("{}: {}: {word}, measured {}", evidence.name, verdict.assertion, verdict.measured_text());
        lab.notes.event("load", said)?;
        evidence.verdicts.push(verdict);
    }
    Ok::<(), Failure>(())
}
