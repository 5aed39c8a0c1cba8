// SPDX-License-Identifier: Apache-2.0
//! The memory ledger over time as the outputs show it: groups of leaves for the stacked chart, lines for the panels, rows for the tables.

use crate::series::{Line, Panel};
use crate::{Context, show};
use explain::findings::unit_of_rates;
use explain::{ArmMemory, Course, FindingEvidence, Growth, LeafGrowth};
use ledger::OverTime;
use std::collections::BTreeMap;

/// This many groups have a colour of their own; the smaller groups are one layer together.
const GROUPS: usize = 6;
/// With more times than this, neighbours are joined.
const POINTS: usize = 480;
/// This many leaves of an arm are in a table; all of them are in `result.json`.
const LEAVES: usize = 12;

/// The chart of layers. Every layer is as long as the list of times.
pub(crate) struct Stack {
    /// Seconds since the start of the run.
    pub(crate) t: Vec<f64>,
    /// From the lowest to the highest; `None` where another arm or another start of the server begins.
    pub(crate) layers: Vec<Layer>,
}

pub(crate) struct Layer {
    pub(crate) label: String,
    /// The number of the colour, 0 to 7; the same group may have another colour in another report.
    pub(crate) colour: usize,
    pub(crate) bytes: Vec<Option<f64>>,
}

const REST: (&str, usize) = ("other parts", 6);
const UNEXPLAINED: (&str, usize) = ("unexplained", 7);

