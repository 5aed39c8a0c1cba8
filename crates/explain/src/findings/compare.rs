// SPDX-License-Identifier: Apache-2.0
//! `arms.compare`: each arm against the first, with an interval, and "no difference shown" where that is so.

use super::{doubt, time};
use crate::summary::ArmSummary;
use evidence::{Arm, Doubt, Evidence, Finding};
use serde_json::json;

/// Slots of the timeline are joined to batches, at least this many: their means are nearly independent.
const BATCHES: u64 = 10;
/// A longer batch gives no better interval.
const LONGEST_BATCH_US: u64 = 1_000_000;
/// Fewer batches give no interval worth the name.
const FEWEST_BATCHES: usize = 5;
/// Two-sided 95 % of Student's t with 4 to 9 degrees of freedom is 2.3 to 2.8; the arms also differ by what the host did meanwhile.
const DEVIATIONS: f64 = 2.8;

struct Comparison {
    arm: String,
    ratio: f64,
    /// Half the width of the interval around the ratio; `None`: too short a run.
    margin: Option<f64>,
    p50_ratio: Option<f64>,
    p99_ratio: Option<f64>,
    /// One of the two loads was another program's.
    driven: bool,
}

impl Comparison {
    /// Whether the interval leaves 1 out.
    fn shown(&self) -> bool {
        self.margin.is_some_and(|margin| (self.ratio - 1.0).abs() > margin)
    }
}

pub(super) fn finding(evidence: &Evidence, arms: &[ArmSummary]) -> Option<Finding> {
    let mut loaded = evidence.arms.iter().zip(arms).filter(|(_, summary)| summary.transactions > 0);
    let (first, base) = loaded.next()?;
    let compared: Vec<Comparison> = loaded.filter_map(|(arm, summary)| compare(first, base, arm, summary)).collect();
    if compared.is_empty() {
        return None;
    }
    Some(Finding {
        id: "arms.compare".into(),
        arm: None,
        statement: statement(base, &compared),
        evidence: json!({
            "baseline": base.name,
            "arms": compared.iter().map(|one| json!({
                "arm": one.arm, "throughput_ratio": one.ratio, "margin": one.margin, "difference_shown": one.shown(),
                "p50_ratio": one.p50_ratio, "p99_ratio": one.p99_ratio,
            })).collect::<Vec<_>>(),
        }),
        doubts: doubts(evidence, &compared),
    })
}

fn compare(first: &Arm, base: &ArmSummary, arm: &Arm, summary: &ArmSummary) -> Option<Comparison> {
    let ratio = summary.transactions_per_second? / base.transactions_per_second.filter(|rate| *rate > 0.0)?;
    let relative = relative_error(first).zip(relative_error(arm)).map(|(a, b)| a.hypot(b));
    let of = |percentile: fn(&crate::Percentiles) -> f64| {
        let (base, own) = (base.response.as_ref()?, summary.response.as_ref()?);
        (percentile(base) > 0.0).then(|| percentile(own) / percentile(base))
    };
    Some(Comparison {
        arm: summary.name.clone(),
        ratio,
        margin: relative.map(|relative| DEVIATIONS * relative * ratio),
        p50_ratio: of(|percentiles| percentiles.p50_us),
        p99_ratio: of(|percentiles| percentiles.p99_us),
        driven: first.driven.is_some() || arm.driven.is_some(),
    })
}

/// Standard error of the throughput over its mean, from batch means.
fn relative_error(arm: &Arm) -> Option<f64> {
    let points = &arm.load.as_ref()?.measured.timeline;
    let slot_us = points.first()?.length_us.max(1);
    let batch_us = (slot_us * points.len() as u64 / BATCHES).min(LONGEST_BATCH_US);
    let per_batch = usize::try_from(batch_us / slot_us).ok()?.max(1);
    // the last batch may be cut short by the end of the phase
    let batches: Vec<f64> =
        points.chunks_exact(per_batch).map(|batch| batch.iter().map(|point| point.transactions as f64).sum()).collect();
    if batches.len() < FEWEST_BATCHES {
        return None;
    }
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean > 0.0).then(|| (variance / count).sqrt() / mean)
}

fn statement(base: &ArmSummary, compared: &[Comparison]) -> String {
    let rate = base.transactions_per_second.unwrap_or_default();
    let p50 = base.response.map_or_else(String::new, |response| format!(", median {}", time(response.p50_us)));
    let parts: Vec<String> = compared.iter().map(part).collect();
    format!("Against \"{}\" ({rate:.0} transactions/s{p50}): {}.", base.name, parts.join("; "))
}

fn part(one: &Comparison) -> String {
    if !one.shown() {
        let ratio = one.ratio;
        let why = one.margin.map_or_else(
            || match one.driven {
                true => format!("{ratio:.2} times the throughput, without an interval"),
                false => "too short a run to tell".to_owned(),
            },
            |margin| format!("{:+.1} % with an uncertainty of {:.1} %", (one.ratio - 1.0) * 100.0, margin * 100.0),
        );
        return format!("\"{}\" no difference shown ({why})", one.arm);
    }
    let factor = if one.ratio < 0.5 {
        format!("1/{:.1} of the throughput", 1.0 / one.ratio)
    } else {
        format!("{:.2} times the throughput", one.ratio)
    };
    let median = one.p50_ratio.map_or_else(String::new, |ratio| format!(", {ratio:.2} times the median response time"));
    format!("\"{}\" {factor}{median}", one.arm)
}

/// A repeated arm is named `10 ms #2` in its second turn.
fn without_turn(name: &str) -> &str {
    match name.rsplit_once(" #") {
        Some((name, turn)) if turn.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
}

fn doubts(evidence: &Evidence, compared: &[Comparison]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let names: Vec<&str> = evidence.arms.iter().map(|arm| without_turn(&arm.name)).collect();
    let once = names.iter().all(|name| names.iter().filter(|other| other == &name).count() == 1);
    if once {
        let text = "each arm ran once, in one order: what else changed on the host meanwhile is in the difference";
        doubts.push(doubt("compare.once", text, Some("repeat = 3 runs all arms in turn, three times")));
    }
    if compared.iter().any(|one| one.driven) {
        let text = match compared.iter().any(|one| one.driven && one.margin.is_none()) {
            true => {
                "a load by another program told of too few slots of its run: no interval can be given, and its clock is its own"
            }
            false => {
                "a load by another program is counted by that program, and so are the slots that the interval comes from"
            }
        };
        doubts.push(doubt("compare.driver", text, Some("repeat = 3, and look how far its turns are apart")));
    }
    let short = compared.iter().filter(|one| one.margin.is_none() && !one.driven);
    let short: Vec<&str> = short.map(|one| one.arm.as_str()).collect();
    if !short.is_empty() {
        let text =
            format!("the first arm, or {}, ran for too short a time: no interval can be given", short.join(", "));
        doubts.push(doubt("compare.short", text, Some("measure for longer: load.time")));
    }
    doubts
}
