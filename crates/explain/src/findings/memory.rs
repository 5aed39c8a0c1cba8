// SPDX-License-Identifier: Apache-2.0
//! `memory.growth`: the parts of a server's memory that keep growing, and whether they are a leak.

use super::figures::MemoryGrowth;
use super::{Doubt, Finding, FindingEvidence, doubt};
use crate::growth::{Course, Growth, Judged, LeafGrowth, UNEXPLAINED, judge};
use crate::memory::ArmMemory;
use trend::FEWEST;
use units::{Bytes, counted};

/// The worst first; the worst one decides the verdict.
const WORST: [Growth; 4] = [Growth::Leak, Growth::Unnamed, Growth::Retention, Growth::Filling];

pub(super) fn findings(memory: &[ArmMemory]) -> Vec<Finding> {
    memory.iter().filter_map(finding).collect()
}

/// `None`: no inventory could be read.
fn finding(memory: &ArmMemory) -> Option<Finding> {
    let judged = judge(&memory.over_time)?;
    let verdict = verdict(&judged);
    let doubts = doubts(memory, &judged, verdict);
    Some(Finding {
        arm: memory.arm.clone(),
        statement: statement(&judged, verdict),
        evidence: FindingEvidence::MemoryGrowth(MemoryGrowth {
            verdict,
            inventories: judged.inventories as u64,
            elapsed_us: judged.elapsed_us,
            total: judged.total,
            estimate_uncertainty_bytes: judged.off,
            heap_used: judged.heap_used,
            leaves: judged.leaves,
        }),
        doubts,
    })
}

fn verdict(judged: &Judged) -> Growth {
    if !judged.is_enough {
        return Growth::TooFew;
    }
    let is = |growth: &Growth| judged.leaves.iter().any(|leaf| leaf.growth == Some(*growth));
    WORST.into_iter().find(is).unwrap_or(Growth::None)
}

fn statement(judged: &Judged, verdict: Growth) -> String {
    let noun = if judged.inventories == 1 { "inventory" } else { "inventories" };
    let over = format!("{} ({} {noun})", span(judged.elapsed_us), judged.inventories);
    match verdict {
        Growth::TooFew => {
            format!(
                "In {over} the server's memory was read too seldom to say whether it grows: {FEWEST} inventories are the fewest that tell it."
            )
        }
        Growth::None => format!("In {over} no part of the server's memory kept growing.{}", grew(judged)),
        _ => format!("In {} {}.", over, told(judged)),
    }
}

/// The growing leaves in words: the fastest leaf of each kind of growth, the worst kind first.
fn told(judged: &Judged) -> String {
    let fastest = |growth: Growth| judged.leaves.iter().find(|leaf| leaf.growth == Some(growth));
    let told = WORST.into_iter().filter_map(|growth| Some(sentence(growth, fastest(growth)?, judged.elapsed_us)));
    let mut told: Vec<String> = told.collect();
    let more = judged.leaves.iter().filter(|leaf| leaf.growth.is_some()).count() - told.len();
    if more > 0 {
        told.push(format!("{} more kept growing, too", counted(more as u64, "part")));
    }
    told.join("; ")
}

fn sentence(growth: Growth, leaf: &LeafGrowth, elapsed_us: u64) -> String {
    let rate = rate(leaf, elapsed_us);
    let path = &leaf.path;
    match growth {
        Growth::Leak if path == UNEXPLAINED => {
            format!(
                "memory that no leaf explains grew by {rate}, and malloc's chunks in use grew with it: that is a leak"
            )
        }
        Growth::Leak => {
            format!("{path} grew by {rate}, and this memory is in use: that is a leak, or work that keeps growing")
        }
        Growth::Unnamed => {
            format!(
                "memory that no leaf explains grew by {rate}, and nothing says whether it is in use or free in the allocator"
            )
        }
        Growth::Retention => format!("memory that is free in the allocator grew by {rate}: it is kept, not leaked"),
        _ => match leaf.limit_bytes {
            Some(limit) => {
                format!("{path} grew by {rate}, to {} of {}: it fills up", size(leaf.last_bytes), Bytes(limit))
            }
            None => format!("{path} grew by {rate}: it is a cache, and fills up"),
        },
    }
}