/// `None` when no inventory is complete.
pub(crate) fn stack(context: &Context<'_>) -> Option<Stack> {
    let groups = groups(context);
    let names: Vec<&str> = groups.iter().map(String::as_str).collect();
    let mut t = Vec::new();
    let mut columns: Vec<Vec<Option<f64>>> = vec![Vec::new(); names.len() + 2];
    for memory in context.memory {
        for (at, values) in moments(&memory.over_time, &names) {
            t.push(at);
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
    }
    let labels = names.iter().map(|name| words(name)).enumerate().map(|(colour, label)| (label, colour));
    let labels = labels.chain([REST, UNEXPLAINED].map(|(label, colour)| (label.to_owned(), colour)));
    let layers = labels.zip(columns).map(|((label, colour), bytes)| Layer { label, colour, bytes });
    let is_seen = |layer: &Layer| layer.bytes.iter().flatten().any(|bytes| *bytes > 0.0);
    (!t.is_empty()).then(|| Stack { t, layers: layers.filter(is_seen).collect() })
}

/// The part of a path before its first `/`.
fn group(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The groups with the most bytes at any time, largest first.
fn groups(context: &Context<'_>) -> Vec<String> {
    let mut most: BTreeMap<&str, f64> = BTreeMap::new();
    for over in context.memory.iter().map(|memory| &memory.over_time) {
        for at in 0..over.at_us.len() {
            let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
            for leaf in &over.leaves {
                *sums.entry(group(&leaf.path)).or_default() += leaf.resident_bytes[at].unwrap_or(0) as f64;
            }
            for (name, sum) in sums {
                let seen = most.entry(name).or_default();
                *seen = seen.max(sum);
            }
        }
    }
    let mut most: Vec<(&str, f64)> = most.into_iter().collect();
    most.sort_by(|one, other| other.1.total_cmp(&one.1));
    most.into_iter().take(GROUPS).map(|(name, _)| name.to_owned()).collect()
}

/// A row for each time that is drawn, which are not all: the bytes of each group, of the rest, and of the unexplained memory. After the last row of each start of the
/// server there is a row without values, so that the chart has a gap there.
fn moments(over: &OverTime, names: &[&str]) -> Vec<(f64, Vec<Option<f64>>)> {
    let whole: Vec<usize> = (0..over.at_us.len()).filter(|at| over.unexplained_bytes[*at].is_some()).collect();
    let step = whole.len().div_ceil(POINTS).max(1);
    let mut moments = Vec::new();
    for start in whole.chunk_by(|one, other| over.starts[*one] == over.starts[*other]) {
        let joined = |chunk: &[usize]| {
            let all: Vec<Vec<f64>> = chunk.iter().map(|at| layers_at(over, *at, names)).collect();
            let mean = |layer: usize| all.iter().map(|values| values[layer]).sum::<f64>() / all.len() as f64;
            (seconds(over.at_us[chunk[chunk.len() / 2]]), (0..names.len() + 2).map(|layer| Some(mean(layer))).collect())
        };
        moments.extend(start.chunks(step).map(joined));
        if let Some((last, _)) = moments.last() {
            moments.push((*last, vec![None; names.len() + 2]));
        }
    }
    moments
}

fn layers_at(over: &OverTime, at: usize, names: &[&str]) -> Vec<f64> {
    let mut layers = vec![0.0; names.len() + 2];
    for leaf in &over.leaves {
        let layer = names.iter().position(|name| *name == group(&leaf.path)).unwrap_or(names.len());
        layers[layer] += leaf.resident_bytes[at].unwrap_or(0) as f64;
    }
    // this is below zero where figures changed while they were read
    layers[names.len() + 1] = over.unexplained_bytes[at].unwrap_or(0).max(0) as f64;
    layers
}

fn seconds(at_us: u64) -> f64 {
    at_us as f64 / 1e6
}

/// Charts of lines; only the charts that have a value to show.
pub(crate) fn panels(context: &Context<'_>) -> Vec<Panel> {
    let line = |label: &str, of: &dyn Fn(&OverTime, usize) -> Option<u64>| line(context, label, of);
    let panels = [
        Panel {
            id: "memory-process",
            title: "Address space (VSZ) and resident memory (RSS)",
            help: "<p><b>VSZ</b> (VmSize) is the address space that the server has asked for. Memory that it never touched is in it, so it says nothing of how much RAM is in use. \
                 <b>RSS</b> (VmRSS) is what is in RAM; of a server with several processes, what they share counts once for each of them. <b>Counted once</b> is the total of the ledger \
                 above. Address space that is only reserved, in pieces of 1 TiB and more, is left out of VSZ: MariaDB 10.11.19 and later reserve 8 TiB for a buffer pool that may \
                 grow.</p>",
            unit: "bytes",
            lines: vec![
                line("VSZ, without what is only reserved", &|over, at| over.vsz_bytes[at]),
                line("RSS", &|over, at| Some(over.rss_bytes[at])),
                line("counted once", &|over, at| Some(over.kernel_total_bytes[at])),
            ],
        },
        Panel {
            id: "memory-page-tables",
            title: "Page tables",
            help: "<p>What the kernel needs to know where each page of each process is: 8 bytes a page of 4 KiB that a process has touched. Processes that share memory have page tables of \
                 their own for it, so they grow with the number of connections of PostgreSQL. Huge pages make them 512 times smaller.</p>",
            unit: "bytes",
            lines: vec![line("page tables of all processes", &|over, at| Some(over.page_tables_bytes[at]))],
        },
        Panel {
            id: "memory-available",
            title: "Available memory of the host",
            help: "<p>What the kernel thinks can be given out without swapping (MemAvailable). Near zero, the OOM killer comes.</p>",
            unit: "bytes",
            lines: vec![line("available (MemAvailable)", &|over, at| over.host_available_bytes[at])],
        },
        Panel {
            id: "memory-swap",
            title: "Swap",
            help: "<p>What of the server is swapped out (VmSwap of its processes), and how much swap all of the host uses.</p>",
            unit: "bytes",
            lines: vec![
                line("the server's (VmSwap)", &|over, at| over.swap_bytes[at]),
                line("used on the host", &|over, at| over.host_swap_bytes[at]),
            ],
        },
    ];
    let shown = |mut panel: Panel| {
        let is_seen = |line: &Line| line.points.iter().any(|(_, bytes)| bytes.is_some_and(|bytes| bytes > 0.0));
        panel.lines.retain(is_seen);
        (!panel.lines.is_empty()).then_some(panel)
    };
    panels.into_iter().filter_map(shown).collect()
}

fn line(context: &Context<'_>, label: &str, of: &dyn Fn(&OverTime, usize) -> Option<u64>) -> Line {
    let mut points = Vec::new();
    for over in context.memory.iter().map(|memory| &memory.over_time) {
        let times: Vec<usize> = (0..over.at_us.len()).collect();
        let step = times.len().div_ceil(POINTS).max(1);
        let joined = |chunk: &[usize]| {
            let known: Vec<f64> = chunk.iter().filter_map(|at| Some(of(over, *at)? as f64)).collect();
            let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
            (seconds(over.at_us[chunk[chunk.len() / 2]]), mean)
        };
        for start in times.chunk_by(|one, other| over.starts[*one] == over.starts[*other]) {
            points.extend(start.chunks(step).map(joined));
            points.extend(start.last().map(|at| (seconds(over.at_us[*at]), None)));
        }
    }
    Line { label: label.to_owned(), points }
}

/// The largest piece of address space that was only reserved. `None`: there was none.
pub(crate) fn reserved(context: &Context<'_>) -> Option<u64> {
    let all = context.memory.iter().flat_map(|memory| memory.over_time.reserved_bytes.iter().flatten());
    all.copied().max().filter(|bytes| *bytes > 0)
}

/// A line of the table: the course of one part over time.
pub(crate) struct Row {
    pub(crate) arm: String,
    pub(crate) part: String,
    pub(crate) first: String,
    pub(crate) last: String,
    /// `+1.2 MiB an hour (1.1 MiB to 1.3 MiB)`; empty where the rate was not judged.
    pub(crate) rate: String,
    pub(crate) course: &'static str,
}

/// For each arm the total, then the parts that grow, then the parts that changed most.
pub(crate) fn rows(context: &Context<'_>) -> Vec<Row> {
    let found = context.findings.iter().filter_map(|finding| match &finding.evidence {
        FindingEvidence::MemoryGrowth(found) => Some((finding.arm.clone().unwrap_or_default(), found)),
        _ => None,
    });
    let mut rows = Vec::new();
    for (arm, found) in found {
        let mut leaves: Vec<&LeafGrowth> = found.leaves.iter().collect();
        leaves.sort_by(|one, other| {
            let by = |leaf: &LeafGrowth| (leaf.growth.is_some(), (leaf.last_bytes - leaf.first_bytes).abs());
            let ((grows, changed), (other_grows, other_changed)) = (by(one), by(other));
            other_grows.cmp(&grows).then(other_changed.total_cmp(&changed))
        });
        let mut total = row(&arm, &found.total, found.elapsed_us);
        if found.estimate_uncertainty_bytes > 0 {
            total.part += &format!(", give or take {}", show::bytes(found.estimate_uncertainty_bytes as f64));
        }
        rows.push(total);
        rows.extend(leaves.into_iter().take(LEAVES).map(|leaf| row(&arm, leaf, found.elapsed_us)));
    }
    rows
}

fn row(arm: &str, leaf: &LeafGrowth, elapsed_us: u64) -> Row {
    let (part, unit) = unit_of_rates(elapsed_us);
    let signed = |rate: f64| format!("{}{}", if rate > 0.0 { "+" } else { "" }, show::bytes(rate * part));
    let rate = match (leaf.bytes_per_hour, leaf.low_bytes_per_hour, leaf.high_bytes_per_hour) {
        (Some(rate), Some(low), Some(high)) => format!("{} {unit} ({} to {})", signed(rate), signed(low), signed(high)),
        _ => String::new(),
    };
    Row {
        arm: arm.to_owned(),
        part: leaf.path.clone(),
        first: show::bytes(leaf.first_bytes),
        last: show::bytes(leaf.last_bytes),
        rate,
        course: course(leaf),
    }
}

fn course(leaf: &LeafGrowth) -> &'static str {
    match (leaf.course, leaf.growth) {
        (_, Some(Growth::Leak)) => "keeps growing: leak",
        (_, Some(Growth::Unnamed)) => "keeps growing, nobody says what it is",
        (_, Some(Growth::Retention)) => "keeps growing: free in the allocator",
        (_, Some(Growth::Filling)) => "fills up",
        (Course::KeepsGrowing, _) => "keeps growing",
        (Course::Grew, _) => "grew, not all the time",
        (Course::Shrank, _) => "shrank",
        (Course::Steady, _) => "no trend",
        (Course::Unjudged, _) => "",
    }
}

/// For all arms together: the number of inventories that could be read, and the time that they cover.
pub(crate) fn taken(memory: &[ArmMemory]) -> (usize, u64) {
    let count = memory.iter().map(|memory| memory.over_time.at_us.len()).sum();
    let span = |over: &OverTime| Some(over.at_us.last()?.saturating_sub(*over.at_us.first()?));
    (count, memory.iter().filter_map(|memory| span(&memory.over_time)).sum())
}
