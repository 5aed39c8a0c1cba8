// SPDX-License-Identifier: Apache-2.0
//! Reads the histograms that the disks of the arms name, before anything is made.

use super::refuse_any;
use crate::commands::disk::flags::read_bins;
use crate::exit::Outcome;
use experiment::{Experiment, Problem};
use std::path::Path;

/// # Errors
/// Exit code 2: a file is not there, or has no histogram.
pub fn check(file: &Path, text: &str, experiment: &Experiment) -> Outcome {
    let mut problems: Vec<Problem> = Vec::new();
    for (index, arm) in experiment.arms.iter().enumerate() {
        if let Some(error) = arm.squeeze.disk.as_ref().and_then(|disk| disk.model(&mut read_bins).err()) {
            let (line, column) = experiment.place(index, "squeeze.disk");
            problems.push(Problem { line, column, message: error.message, suggestion: Some(error.hint) });
        }
    }
    refuse_any(file, text, problems)
}