/// `32.1 MiB an hour (30.2 MiB to 34.0 MiB)`.
fn rate(leaf: &LeafGrowth, elapsed_us: u64) -> String {
    let (part, name) = unit_of_rates(elapsed_us);
    let size_of = |rate: Option<f64>| rate.map_or_else(String::new, |rate| size(rate * part));
    let (low, high) = (size_of(leaf.low_bytes_per_hour), size_of(leaf.high_bytes_per_hour));
    format!("{} {name} ({low} to {high})", size_of(leaf.bytes_per_hour))
}

/// The factor from a rate an hour to the rate that is shown, and its name: a few minutes say nothing about an hour.
pub fn unit_of_rates(elapsed_us: u64) -> (f64, &'static str) {
    const FEW_MINUTES_US: u64 = 600_000_000;
    if elapsed_us < FEW_MINUTES_US { (1.0 / 60.0, "a minute") } else { (1.0, "an hour") }
}

/// The leaf that grew most and then stopped, in words.
fn grew(judged: &Judged) -> String {
    let by = |leaf: &LeafGrowth| leaf.last_bytes - leaf.first_bytes;
    let stopped = judged.leaves.iter().filter(|leaf| leaf.course == Course::Grew && by(leaf) > 0.0);
    let most = stopped.max_by(|one, other| by(one).total_cmp(&by(other)));
    most.map_or_else(String::new, |leaf| {
        format!(
            " What grew most was {}, by {}; it stood still for a part of the time.",
            name(&leaf.path),
            size(by(leaf))
        )
    })
}

fn name(path: &str) -> &str {
    if path == UNEXPLAINED { "what no leaf explains" } else { path }
}

fn doubts(memory: &ArmMemory, judged: &Judged, verdict: Growth) -> Vec<Doubt> {
    let over = &memory.over_time;
    let is_claimed = matches!(verdict, Growth::Leak | Growth::Unnamed);
    let partly = over.unexplained_bytes.iter().filter(|bytes| bytes.is_none()).count();
    let starts = over.starts.last().copied().unwrap_or(0);
    let all = [
        (is_claimed && judged.sessions.course == Course::KeepsGrowing).then(|| {
            doubt(
                "growth.sessions",
                "the server had more and more sessions, too: they may be what needs the memory",
                Some("record while the number of sessions stays the same"),
            )
        }),
        is_claimed.then(|| {
            doubt(
                "growth.fills",
                "what fills up slowly looks like this, too, until it is full",
                Some("record for longer: a leak goes on, at the same rate"),
            )
        }),
        (judged.uncertain > 0).then(|| {
            let parts = counted(judged.uncertain as u64, "part");
            let text = format!(
                "many processes were estimated: {parts} grew, but by less than the estimates may be off, and nothing is said of that growth"
            );
            doubt(
                "growth.sampled",
                text,
                Some("with a longer interval more of the processes are read each time; record for longer, too"),
            )
        }),
        (starts > 0).then(|| {
            let times = counted(u64::from(starts), "time");
            doubt(
                "growth.restarted",
                format!("the server was started anew {times} meanwhile: only what came after the last start is judged"),
                None,
            )
        }),
        (partly > 0).then(|| {
            let text = format!(
                "{partly} of {} inventories lack a part that others have, and say nothing of some leaves",
                over.at_us.len()
            );
            doubt("growth.partly", text, None)
        }),
        (memory.unreadable > 0).then(|| {
            let text = format!("{} inventories cannot be read by this build", memory.unreadable);
            doubt(
                "growth.unreadable",
                text,
                Some("explain the recording with the version of Wringer that made it, or a later one"),
            )
        }),
    ];
    all.into_iter().flatten().collect()
}

/// `42 s`, `90 min`, `7.5 h`: minutes from two minutes on, hours from two hours on.
fn span(us: u64) -> String {
    match us as f64 / 1e6 {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes of memory, without their sign
fn size(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "-" } else { "" };
    format!("{sign}{}", Bytes(bytes.abs().round() as u64))
}
