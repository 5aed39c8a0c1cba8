// SPDX-License-Identifier: Apache-2.0
//! `latency.modes`: how many queries were served from RAM, how many needed one read, how many two.

use super::figures::{ArmModes, LatencyModes};
use super::{Doubt, Finding, FindingEvidence, doubt, percent, time};
use crate::reads::Reference;
use crate::summary::ArmSummary;
use modes::{Mode, Modes};

/// Modes and witness agree when they differ by no more than this share.
const AGREEMENT: f64 = 0.05;
/// A larger share of reads that the layer could not tell from read-ahead is mentioned.
const UNSEEN: f64 = 0.01;
/// With fewer queries, shares are uncertain by more than about two points.
const FEW: u64 = 500;

pub(super) fn finding(arms: &[ArmSummary]) -> Option<Finding> {
    let measured: Vec<(&ArmSummary, &Modes)> =
        arms.iter().filter_map(|arm| Some((arm, arm.modes.as_ref()?))).filter(|(_, modes)| modes.count > 0).collect();
    // of the arms whose reads could be determined, the one with the slowest reads says most
    let telling = measured
        .iter()
        .filter(|(_, modes)| modes.reads_per_query.is_some())
        .max_by_key(|(arm, _)| arm.delay.map_or(0, |delay| delay.read_us))
        .or(measured.last())?;
    Some(Finding {
        arm: None,
        statement: statement(telling.0, telling.1),
        evidence: FindingEvidence::LatencyModes(LatencyModes {
            arms: measured.iter().filter_map(|(arm, modes)| evidence(arm, modes)).collect(),
        }),
        doubts: measured.iter().flat_map(|(arm, modes)| doubts(arm, modes)).collect(),
    })
}

/// One sentence for people.
fn statement(arm: &ArmSummary, modes: &Modes) -> String {
    let delay = arm.delay.filter(|delay| delay.read_us > 0);
    let with = delay.map_or_else(String::new, |delay| {
        let about = if delay.varies { "about " } else { "" };
        format!(" ({about}{} a read)", time(delay.read_us as f64))
    });
    let noun = if arm.statements.is_empty() { "queries" } else { "transactions" };
    let parts: Vec<String> = modes.modes.iter().map(part).collect();
    if modes.reads_per_query.is_some() {
        return format!("Of the {noun} in arm \"{}\"{with}, {}.", arm.name, joined(&parts));
    }
    let humps = if parts.len() == 1 { "one hump".to_owned() } else { format!("{} humps", parts.len()) };
    let reason = modes.reason.clone().unwrap_or_default();
    format!("The latencies of the {noun} in arm \"{}\"{with} form {humps}: {}; {reason}.", arm.name, joined(&parts))
}

fn part(mode: &Mode) -> String {
    let share = percent(mode.share);
    match mode.reads {
        None => format!("{share} around {}", time(mode.center_us)),
        Some(0.0) => format!("{share} needed no read"),
        Some(1.0) => format!("{share} needed one read"),
        Some(2.0) => format!("{share} needed two"),
        Some(reads) if reads.fract() == 0.0 => format!("{share} needed {reads:.0} reads"),
        Some(reads) => format!("{share} needed {reads:.1} reads on average"),
    }
}

fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn evidence(arm: &ArmSummary, modes: &Modes) -> Option<ArmModes> {
    Some(ArmModes {
        arm: arm.name.clone(),
        delay: arm.delay,
        queries: arm.queries,
        modes: modes.modes.clone(),
        reason: modes.reason.clone(),
        read_us: modes.read_us,
        statements: arm.statements.clone(),
        reads: arm.reads.clone()?,
    })
}

fn doubts(arm: &ArmSummary, modes: &Modes) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let name = &arm.name;
    let delayed = arm.delay.is_some_and(|delay| delay.read_us > 0);
    match &modes.reason {
        Some(reason) if !delayed => {
            let hint = Some("an arm with squeeze.disk.read = \"1ms\" or more pulls the humps apart");
            doubts.push(doubt("modes.undelayed", format!("arm \"{name}\": {reason}"), hint));
        }
        Some(reason) if arm.delay.is_some_and(|delay| delay.varies) => {
            let hint = Some("a constant squeeze.disk.read pulls the humps apart");
            doubts.push(doubt("modes.varied", format!("arm \"{name}\": {reason}"), hint));
        }
        Some(reason) if modes.reads_per_query.is_none() => {
            let hint = Some("a larger squeeze.disk.read pulls the humps apart");
            doubts.push(doubt("modes.unreadable", format!("arm \"{name}\": {reason}"), hint));
        }
        Some(reason) => {
            let hint = Some("a larger squeeze.disk.read, or fewer reads a transaction, pulls them apart");
            doubts.push(doubt("modes.overlap", format!("arm \"{name}\": {reason}"), hint));
        }
        None => {}
    }
    if modes.count < FEW {
        let text = format!("arm \"{name}\" has only {} queries: shares are uncertain by some points", modes.count);
        doubts.push(doubt("modes.few", text, Some("measure for longer: load.time")));
    }
    doubts.extend(disagreement(arm));
    doubts.extend(unseen(arm));
    doubts
}

fn disagreement(arm: &ArmSummary) -> Option<Doubt> {
    let reads = arm.reads.as_ref()?;
    reads.by_modes?;
    let (witness, off, count) = match reads.reference {
        Some(Reference::Layer) => ("the slow layer", reads.discrepancy_layer, reads.by_layer),
        Some(Reference::Server) => ("the server", reads.discrepancy_server, reads.by_server),
        None => {
            let text = format!("arm \"{}\": nothing else counted the reads", arm.name);
            return Some(doubt("witness.missing", text, None));
        }
    };
    let by_modes = reads.by_modes.unwrap_or_default();
    let count = count.unwrap_or_default();
    // a few background reads in an arm with almost no reads are no disagreement
    let apart = off.is_none_or(|off| off.abs() > AGREEMENT) && (by_modes - count).abs() > 0.002;
    apart.then(|| {
        let text = format!(
            "arm \"{}\": the humps say {by_modes:.4} reads a query, {witness} counted {count:.4}{}",
            arm.name,
            off.map_or_else(String::new, |off| format!(" ({:+.1} %)", off * 100.0))
        );
        let hint = "background reads count for the witness, and strays between humps go to the lower one";
        doubt("witness.disagrees", text, Some(hint))
    })
}

fn unseen(arm: &ArmSummary) -> Option<Doubt> {
    let share = arm.reads.as_ref()?.unseen_share.filter(|share| *share > UNSEEN)?;
    let text = format!(
        "arm \"{}\": of {} of its reads the slow layer could not see whether a query waited for them; it counts them as if one did",
        arm.name,
        percent(share)
    );
    Some(doubt("witness.unseen", text, Some("the layer looks at /proc/<thread>/syscall of the server's threads")))
}
