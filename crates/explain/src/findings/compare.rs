// SPDX-License-Identifier: Apache-2.0
//! `arms.compare`: each arm against the first, with an interval, and "no difference shown" where that is so.

use super::{Doubt, Finding, FindingEvidence, doubt, percent, time};
use crate::Percentiles;
use crate::summary::ArmSummary;
use evidence::{Arm, Evidence};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmsCompare {
    /// The arm that the others are compared with.
    pub baseline: String,
    pub arms: Vec<ComparedArm>,
}

/// One arm against another; ratios are its own over the other's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedArm {
    pub arm: String,
    pub throughput_ratio: f64,
    /// Half the width of the interval around the ratio; `None`: too short a run.
    pub margin: Option<f64>,
    /// The interval leaves 1 out.
    pub difference_shown: bool,
    pub p50_ratio: Option<f64>,
    pub p99_ratio: Option<f64>,
    /// One sentence for people.
    pub statement: String,
}

/// Slots of the timeline are joined to batches, at least this many: their means are nearly independent.
const BATCHES: u64 = 10;
/// A longer batch gives no better interval.
const LONGEST_BATCH_US: u64 = 1_000_000;
/// Fewer batches give no interval worth the name.
const FEWEST_BATCHES: usize = 5;
/// Two-sided 95 % of Student's t with 4 to 9 degrees of freedom is 2.3 to 2.8; the arms also differ by what the host did meanwhile.
const DEVIATIONS: f64 = 2.8;

/// What is compared: an arm, or all turns of a cell together.
pub(super) struct Side {
    pub(super) name: String,
    /// Transactions a second.
    pub(super) rate: f64,
    /// Standard error of the rate over the rate; `None`: too short a run.
    pub(super) error: Option<f64>,
    pub(super) response: Option<Percentiles>,
    /// Another program's load.
    pub(super) driven: bool,
}

impl Side {
    /// `None` without a throughput.
    fn of(arm: &Arm, summary: &ArmSummary) -> Option<Self> {
        Some(Self {
            name: summary.name.clone(),
            rate: summary.transactions_per_second?,
            error: relative_error(arm),
            response: summary.response,
            driven: arm.driven.is_some(),
        })
    }
}

pub(super) struct Comparison {
    arm: String,
    /// Transactions a second.
    rate: f64,
    ratio: f64,
    /// Half the width of the interval around the ratio; `None`: too short a run.
    margin: Option<f64>,
    p50_ratio: Option<f64>,
    p99_ratio: Option<f64>,
    /// Its own.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// One of the two loads was another program's.
    driven: bool,
}

impl Comparison {
    /// As the evidence of a finding.
    pub(super) fn figures(&self, base: &Side) -> ComparedArm {
        ComparedArm {
            arm: self.arm.clone(),
            throughput_ratio: self.ratio,
            margin: self.margin,
            difference_shown: self.shown(),
            p50_ratio: self.p50_ratio,
            p99_ratio: self.p99_ratio,
            statement: sentence(base, self),
        }
    }

    /// Whether the interval leaves 1 out.
    fn shown(&self) -> bool {
        self.margin.is_some_and(|margin| (self.ratio - 1.0).abs() > margin)
    }
}

pub(super) fn finding(evidence: &Evidence, arms: &[ArmSummary]) -> Option<Finding> {
    let mut loaded = evidence.arms.iter().zip(arms).filter(|(_, summary)| summary.transactions > 0);
    let (arm, summary) = loaded.next()?;
    let base = Side::of(arm, summary)?;
    let others = loaded.filter_map(|(arm, summary)| Side::of(arm, summary));
    let compared: Vec<Comparison> = others.filter_map(|side| compare(&base, &side)).collect();
    if compared.is_empty() {
        return None;
    }
    let arms: Vec<ComparedArm> = compared.iter().map(|one| one.figures(&base)).collect();
    Some(Finding {
        arm: None,
        statement: arms.iter().map(|one| one.statement.as_str()).collect::<Vec<_>>().join(" "),
        evidence: FindingEvidence::ArmsCompare(ArmsCompare { baseline: base.name, arms }),
        doubts: doubts(evidence, &compared),
    })
}

pub(super) fn compare(base: &Side, side: &Side) -> Option<Comparison> {
    let ratio = side.rate / Some(base.rate).filter(|rate| *rate > 0.0)?;
    let relative = base.error.zip(side.error).map(|(a, b)| a.hypot(b));
    let of = |percentile: fn(&Percentiles) -> f64| {
        let (base, own) = (base.response.as_ref()?, side.response.as_ref()?);
        (percentile(base) > 0.0).then(|| percentile(own) / percentile(base))
    };
    let own = |percentile: fn(&Percentiles) -> f64| side.response.as_ref().map(percentile);
    Some(Comparison {
        arm: side.name.clone(),
        rate: side.rate,
        ratio,
        margin: relative.map(|relative| DEVIATIONS * relative * ratio),
        p50_ratio: of(|percentiles| percentiles.p50_us),
        p99_ratio: of(|percentiles| percentiles.p99_us),
        p50_us: own(|percentiles| percentiles.p50_us),
        p99_us: own(|percentiles| percentiles.p99_us),
        driven: base.driven || side.driven,
    })
}

