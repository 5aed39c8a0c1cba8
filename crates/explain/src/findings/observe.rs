// SPDX-License-Identifier: Apache-2.0
//! `observe.cost`: the CPU time of the observers.

use super::figures::ObserveCost;
use super::{Finding, FindingEvidence, doubt, percent};
use evidence::{Arm, Evidence, Series};

/// The share of one CPU that observers may take; a larger share would change the results.
const BUDGET: f64 = 0.01;

pub(super) fn finding(evidence: &Evidence) -> Option<Finding> {
    let observers = evidence.samples.iter().filter(|series| series.source == "observer" && series.name == "cpu");
    let observers: Vec<&Series> = observers.collect();
    let spent_us: f64 = observers.iter().map(|series| grown(series)).sum();
    let over_us = span_us(&observers)?;
    let share = spent_us / over_us;
    let costly = doubt(
        "observe.costly",
        format!("more than {} of a CPU: it competed with the server", percent(BUDGET)),
        Some(remedy(evidence)),
    );
    Some(Finding {
        arm: None,
        statement: format!("Observing took {} of one CPU.", percent(share)),
        evidence: FindingEvidence::ObserveCost(ObserveCost {
            cpu_us: spent_us,
            elapsed_us: over_us,
            share_of_one_cpu: share,
        }),
        doubts: if share > BUDGET { vec![costly] } else { Vec::new() },
    })
}

/// An observed server has no experiment file: its observer is told by flags.
fn remedy(evidence: &Evidence) -> &'static str {
    if evidence.arms.iter().any(Arm::is_observed) {
        "a longer time between the readings costs less: a longer `--interval`; `wringer observe` has `--memory-interval` for inventories"
    } else {
        "a longer observe.interval, or observe.process = false, costs less"
    }
}

/// The growth of a counter that starts again at 0 with each start of its observer.
fn grown(series: &Series) -> f64 {
    let before = std::iter::once(0.0).chain(series.points.iter().map(|point| point.value));
    let steps = before.zip(&series.points).map(|(before, point)| (before, point.value));
    steps.map(|(before, now)| if now >= before { now - before } else { now }).sum()
}

/// The time from the first reading of any observer to the last reading of any.
fn span_us(observers: &[&Series]) -> Option<f64> {
    let first = observers.iter().filter_map(|series| series.points.first()).map(|point| point.at_us).min()?;
    let last = observers.iter().filter_map(|series| series.points.last()).map(|point| point.at_us).max()?;
    (last > first).then(|| (last - first) as f64)
}
