// SPDX-License-Identifier: Apache-2.0
//! `host.busy`: the host had other work while arms ran.

use super::doubt;
use crate::busy::{Busy, Cause};
use crate::summary::ArmSummary;
use evidence::{Doubt, Evidence, Finding};
use serde_json::json;

/// `None` where the host was quiet in each arm, or nobody looked.
pub(super) fn finding(evidence: &Evidence, arms: &[ArmSummary]) -> Option<Finding> {
    let mechanisms = &evidence.conditions.mechanisms;
    let squeezes_memory = mechanisms.contains_key("ram") || mechanisms.contains_key("server_ram");
    let seen: Vec<(&str, Busy, Vec<Cause>)> = arms
        .iter()
        .filter_map(|arm| arm.busy.map(|busy| (arm.name.as_str(), busy, busy.causes(squeezes_memory))))
        .filter(|(.., causes)| !causes.is_empty())
        .collect();
    let told: Vec<(Cause, String)> =
        Cause::ALL.into_iter().filter_map(|cause| Some((cause, told(cause, &seen)?))).collect();
    let (_, first) = told.first()?;
    let arms = seen.iter().map(|(name, busy, causes)| json!({ "arm": name, "causes": causes, "busy": busy }));
    Some(Finding {
        id: "host.busy".into(),
        arm: None,
        statement: format!("The host was busy with other work: {first}."),
        evidence: json!({ "arms": arms.collect::<Vec<_>>() }),
        doubts: told.iter().map(|(cause, words)| as_doubt(*cause, words)).collect(),
    })
}

fn as_doubt(cause: Cause, words: &str) -> Doubt {
    let effect = match cause {
        Cause::Disk => "reads and writes may have taken longer than on a quiet host",
        _ => "what is measured may be slower than on a quiet host, and may differ from run to run",
    };
    doubt(cause.id(), format!("{words}: {effect}"), Some(cause.hint()))
}

/// The worst arm's figure, and which arms had it.
fn told(cause: Cause, seen: &[(&str, Busy, Vec<Cause>)]) -> Option<String> {
    let having: Vec<_> = seen.iter().filter(|(.., causes)| causes.contains(&cause)).collect();
    let (worst, busy, _) =
        having.iter().max_by(|(_, one, _), (_, other, _)| cause.amount(one).total_cmp(&cause.amount(other)))?;
    let words = cause.words(busy);
    Some(match having.len() {
        1 => format!("{words} in arm \"{worst}\""),
        count => format!("{words} in arm \"{worst}\", the worst of {count} such arms"),
    })
}