/// Standard error of the throughput over its mean, from batch means.
pub(super) fn relative_error(arm: &Arm) -> Option<f64> {
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

/// One arm against the first, for people.
fn sentence(base: &Side, one: &Comparison) -> String {
    let (arm, first) = (&one.arm, &base.name);
    if !one.shown() {
        return format!("Between \"{arm}\" and \"{first}\" no difference is shown: {}.", unshown(one));
    }
    let took = |how_many: &str, own: Option<f64>, ratio: Option<f64>| match own.filter(|us| *us > 0.0).zip(ratio) {
        Some((us, ratio)) => format!("; {how_many} take up to {}, {}", time(us), as_long(ratio, us)),
        None => String::new(),
    };
    format!(
        "\"{arm}\" does {} transactions a second, {} \"{first}\" ({}){}{}.",
        so_many(one.rate),
        as_many(one.ratio),
        so_many(base.rate),
        took("half of them", one.p50_us, one.p50_ratio),
        took("99 of 100", one.p99_us, one.p99_ratio)
    )
}

fn unshown(one: &Comparison) -> String {
    let more = as_many(one.ratio);
    let more = more.strip_suffix(" than").or(more.strip_suffix(" as")).unwrap_or(&more);
    match one.margin {
        Some(margin) => format!("{more} transactions a second, where chance alone makes up to {}", percent(margin)),
        None if one.driven => format!("{more} transactions a second, and nothing says how much of that is chance"),
        None => "the run was too short to tell".to_owned(),
    }
}

/// Whole from a hundred on: nobody counts a tenth of a thousand.
fn so_many(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// What people say of a ratio of rates.
fn as_many(ratio: f64) -> String {
    match ratio {
        ratio if ratio <= 0.0 => "none, beside those of".to_owned(),
        ratio if ratio < 0.5 => format!("{} times fewer than", factor(1.0 / ratio)),
        ratio if ratio < 0.9995 => format!("{} fewer than", percent(1.0 - ratio)),
        ratio if ratio < 1.0005 => "as many as".to_owned(),
        ratio if ratio < 2.0 => format!("{} more than", percent(ratio - 1.0)),
        ratio => format!("{} times as many as", factor(ratio)),
    }
}

/// The same of times, with the other one in brackets.
fn as_long(ratio: f64, us: f64) -> String {
    let other = time(us / ratio.max(1e-9));
    match ratio {
        ratio if (0.95..=1.05).contains(&ratio) => "the same as there".to_owned(),
        ratio if ratio < 0.5 => format!("{} times less ({other})", factor(1.0 / ratio.max(1e-9))),
        ratio if ratio < 1.0 => format!("{:.0} % less ({other})", (1.0 - ratio) * 100.0),
        ratio if ratio < 2.0 => format!("{:.0} % longer ({other})", (ratio - 1.0) * 100.0),
        ratio => format!("{} times as long ({other})", factor(ratio)),
    }
}

fn factor(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

fn doubts(evidence: &Evidence, compared: &[Comparison]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let cells: Vec<&str> = evidence.arms.iter().map(|arm| arm.cell.as_str()).collect();
    let once = cells.iter().all(|cell| cells.iter().filter(|other| other == &cell).count() == 1);
    if once {
        let text = "each arm ran only once: a part of the difference may be what else happened on this host meanwhile";
        doubts.push(doubt("compare.once", text, Some("repeat = 3 runs all arms in turn, three times")));
    }
    if compared.iter().any(|one| one.driven) {
        let text = match compared.iter().any(|one| one.driven && one.margin.is_none()) {
            true => {
                "the other program printed too few interim figures of its run (too few slots): nothing says how much of the difference is chance"
            }
            false => {
                "the load of an arm is counted by that program itself, and so are the slots by which chance is told from a difference"
            }
        };
        doubts.push(doubt("compare.driver", text, Some("repeat = 3, and look how far its turns are apart")));
    }
    let broken = evidence.arms.iter().filter(|arm| arm.broke_off.is_some() && arm.load.is_some());
    let broken: Vec<&str> = broken.map(|arm| arm.name.as_str()).collect();
    if !broken.is_empty() {
        let text = format!("{} broke off: the comparison is with what it did until then", broken.join(", "));
        doubts.push(doubt("compare.broke_off", text, Some("run again what broke off, before the arms are compared")));
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
