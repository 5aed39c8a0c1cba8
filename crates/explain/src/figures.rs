// SPDX-License-Identifier: Apache-2.0
//! The figures of one arm on which a verdict is based.

use crate::summary;
use evidence::{Arm, Clock, Evidence, Times};
use verdict::{Figure, THROUGHPUT};

/// The histogram keeps a latency within 0.1 %.
const RESOLUTION: f64 = 0.001;
const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// The names of all figures, without those of humps.
pub const NAMES: [&str; 7] =
    [THROUGHPUT, PERCENTILES[0].0, PERCENTILES[1].0, PERCENTILES[2].0, PERCENTILES[3].0, READS, READS_BY_SERVER];
const READS: &str = "reads a query";
const READS_BY_SERVER: &str = "reads a query by the server";
const PLACE: &str = "place";
const SHARE: &str = "share";

/// Whether some arm may have a figure of this name.
pub fn is_name(name: &str) -> bool {
    let of_hump = |(reads, of): (&str, &str)| reads.parse::<u32>().is_ok() && [PLACE, SHARE].contains(&of);
    NAMES.contains(&name) || name.split_once(" reads: ").is_some_and(of_hump)
}

/// Throughput (`transactions/s`), `p50`, `p95`, `p99`, `p99.9` (response time, `us`), `reads a query` by the humps and by the server's count.
/// For each hump that stands for a whole number of reads: `N reads: place` (its median, `us`) and `N reads: share`. Other humps give no figures,
/// because the second hump of one run need not be the second hump of another. Empty without a load.
pub fn of_arm(evidence: &Evidence, arm: &Arm) -> Vec<Figure> {
    let Some(load) = &arm.load else { return Vec::new() };
    let summary = summary::of(arm, &evidence.conditions, &evidence.measured);
    let throughput = load.measured.transactions_per_second();
    let mut figures: Vec<Figure> =
        throughput.map(|rate| Figure::new(THROUGHPUT, "transactions/s", rate)).into_iter().collect();
    figures.extend(of_times(&load.measured.times(Clock::Response)));
    // two figures: PostgreSQL's count has reads that the page cache served, and the humps have not
    if let Some(reads) = &summary.reads {
        let named = [(READS, reads.by_modes), (READS_BY_SERVER, reads.by_server)];
        figures.extend(named.into_iter().filter_map(|(name, reads)| Some(Figure::new(name, "reads", reads?))));
    }
    for mode in summary.modes.iter().flat_map(|modes| &modes.modes) {
        let Some(reads) = mode.reads.filter(|reads| reads.fract().abs() < 1e-9) else { continue };
        let name = |of: &str| format!("{reads:.0} reads: {of}");
        figures.push(Figure { resolution: RESOLUTION, ..Figure::new(name(PLACE), "us", mode.center_us) });
        figures.push(Figure::new(name(SHARE), "share", mode.share));
    }
    figures
}

/// No verdict is based on a percentile that is only a lower bound.
fn of_times(times: &Times<'_>) -> Vec<Figure> {
    if times.count() == 0 {
        return Vec::new();
    }
    let known = PERCENTILES.map(|(name, percentile)| (name, times.percentile(percentile)));
    let known = known.into_iter().filter(|(_, time)| !time.is_at_least());
    known.map(|(name, time)| Figure { resolution: RESOLUTION, ..Figure::new(name, "us", time.us()) }).collect()
}

/// The arms of a run that have a whole measurement, in the order in which they first ran: the name without the turn, and the figures. An arm with a
/// turn that broke off has no figures.
pub fn by_arm(evidence: &Evidence) -> Vec<(String, Vec<Figure>)> {
    let mut arms: Vec<(&str, Vec<&Arm>)> = Vec::new();
    for arm in &evidence.arms {
        match arms.iter_mut().find(|(cell, _)| *cell == arm.cell) {
            Some((_, turns)) => turns.push(arm),
            None => arms.push((&arm.cell, vec![arm])),
        }
    }
    let is_whole = |turns: &[&Arm]| turns.iter().all(|arm| arm.load.is_some() && arm.broke_off.is_none());
    let whole = arms.into_iter().filter(|(_, turns)| is_whole(turns));
    whole.map(|(cell, turns)| (cell.to_owned(), of_turns(evidence, &turns))).collect()
}

/// The figures of several turns of one arm in one run, which together are one repeat: the mean of each figure that all turns have.
pub(crate) fn of_turns(evidence: &Evidence, turns: &[&Arm]) -> Vec<Figure> {
    let all: Vec<Vec<Figure>> = turns.iter().map(|arm| of_arm(evidence, arm)).collect();
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let mean = |figure: &Figure| {
        let same = |turn: &Vec<Figure>| turn.iter().find(|other| other.name == figure.name).map(|other| other.value);
        let values: Option<Vec<f64>> = others.iter().map(same).collect();
        let sum = figure.value + values?.iter().sum::<f64>();
        Some(Figure { value: sum / all.len() as f64, ..figure.clone() })
    };
    first.iter().filter_map(mean).collect()
}
