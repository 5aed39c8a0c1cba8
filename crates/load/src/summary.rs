// SPDX-License-Identifier: Apache-2.0
//! A load's result for people: in our own format, and in sysbench's format for scripts that parse sysbench's output.
//!
//! In: a [`LoadResult`]. Out: text without a trailing newline. Nothing is measured here.

mod series;

pub use series::series;

use crate::engine::{LoadSpec, Progress};
use evidence::{Arrivals, Clock, Fairness, Latencies, LatencyHistogram, LoadResult, Phase, Times};
use std::fmt::Write as _;
use std::time::Duration;
use units::counted;

/// Several lines for a terminal. The histogram is of service times, in sysbench's format, which `wringer modes` reads.
pub fn text(result: &LoadResult, percentiles: &[f64], histogram: bool) -> String {
    let mut out = String::new();
    let phase = &result.measured;
    line(&mut out, conditions(result));
    if let Some(warmup) = &result.warmup {
        let (count, length) = (warmup.transactions, seconds(warmup.elapsed_us));
        line(&mut out, format!("warm-up      {count} transactions in {length:.1} s, not counted below"));
    }
    line(&mut out, format!("measured     {:.3} s", seconds(phase.elapsed_us)));
    let per_second = |count: u64| rate(count, phase.elapsed_us);
    line(&mut out, format!("transactions {:<10} {:.1}/s", phase.transactions, per_second(phase.transactions)));
    let kinds = format!("read {}, write {}, other {}", phase.reads, phase.writes, phase.others);
    line(&mut out, format!("queries      {:<10} {:.1}/s ({kinds})", phase.queries(), per_second(phase.queries())));
    if let Some(words) = without_effect(phase) {
        line(&mut out, words);
    }
    line(&mut out, format!("errors       {}", errors(phase)));
    for (code, words) in &phase.error_messages {
        line(&mut out, format!("  {code}: {words}"));
    }
    if phase.unconnected_us > 0 {
        let dead = seconds(phase.unconnected_us);
        line(&mut out, format!("connections  none was alive for {dead:.1} s of this time, which counts in the rates"));
    }
    if result.arrivals != Arrivals::Closed {
        let (late, skipped, backlog) = (phase.late, phase.skipped, phase.backlog_max);
        line(&mut out, format!("open loop    {late} started late, {skipped} not started, {backlog} waiting at most"));
    }
    latencies(&mut out, result, percentiles);
    if let Some(words) = unended(phase) {
        line(&mut out, words);
    }
    let (user, system) = (phase.client_user_us as f64, phase.client_system_us as f64);
    line(
        &mut out,
        match phase.queries() {
            0 => format!("client CPU   {:.3} s user and {:.3} s system", user / 1e6, system / 1e6),
            queries => {
                let queries = queries as f64;
                format!("client CPU   {:.1} us user and {:.1} us system a query", user / queries, system / queries)
            }
        },
    );
    if histogram {
        line(&mut out, "");
        sysbench_histogram(&mut out, &phase.transaction.service);
    }
    out.trim_end().to_owned()
}

/// More than this part of the reads without a row, or of the writes that changed none, is told.
const TOLD_WITHOUT_EFFECT: f64 = 0.1;

/// Statements that find nothing are fast, whatever the server is worth. `None`: there are few of them.
fn without_effect(phase: &Phase) -> Option<String> {
    let (no_row, unchanged) = (phase.reads_without_rows, phase.unchanged_writes);
    let is_told = |count: u64, all: u64| count as f64 > TOLD_WITHOUT_EFFECT * all as f64;
    (is_told(no_row, phase.reads) || is_told(unchanged, phase.writes)).then(|| {
        format!(
            "no effect    {no_row} of {} reads found no row, {unchanged} of {} writes changed none: are the tables filled with as many rows as the load asks for?",
            phase.reads, phase.writes
        )
    })
}

/// What a reader of the response times must know. `None`: every transaction ended.
pub fn unended(phase: &Phase) -> Option<String> {
    let unended = &phase.unended.as_ref()?.response;
    Some(format!(
        "not ended    {} at the end: each counts with the time for which it had waited, {:.3} ms at most; a figure with >= may be higher",
        counted(unended.count(), "transaction"),
        ms(unended.max_ns())
    ))
}

