// SPDX-License-Identifier: Apache-2.0
//! A simulation for people: the settings, a line for each load, and a picture of each load if there are few.

use super::Run;
use crate::commands::chart::time;
use simulate::{Load, Range, Settings};
use std::fmt::Write as _;
use units::counted;

/// If there are more loads than this, only the table is shown.
const PICTURES_MAX: usize = 5;
const COLUMNS: usize = 60;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn text(asked: &str, settings: &Settings, keys: &[&str], runs: &[Run]) -> String {
    let row = settings.server;
    let mut out = String::new();
    let algorithm = settings.algorithm.name();
    let _ = writeln!(out, "{asked}, {algorithm}");
    let _ = writeln!(out, "  {} {}, {}: {}\n", row.flavour, row.versions(), row.evidence.words(), row.source);
    out += &table(keys, runs);
    if runs.len() <= PICTURES_MAX {
        for run in runs {
            picture(&mut out, &run.load);
        }
    }
    out.push('\n');
    notes(&mut out, runs);
    out
}

fn table(keys: &[&str], runs: &[Run]) -> String {
    let mut head: Vec<&str> = keys.to_vec();
    head.extend(["load", "queries/s", "longest", "its band", "stalls", "median", "lost", "wait_free", "sleep after"]);
    let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    rows.extend(runs.iter().map(cells));
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn cells(run: &Run) -> Vec<String> {
    let load = &run.load;
    let band = run.band.as_ref().map_or_else(|| "-".to_owned(), |band| range(band.max_us));
    let sleep = load.refiller_sleep_us.map_or_else(|| "nobody refills".to_owned(), |us| time(us as f64));
    let mut cells = run.names.clone();
    cells.extend([
        load.repeat.to_string(),
        format!("{:.0}", load.queries_per_second),
        time(load.max_us),
        band,
        load.stalls.to_string(),
        load.stall_p50_us.map_or_else(|| "-".to_owned(), time),
        time(load.lost_query_us),
        load.wait_free.to_string(),
        sleep,
    ]);
    cells
}

fn range(range: Range) -> String {
    format!("{} to {}", time(range.low), time(range.high))
}

/// One load over time, from left to right: its longest queries, and the refiller's sleep.
fn picture(out: &mut String, load: &Load) {
    let longest: Vec<f64> = load.timeline.iter().map(|part| part.max_us).collect();
    let sleep: Vec<f64> = load.timeline.iter().map(|part| part.refiller_sleep_us.map_or(0.0, |us| us as f64)).collect();
    let _ = writeln!(out, "\nload {}", load.repeat);
    let mut line = |name: &str, values: &[f64]| {
        let most = values.iter().copied().fold(0.0, f64::max);
        if most > 0.0 {
            let _ = writeln!(out, "  {name:<15} |{}| 0 to {}", bars(values, most), time(most));
        }
    };
    line("longest query", &longest);
    line("refiller sleeps", &sleep);
}

/// A line of bars: one bar for each value, or for several neighbouring values if there are too many. Each bar shows the largest of its values.
fn bars(values: &[f64], most: f64) -> String {
    let each = values.len().div_ceil(COLUMNS).max(1);
    let bar = |values: &[f64]| {
        let largest = values.iter().copied().fold(0.0, f64::max);
        #[allow(clippy::cast_possible_truncation)] // at most 8
        let height = (largest / most * 8.0).ceil() as usize;
        BLOCKS[height.min(8)]
    };
    values.chunks(each).map(bar).collect()
}

fn notes(out: &mut String, runs: &[Run]) {
    if let Some(band) = runs.iter().find_map(|run| run.band.as_ref()) {
        let unknown: Vec<&str> = band.unknown.iter().map(|name| what(name)).collect();
        let starts = counted(u64::from(band.starts), "start");
        let _ = writeln!(out, "band: the longest query over {starts}, because nobody knows {}", unknown.join(", nor "));
    }
    let unfinished: u64 = runs.iter().map(|run| run.load.unfinished).sum();
    if unfinished > 0 {
        let queries = if unfinished == 1 { "1 query".to_owned() } else { format!("{unfinished} queries") };
        let _ = writeln!(
            out,
            "{queries} had no page ten seconds after the load: nobody refills in this version while nobody writes (--dirty)"
        );
    }
    out.push_str("stalls: waits of 5 ms and more for a free page; lost: all waits of all clients together; sleep after: the refiller's at the end\n");
}

fn what(unknown: &str) -> &'static str {
    match unknown {
        "wake_offset" => "how far the refiller is in its sleep when the load begins (--wake-offset)",
        "phase" => "how far the second refiller is from the first (--phase)",
        _ => "which of two clocks this version has (--clock)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_no_wider_than_its_columns_and_keeps_what_is_largest() {
        let values: Vec<f64> = (0..120).map(|index| if index == 77 { 8.0 } else { 0.0 }).collect();
        let bars = bars(&values, 8.0);
        assert_eq!(bars.chars().count(), 60);
        assert_eq!(bars.chars().position(|bar| bar == '█'), Some(38));
    }
}
