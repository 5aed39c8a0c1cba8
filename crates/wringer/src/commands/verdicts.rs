// SPDX-License-Identifier: Apache-2.0
//! The exit code of a command that has checked assertions.

use crate::exit::{Exit, Failure, Outcome};
use evidence::Verdict;

/// Each verdict with its place, such as ` with 8 connections`; empty when there is only one place.
///
/// # Errors
/// Exit code 1: an assertion failed.
pub fn outcome<'a>(verdicts: impl Iterator<Item = (impl AsRef<str>, &'a Verdict)>) -> Outcome {
    let mut count = 0;
    let mut failed = Vec::new();
    for (place, verdict) in verdicts {
        count += 1;
        if !verdict.passed {
            let (assertion, measured) = (&verdict.assertion, verdict.measured_text());
            failed.push(format!("{assertion}{}: measured {measured}", place.as_ref()));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let all = units::counted(count, "assertion");
    Err(Failure::message(Exit::Finding, format!("{} of {all} failed: {}", failed.len(), failed.join("; "))))
}