/// The text that sysbench 1.0.20 prints before a run, except the first line, which names the program that runs.
pub fn sysbench_head(spec: &LoadSpec, report_interval: Duration) -> String {
    let mut out = format!("wringer {}, in sysbench 1.0.20's words\n\n", env!("CARGO_PKG_VERSION"));
    line(&mut out, format!("Running the test with following options:\nNumber of threads: {}", spec.connections));
    if let Arrivals::Poisson { per_second } | Arrivals::Constant { per_second } = spec.arrivals {
        line(&mut out, format!("Target transaction rate: {per_second}/sec"));
    }
    if !report_interval.is_zero() {
        line(&mut out, format!("Report intermediate results every {} second(s)", report_interval.as_secs_f64()));
    }
    line(&mut out, format!("Initializing random number generator from seed ({}).\n\n", spec.seed));
    out.push_str("Initializing worker threads...\n");
    out
}

/// The line that sysbench 1.0.20 prints when its connections are open.
pub const SYSBENCH_STARTED: &str = "Threads started!\n";

/// The lines that sysbench 1.0.20 prints at the end of a run; several percentiles make several lines.
///
/// `Latency` is the response time, as sysbench counts it with `--rate`; a transaction that had not ended counts with the time for which it had waited. A standard deviation under `Threads fairness` is `-` if
/// nothing was counted for each connection.
pub fn sysbench(result: &LoadResult, percentiles: &[f64], histogram: bool) -> String {
    let phase = &result.measured;
    let mut out = String::new();
    if histogram {
        sysbench_histogram(&mut out, &phase.transaction.response);
    }
    sysbench_queries(&mut out, phase);
    line(&mut out, "General statistics:");
    let events = phase.transactions;
    line(&mut out, format!("    total time:                          {:.4}s", seconds(phase.elapsed_us)));
    line(&mut out, format!("    total number of events:              {events}\n"));
    sysbench_latency(&mut out, &phase.response_at_least(), percentiles);
    let connections = f64::from(result.connections.max(1));
    let busy = total_ms(&phase.transaction.service) / 1e3;
    line(&mut out, "Threads fairness:");
    let stddev = |of: fn(&Fairness) -> f64| phase.fairness.as_ref().map_or("-".into(), |it| format!("{:.2}", of(it)));
    let (of_events, of_time) = (stddev(|it| it.transactions_stddev), stddev(|it| it.busy_stddev_us / 1e6));
    line(&mut out, format!("    events (avg/stddev):           {:.4}/{of_events}", events as f64 / connections));
    line(&mut out, format!("    execution time (avg/stddev):   {:.4}/{of_time}", busy / connections));
    out
}

/// The line of `--report-interval`, as sysbench prints it.
pub fn progress(progress: &Progress, percentiles: &[f64]) -> String {
    if let Some(up) = progress.connecting {
        return format!(
            "[ {:.0}s ] {up} of {} connections are up",
            progress.elapsed.as_secs_f64(),
            progress.connections
        );
    }
    let interval_us = u64::try_from(progress.interval.as_micros()).unwrap_or(u64::MAX);
    let per_second = |count: u64| rate(count, interval_us);
    let queries = progress.reads + progress.writes + progress.others;
    let wanted: Vec<f64> = percentiles.iter().copied().filter(|percentile| *percentile > 0.0).collect();
    let names = wanted.iter().map(|percentile| format!("{percentile}%")).collect::<Vec<_>>().join(",");
    let values = wanted.iter().map(|percentile| format!("{:.2}", ms(progress.response.percentile_ns(*percentile))));
    let decimals = usize::from(progress.interval < Duration::from_millis(990));
    let mut out = format!(
        "[ {:.decimals$}s ] thds: {} tps: {:.2} qps: {:.2} (r/w/o: {:.2}/{:.2}/{:.2}) lat (ms,{names}): {} err/s: {:.2} reconn/s: {:.2}",
        progress.elapsed.as_secs_f64(),
        progress.connections,
        per_second(progress.transactions),
        per_second(queries),
        per_second(progress.reads),
        per_second(progress.writes),
        per_second(progress.others),
        values.collect::<Vec<_>>().join(","),
        per_second(progress.errors),
        per_second(progress.reconnects),
    );
    if progress.warmup {
        out.push_str(" (warm-up)");
    }
    if progress.backlog > 0 {
        let _ = write!(out, "\n[ {:.decimals$}s ] queue length: {}", progress.elapsed.as_secs_f64(), progress.backlog);
    }
    out
}

