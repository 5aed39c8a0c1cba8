// SPDX-License-Identifier: Apache-2.0
//! Checks the assertions of the arms before anything is made.

use super::refused;
use super::workloads::MANY_ROWS;
use crate::exit::Outcome;
use experiment::{Arm, Experiment, Load, Problem};
use lab::{Workloads, load_spec};
use std::path::Path;

/// Enough rows to name the classes of a workload's statements.
const SOME_ROWS: u64 = 10_000;

/// # Errors
/// Exit code 2: an assertion is about a class of statements that its arm's workload does not have.
pub fn check(file: &Path, text: &str, experiment: &Experiment, workloads: &Workloads) -> Outcome {
    let mut problems: Vec<Problem> = Vec::new();
    let of_classes =
        |arm: &&Arm| arm.load.is_of_ours() && arm.assertions.iter().any(|it| it.assertion.class().is_some());
    for arm in experiment.arms.iter().filter(of_classes) {
        let rows = if Load::is_file(&arm.load.workload) { MANY_ROWS } else { SOME_ROWS };
        let (written, protocol) = (workloads.get(&arm.load.workload), experiment.server.flavour.protocol());
        let spec = load_spec(&experiment.fill, &arm.load, written, protocol, rows)?;
        let classes: Vec<&str> = spec.workload.statements().iter().map(|it| it.class.as_str()).collect();
        problems.extend(arm.assertions.iter().filter_map(|asserted| {
            let message = asserted.assertion.check_class(classes.iter().copied()).err()?;
            let (line, column) = asserted.place;
            Some(Problem { line, column, message, suggestion: None })
        }));
    }
    problems.sort();
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(refused(file, text, &problems)) }
}
