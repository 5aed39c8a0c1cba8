// SPDX-License-Identifier: Apache-2.0
//! `observe.cost`: what looking on took.

use super::{doubt, percent};
use evidence::{Evidence, Finding, Series};
use serde_json::json;

/// Of one CPU; more would be in the results.
const BUDGET: f64 = 0.01;

pub(super) fn finding(evidence: &Evidence) -> Option<Finding> {
    let series = evidence.samples.iter().find(|series| series.source == "observer" && series.name == "cpu")?;
    let (spent_us, over_us) = grown(series)?;
    let share = spent_us / over_us;
    let costly = doubt(
        "observe.costly",
        format!("more than {} of a CPU: it competed with the server", percent(BUDGET)),
        Some("a longer observe.interval, or observe.process = false, costs less"),
    );
    Some(Finding {
        id: "observe.cost".into(),
        arm: None,
        statement: format!("Observing took {} of one CPU.", percent(share)),
        evidence: json!({ "cpu_us": spent_us, "elapsed_us": over_us, "share_of_one_cpu": share }),
        doubts: if share > BUDGET { vec![costly] } else { Vec::new() },
    })
}

/// Growth of a counter, and the time over which it grew.
fn grown(series: &Series) -> Option<(f64, f64)> {
    let (first, last) = (series.points.first()?, series.points.last()?);
    let over_us = last.at_us.saturating_sub(first.at_us) as f64;
    (over_us > 0.0).then(|| ((last.value - first.value).max(0.0), over_us))
}
