// SPDX-License-Identifier: Apache-2.0
//! One figure of an explained recording, by the name that an assertion of an experiment has for it.

use crate::{Explained, FindingEvidence};
use evidence::Evidence;

/// The figure of one arm: `memory.explained`, `stalls.count`, or what was measured beside the arm (`probe.scan.warm`). Times are in microseconds.
/// `None`: the recording does not have it.
pub fn figure_of_arm(evidence: &Evidence, explained: &Explained, arm: &str, name: &str) -> Option<f64> {
    match name.split_once('.') {
        Some(("memory", figure)) => memory(evidence, explained, arm, figure),
        Some(("stalls", figure)) => stalls(explained, arm, figure),
        _ => {
            let is_it = |it: &&evidence::Measured| it.what == name && it.arm.as_deref() == Some(arm);
            Some(evidence.measured.iter().find(is_it)?.got?.value)
        }
    }
}

/// A figure of the finding `article.figures`, by its name: it is of the whole run.
pub fn figure_of_article(explained: &Explained, name: &str) -> Option<f64> {
    let figures = explained.findings.iter().find_map(|finding| match &finding.evidence {
        FindingEvidence::ArticleFigures(told) => Some(&told.figures),
        _ => None,
    })?;
    figures.iter().find(|figure| figure.name == name)?.ours
}

/// From the last inventory of the arm's load: those of the rest after it do not count.
fn memory(evidence: &Evidence, explained: &Explained, arm: &str, figure: &str) -> Option<f64> {
    let seen = evidence.arms.iter().find(|it| it.name == arm)?;
    let loaded = seen.load.as_ref().map(|load| load.measured.started_us.saturating_add(load.measured.elapsed_us));
    let until = loaded.unwrap_or_else(|| evidence.end_of(seen));
    let of = &explained.memory.iter().find(|memory| memory.arm.as_deref() == Some(arm))?.over_time;
    let last = of.at_us.iter().rposition(|at_us| *at_us <= until)?;
    let total = *of.kernel_total_bytes.get(last)? as f64;
    let unexplained = || Some(of.unexplained_bytes.get(last).copied()??.unsigned_abs() as f64);
    match figure {
        "total" => Some(total),
        "unexplained" => unexplained(),
        "explained" => Some((1.0 - unexplained()? / total.max(1.0)).max(0.0)),
        "rss" => of.rss_bytes.get(last).map(|bytes| *bytes as f64),
        "page_tables" => of.page_tables_bytes.get(last).map(|bytes| *bytes as f64),
        "vsz" => of.vsz_bytes.get(last).copied()?.map(|bytes| bytes as f64),
        _ => None,
    }
}

/// Where no time was lost, there is no account of it, and its figures are 0.
fn stalls(explained: &Explained, arm: &str, figure: &str) -> Option<f64> {
    let of_arm = || explained.findings.iter().filter(|finding| finding.arm.as_deref() == Some(arm));
    let events = of_arm().find_map(|finding| match &finding.evidence {
        FindingEvidence::StallsEvents(events) => Some(events),
        _ => None,
    })?;
    let account = of_arm().find_map(|finding| match &finding.evidence {
        FindingEvidence::StallsAccount(account) => Some(account),
        _ => None,
    });
    match figure {
        "count" => Some(events.stalls as f64),
        "victims" => Some(events.victims as f64),
        "longest" => Some(events.longest_us as f64),
        "lost" => Some(account.map_or(0.0, |account| account.lost_query_us as f64)),
        "unexplained" => Some(account.map_or(0.0, |account| account.unexplained_query_us as f64)),
        "share" => account.map_or(Some(0.0), |account| account.share),
        _ => None,
    }
}
