// SPDX-License-Identifier: Apache-2.0
//! `host.busy`: the host had other work while arms ran.

use super::figures::{BusyArm, HostBusy};
use super::{Doubt, Finding, FindingEvidence, doubt};
use crate::busy::Cause;
use crate::summary::ArmSummary;
use evidence::Evidence;

/// `None` when the host was quiet in each arm, or was not observed.
pub(super) fn finding(evidence: &Evidence, arms: &[ArmSummary]) -> Option<Finding> {
    let mechanisms = &evidence.conditions.mechanisms;
    let squeezes_memory = mechanisms.contains_key("ram") || mechanisms.contains_key("server_ram");
    let seen = |arm: &ArmSummary| {
        let (arm, busy) = (arm.name.clone(), arm.busy?);
        Some(BusyArm { arm, causes: busy.causes(squeezes_memory), busy })
    };
    let seen: Vec<BusyArm> = arms.iter().filter_map(seen).filter(|seen| !seen.causes.is_empty()).collect();
    let told: Vec<(Cause, String)> =
        Cause::ALL.into_iter().filter_map(|cause| Some((cause, told(cause, &seen)?))).collect();
    let (_, first) = told.first()?;
    let statement = format!("The host was busy with other work: {first}.");
    let doubts = told.iter().map(|(cause, words)| as_doubt(*cause, words)).collect();
    Some(Finding { arm: None, statement, evidence: FindingEvidence::HostBusy(HostBusy { arms: seen }), doubts })
}

fn as_doubt(cause: Cause, words: &str) -> Doubt {
    let effect = match cause {
        Cause::Disk => "reads and writes may have taken longer than on a quiet host",
        _ => "what is measured may be slower than on a quiet host, and may differ from run to run",
    };
    doubt(cause.id(), format!("{words}: {effect}"), Some(cause.hint()))
}

/// The figure of the worst arm, and the arms with this cause.
fn told(cause: Cause, seen: &[BusyArm]) -> Option<String> {
    let having: Vec<&BusyArm> = seen.iter().filter(|seen| seen.causes.contains(&cause)).collect();
    let amount = |seen: &BusyArm| cause.amount(&seen.busy);
    let BusyArm { arm: worst, busy, .. } = having.iter().max_by(|one, other| amount(one).total_cmp(&amount(other)))?;
    let words = cause.words(busy);
    Some(match having.len() {
        1 => format!("{words} in arm \"{worst}\""),
        count => format!("{words} in arm \"{worst}\", the worst of {count} such arms"),
    })
}
