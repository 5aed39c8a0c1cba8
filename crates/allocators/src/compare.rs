// SPDX-License-Identifier: Apache-2.0
//! Each malloc beside the first one, under the same CPUs and transparent huge pages.

use crate::cell::{Cell, Load};
use serde::{Deserialize, Serialize};
use verdict::{Compared, Figure, Repeat, judge};

/// One figure of two mallocs. All figures of a pair share one probability of error: where two mallocs are equal, 19 of 20 tables show no verdict for any figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub malloc: String,
    /// The malloc with which it is compared.
    pub base: String,
    pub thp: Option<String>,
    pub cpus: Option<String>,
    /// `oltp_read_only x8: throughput`; `idle rss`, `peak rss`, `retained`.
    pub figure: String,
    #[serde(flatten)]
    pub compared: Compared,
}

pub const IDLE_RSS: &str = "idle rss";
pub(crate) const PEAK_RSS: &str = "peak rss";
const RETAINED: &str = "retained";
/// Latencies are recorded to within 0.1 % of their value.
const RESOLUTION: f64 = 0.001;

/// Cells that did not run to their end, or ran without something that was asked for, are in no comparison.
pub fn comparisons(cells: &[Cell], base: &str) -> Vec<Comparison> {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.counts()).collect();
    let mut groups: Vec<(&str, &Option<String>, &Option<String>)> = Vec::new();
    for cell in &cells {
        let group = (cell.malloc.as_str(), &cell.thp, &cell.cpus);
        if cell.malloc != base && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.into_iter().flat_map(|group| of_group(&cells, base, group)).collect()
}

fn of_group(
    cells: &[&Cell],
    base: &str,
    (malloc, thp, cpus): (&str, &Option<String>, &Option<String>),
) -> Vec<Comparison> {
    let repeats = |name: &str| -> Vec<Repeat> {
        let own = cells.iter().filter(|cell| cell.malloc == name && cell.thp == *thp && cell.cpus == *cpus);
        own.map(|cell| Repeat { block: Some(cell.block), figures: figures(cell) }).collect()
    };
    let judged = judge(&repeats(base), &repeats(malloc));
    let told = |compared: Compared| Comparison {
        malloc: malloc.to_owned(),
        base: base.to_owned(),
        thp: thp.clone(),
        cpus: cpus.clone(),
        figure: compared.name.clone(),
        compared,
    };
    judged.figures.into_iter().map(told).collect()
}

fn figures(cell: &Cell) -> Vec<Figure> {
    let mut figures: Vec<Figure> = cell.loads.iter().flat_map(of_load).collect();
    // between two marks the server may have had more, as the kernel tells of a single process
    let rss = |it: &crate::Marked| it.footprint.peak_rss_bytes.max(it.footprint.rss_bytes).map(|bytes| bytes as f64);
    let peak = cell.footprint.iter().filter_map(rss).reduce(f64::max);
    figures.extend(idle_rss(cell).map(|bytes| Figure::new(IDLE_RSS, "bytes", bytes)));
    figures.extend(peak.map(|bytes| Figure::new(PEAK_RSS, "bytes", bytes)));
    figures.extend(cell.retained_bytes.map(|bytes| Figure::new(RETAINED, "bytes", bytes as f64)));
    figures
}

/// RSS at the end of the rest.
pub(crate) fn idle_rss(cell: &Cell) -> Option<f64> {
    let marks = cell.footprint.iter().filter(|it| it.footprint.mark == "idle");
    marks.filter_map(|it| it.footprint.rss_bytes).next_back().map(|bytes| bytes as f64)
}

fn of_load(load: &Load) -> Vec<Figure> {
    let name = |of: &str| format!("{}: {of}", load.arm);
    let cpu = load.cpu_user_us_per_query.zip(load.cpu_system_us_per_query).map(|(user, system)| user + system);
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(load.transactions_per_s.map(|rate| Figure::new(name("throughput"), "transactions/s", rate)));
    let latency = |of: &str, us: f64| Figure { resolution: RESOLUTION, ..Figure::new(name(of), "us", us) };
    // a lower bound is no figure
    figures.extend((!load.p99_is_at_least).then(|| latency("p99", load.p99_us)));
    figures.extend(cpu.map(|us| Figure::new(name("cpu a query"), "us", us)));
    figures
}