/// The buckets of sysbench's `--histogram`: 1024, evenly spaced on a logarithmic scale from 0.001 ms to 100 s; a value falls
/// into the nearest.
pub mod buckets {
    pub const COUNT: usize = 1024;
    pub const LOWEST_MS: f64 = 0.001;
    pub const HIGHEST_MS: f64 = 100_000.0;

    /// Buckets for each factor of e.
    fn density() -> f64 {
        (COUNT - 1) as f64 / (HIGHEST_MS / LOWEST_MS).ln()
    }

    /// The value that is printed for a bucket.
    pub fn value_ms(bucket: usize) -> f64 {
        LOWEST_MS * (bucket as f64 / density()).exp()
    }

    /// The bucket of a value; values outside of the scale fall into the first or last bucket.
    pub fn of(value_ms: f64) -> usize {
        let position = ((value_ms.max(LOWEST_MS) / LOWEST_MS).ln() * density()).round();
        // clamped to 0..1024
        #[allow(clippy::cast_possible_truncation)]
        let bucket = position.clamp(0.0, (COUNT - 1) as f64) as usize;
        bucket
    }
}

const NS_PER_MS: f64 = 1e6;
/// The widest bar of the histogram.
const BAR: u64 = 40;
/// The column in which the figures under `Latency (ms):` end.
const LATENCY_COLUMN: usize = 53;

fn sysbench_queries(out: &mut String, phase: &Phase) {
    line(out, "SQL statistics:\n    queries performed:");
    let unchanged = phase.unchanged_writes;
    for (kind, count) in [
        ("read:", phase.reads),
        ("write:", phase.writes - unchanged),
        ("other:", phase.others + unchanged),
        ("total:", phase.queries()),
    ] {
        line(out, format!("        {kind:<32} {count}"));
    }
    let errors = phase.errors.values().sum();
    for (what, count) in [
        ("transactions:", phase.transactions),
        ("queries:", phase.queries()),
        ("ignored errors:", errors),
        ("reconnects:", phase.reconnects),
    ] {
        line(out, format!("    {what:<36} {count:<6} ({:.2} per sec.)", rate(count, phase.elapsed_us)));
    }
    out.push('\n');
}

fn sysbench_latency(out: &mut String, histogram: &LatencyHistogram, percentiles: &[f64]) {
    line(out, "Latency (ms):");
    let mut figure = |label: String, value: f64| {
        let width = LATENCY_COLUMN.saturating_sub(label.len());
        line(out, format!("{label}{value:>width$.2}"));
    };
    figure("         min:".to_owned(), ms(histogram.min_ns()));
    figure("         avg:".to_owned(), mean_ms(histogram));
    figure("         max:".to_owned(), ms(histogram.max_ns()));
    let wanted: Vec<&f64> = percentiles.iter().filter(|percentile| **percentile > 0.0).collect();
    for percentile in &wanted {
        figure(format!("        {percentile:>3}th percentile:"), ms(histogram.percentile_ns(**percentile)));
    }
    figure("         sum:".to_owned(), total_ms(histogram));
    if wanted.is_empty() {
        let disabled = "         percentile stats:               disabled\n";
        let at = out.rfind("         sum:").unwrap_or(out.len());
        out.insert_str(at, disabled);
    }
    out.push('\n');
}

fn sysbench_histogram(out: &mut String, histogram: &LatencyHistogram) {
    let mut counts = [0u64; buckets::COUNT];
    for bucket in histogram.buckets() {
        let middle = (bucket.low_ns + bucket.high_ns) as f64 / 2.0;
        counts[buckets::of(middle / NS_PER_MS)] += bucket.count;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    line(out, "Latency histogram (values are in milliseconds)");
    line(out, "       value  ------------- distribution ------------- count");
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let stars = "*".repeat(usize::try_from((count * BAR + most / 2) / most).unwrap_or(0));
        line(out, format!("{:>12.3} |{stars:<40} {count}", buckets::value_ms(bucket)));
    }
    line(out, " ");
}

