// SPDX-License-Identifier: Apache-2.0
//! The findings, each with its evidence and its doubts, one module for each topic; the types of the evidence are in `figures`. `docs/findings.md`
//! says what each id means.

mod article;
mod busy;
mod compare;
mod figures;
mod finding;
mod latency_modes;
mod limits;
mod load;
mod memory;
mod observe;
mod observed;
mod runs;
mod squeeze;
mod stalls;

use crate::memory::ArmMemory;
use crate::stalled::ArmStalls;
use crate::summary::ArmSummary;
use evidence::Evidence;

pub use article::figures_of_article;
pub use figures::{
    ArmModes, ArmsCompare, ArticleFigure, ArticleFigures, BusyArm, ComparedArm, ComparedCell, DifferentCondition,
    HostBusy, LatencyModes, LoadErrors, LoadOverload, MemoryGrowth, ObserveCost, ObserveJoined, ObserveServer,
    RunsCompare, RunsConditions, SqueezeForeignCache, SqueezeGot, StallEvent, StallsAccount, StallsEvents,
};
pub use finding::{Doubt, Finding, FindingEvidence};
pub(crate) use load::{is_in_time, kept_up};
pub use memory::unit_of_rates;
pub(crate) use runs::findings as of_runs;

pub(crate) fn all(
    evidence: &Evidence,
    arms: &[ArmSummary],
    memory: &[ArmMemory],
    stalled: &[ArmStalls],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(compare::finding(evidence));
    findings.extend(limits::findings(evidence, arms));
    findings.extend(latency_modes::finding(arms));
    findings.extend(squeeze::findings(evidence));
    findings.extend(load::findings(evidence, arms));
    findings.extend(busy::finding(evidence, arms));
    findings.extend(observed::joined(evidence));
    findings.extend(observed::findings(evidence));
    findings.extend(stalls::findings(evidence, stalled));
    findings.extend(memory::findings(memory));
    findings.extend(observe::finding(evidence));
    findings.extend(article::finding(evidence, arms));
    findings
}

fn doubt(id: &str, text: impl Into<String>, hint: Option<&str>) -> Doubt {
    Doubt { id: id.to_owned(), text: text.into(), hint: hint.map(str::to_owned) }
}

/// `10.2 ms`, `150 us`.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 10_000.0 => format!("{:.1} ms", us / 1e3),
        us if us >= 1000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 99.95 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}
