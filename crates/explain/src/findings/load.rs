// SPDX-License-Identifier: Apache-2.0
//! `load.overload`: the server could not keep up with the rate. `load.errors`: statements failed.

use super::figures::{LoadErrors, LoadOverload};
use super::stalls::waited_us;
use super::{Finding, FindingEvidence, doubt, percent, time};
use crate::summary::ArmSummary;
use evidence::{Arm, Arrivals, Evidence, LoadResult};
use units::counted;

/// A smaller share of late starts is caused by the scheduler, not by the server. A larger share of transactions that were due and not done: the rate was too
/// high.
const BEHIND: f64 = 0.01;

pub(super) fn findings(evidence: &Evidence, arms: &[ArmSummary]) -> Vec<Finding> {
    let recorded = |arm: &ArmSummary| evidence.arms.iter().find(|it| it.name == arm.name);
    arms.iter().flat_map(|arm| [overload(arm, recorded(arm)), errors(arm)]).flatten().collect()
}

fn overload(arm: &ArmSummary, recorded: Option<&Arm>) -> Option<Finding> {
    if is_in_time(arm) {
        return None;
    }
    let intended = intended(arm);
    let is_overloaded = recorded.and_then(|recorded| kept_up(recorded, arm)) != Some(true);
    let wait = recorded.and_then(|recorded| mean_wait_us(recorded.load.as_ref()?));
    let waited =
        wait.map_or_else(String::new, |us| format!("; on average a transaction waited {} for its turn", time(us)));
    Some(Finding {
        arm: Some(arm.name.clone()),
        statement: match (percent(arm.late as f64 / intended.max(1) as f64), is_overloaded) {
            (late, true) => format!(
                "The rate was more than the server could take: {late} of the transactions started late, and {} never{waited}.",
                arm.skipped
            ),
            (late, false) => format!(
                "{late} of the transactions started more than 1 ms late{waited}. The server did all that was asked of it, but not all at once."
            ),
        },
        evidence: FindingEvidence::LoadOverload(LoadOverload {
            intended,
            late: arm.late,
            skipped: arm.skipped,
            mean_wait_us: wait,
            transactions_per_second: arm.transactions_per_second,
        }),
        doubts: vec![doubt(
            "load.client",
            "a driver that is itself short of CPU also starts late",
            Some("compare client CPU with the elapsed time, or use fewer connections"),
        )],
    })
}

/// Whether an open loop got done what its rate asked for: at most one transaction in a hundred was due and had not ended when the load did. `None`: nobody
/// counted that. A replay sends everything in the end, however long it takes; other programs do not tell it.
pub(crate) fn kept_up(recorded: &Arm, arm: &ArmSummary) -> Option<bool> {
    let load = recorded.load.as_ref()?;
    let is_counted = matches!(load.arrivals, Arrivals::Constant { .. } | Arrivals::Poisson { .. });
    if !is_counted || recorded.driven.is_some() {
        return None;
    }
    let unended = load.measured.unended.as_ref().map_or(0, |it| it.response.count());
    let undone = arm.skipped.max(unended);
    Some(undone as f64 <= (arm.transactions + undone) as f64 * BEHIND)
}

/// Whether transactions started in time, but for one in a hundred.
pub(crate) fn is_in_time(arm: &ArmSummary) -> bool {
    (arm.late + arm.skipped) as f64 <= intended(arm).max(1) as f64 * BEHIND
}

/// The transactions that were due, as far as they are known: one that failed had started, too, and perhaps late.
fn intended(arm: &ArmSummary) -> u64 {
    arm.transactions.max(arm.late) + arm.skipped
}

/// For all transactions that were due, of which those that never started waited until the end.
fn mean_wait_us(load: &LoadResult) -> Option<f64> {
    let phase = &load.measured;
    let due = phase.transaction.response.count() + phase.unended.as_ref().map_or(0, |it| it.response.count());
    (due > 0).then(|| waited_us(phase) / due as f64)
}

fn errors(arm: &ArmSummary) -> Option<Finding> {
    (arm.errors > 0).then(|| Finding {
        arm: Some(arm.name.clone()),
        statement: format!("{} failed beside {} that did not.", counted(arm.errors, "statement"), arm.queries),
        evidence: FindingEvidence::LoadErrors(LoadErrors { errors: arm.errors, queries: arm.queries }),
        doubts: Vec::new(),
    })
}