/// `oltp_point_select, mysql, 4 connections on 2 threads, closed loop, keys uniform, seed 1`.
fn conditions(result: &LoadResult) -> String {
    let arrivals = match result.arrivals {
        Arrivals::Closed => "closed loop".to_owned(),
        Arrivals::Constant { per_second } => format!("open loop of {per_second}/s, even"),
        Arrivals::Poisson { per_second } => format!("open loop of {per_second}/s, Poisson"),
        Arrivals::Recorded { times } => format!("the moments of a log, {times} times as fast"),
    };
    let prepared = if result.prepared_statements { "prepared statements" } else { "statements as text" };
    format!(
        "{}, {}, {} on {}, {arrivals}, {prepared}, keys {}, seed {}",
        result.workload,
        result.driver,
        counted(result.connections.into(), "connection"),
        counted(result.workers.into(), "thread"),
        result.distribution,
        result.seed
    )
}

fn errors(phase: &Phase) -> String {
    let mut text = phase.errors.iter().map(|(code, count)| format!("{code}: {count}")).collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        text.push_str("none");
    }
    if phase.reconnects > 0 {
        let _ = write!(text, "; {} reconnects", phase.reconnects);
    }
    text
}

/// Response and service time of transactions, then of each class of statements, all in milliseconds. When both are the same, as in
/// a closed loop, they share a line. The time to connect comes last; no other time includes it.
fn latencies(out: &mut String, result: &LoadResult, percentiles: &[f64]) {
    let phase = &result.measured;
    let wanted: Vec<f64> = percentiles.iter().copied().filter(|percentile| *percentile > 0.0).collect();
    let mut row = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
        line(out, format!("{name:<28}{cells}"));
    };
    let cells = |times: &Times<'_>| {
        if times.is_empty() {
            let nothing = std::iter::repeat_n("-".to_owned(), 3 + wanted.len());
            return std::iter::once("0".to_owned()).chain(nothing).collect();
        }
        let mut cells = vec![times.count().to_string(), times.min().ms_text(), times.mean().ms_text()];
        cells.extend(wanted.iter().map(|percentile| times.percentile(*percentile).ms_text()));
        cells.push(times.max().ms_text());
        cells
    };
    let mut head = vec!["count".to_owned(), "min".to_owned(), "avg".to_owned()];
    head.extend(wanted.iter().map(|percentile| format!("p{percentile}")));
    head.push("max".to_owned());
    row("latency in ms", head);
    let mut both = |name: &str, response: &Times<'_>, service: &Times<'_>, are_same: bool| {
        if are_same {
            return row(&format!("  {name}"), cells(response));
        }
        row(&format!("  {name}, response"), cells(response));
        row(&format!("  {name}, service"), cells(service));
    };
    let are_same = |latencies: &Latencies| latencies.response == latencies.service;
    let is_one_line = are_same(&phase.transaction) && phase.unended.as_ref().is_none_or(are_same);
    both("transaction", &phase.times(Clock::Response), &phase.times(Clock::Service), is_one_line);
    // One class of statements and one statement in each transaction: the figures are the same again.
    if phase.statements.len() > 1 || phase.queries() != phase.transactions {
        for (class, latencies) in &phase.statements {
            let times = |clock| phase.times_of_statement(latencies, clock);
            both(class, &times(Clock::Response), &times(Clock::Service), are_same(latencies));
        }
    }
    if !result.connect.is_empty() {
        row("  connecting, before the load", cells(&Times::known(&result.connect)));
    }
}

fn line(out: &mut String, text: impl AsRef<str>) {
    out.push_str(text.as_ref());
    out.push('\n');
}

fn ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS
}

fn mean_ms(histogram: &LatencyHistogram) -> f64 {
    if histogram.is_empty() { 0.0 } else { histogram.mean_ns() / NS_PER_MS }
}

fn total_ms(histogram: &LatencyHistogram) -> f64 {
    mean_ms(histogram) * histogram.count() as f64
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn rate(count: u64, over_us: u64) -> f64 {
    if over_us == 0 { 0.0 } else { count as f64 * 1e6 / over_us as f64 }
}

#[cfg(test)]
mod tests;
