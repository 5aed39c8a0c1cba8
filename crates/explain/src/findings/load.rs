// SPDX-License-Identifier: Apache-2.0
//! `load.overload`: the server could not keep up with the rate. `load.errors`: statements failed.

use super::figures::{LoadErrors, LoadOverload};
use super::{Finding, FindingEvidence, doubt, percent, time};
use crate::summary::ArmSummary;
use units::counted;

/// A smaller share of late starts is caused by the scheduler, not by the server.
const OVERLOAD: f64 = 0.01;

pub(super) fn findings(arms: &[ArmSummary]) -> Vec<Finding> {
    arms.iter().flat_map(|arm| [overload(arm), errors(arm)]).flatten().collect()
}

fn overload(arm: &ArmSummary) -> Option<Finding> {
    // a transaction that failed had started, too, and perhaps late
    let intended = arm.transactions.max(arm.late) + arm.skipped;
    let behind = (arm.late + arm.skipped) as f64 / intended.max(1) as f64;
    if behind <= OVERLOAD {
        return None;
    }
    let wait = arm.response.zip(arm.service).map(|(response, service)| response.mean_us - service.mean_us);
    let waited = wait
        .map_or_else(String::new, |us| format!("; on average a transaction waited {} for its turn", time(us.max(0.0))));
    Some(Finding {
        arm: Some(arm.name.clone()),
        statement: format!(
            "The rate was more than the server could take: {} of the transactions started late, and {} never{waited}.",
            percent(arm.late as f64 / intended.max(1) as f64),
            arm.skipped
        ),
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

fn errors(arm: &ArmSummary) -> Option<Finding> {
    (arm.errors > 0).then(|| Finding {
        arm: Some(arm.name.clone()),
        statement: format!("{} failed beside {} that did not.", counted(arm.errors, "statement"), arm.queries),
        evidence: FindingEvidence::LoadErrors(LoadErrors { errors: arm.errors, queries: arm.queries }),
        doubts: Vec::new(),
    })
}
