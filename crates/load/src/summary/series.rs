// SPDX-License-Identifier: Apache-2.0
//! Several loads that differ in their connections, as one table: the points of a curve.

use super::rate;
use evidence::{Clock, LoadResult, Times};

/// One line for each load. Latencies are response times of transactions in milliseconds.
pub fn series(results: &[&LoadResult], percentiles: &[f64]) -> String {
    let wanted: Vec<f64> = percentiles.iter().copied().filter(|percentile| *percentile > 0.0).collect();
    let mut head: Vec<String> =
        ["connections", "transactions/s", "queries/s", "errors", "avg ms"].map(str::to_owned).into();
    head.extend(wanted.iter().map(|percentile| format!("p{percentile} ms")));
    head.extend(["max ms", "connecting ms"].map(str::to_owned));
    let rows = results.iter().map(|result| row(result, &wanted));
    let table: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
    let widths: Vec<usize> =
        (0..table[0].len()).map(|column| table.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect::<Vec<_>>().join("  ")
    };
    table.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn row(result: &LoadResult, percentiles: &[f64]) -> Vec<String> {
    let phase = &result.measured;
    let response = phase.times(Clock::Response);
    let per_second = |count: u64| format!("{:.1}", rate(count, phase.elapsed_us));
    let mut cells = vec![
        result.connections.to_string(),
        per_second(phase.transactions),
        per_second(phase.queries()),
        phase.errors.values().sum::<u64>().to_string(),
        response.mean().ms_text(),
    ];
    cells.extend(percentiles.iter().map(|percentile| response.percentile(*percentile).ms_text()));
    cells.extend([response.max().ms_text(), Times::known(&result.connect).mean().ms_text()]);
    cells
}
