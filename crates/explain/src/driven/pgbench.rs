// SPDX-License-Identifier: Apache-2.0
//! pgbench's report. It counts transactions, and has no figures of their statements.

use super::{Understood, number, slots, whole};
use evidence::{Arrivals, Phase};
use std::collections::BTreeMap;

/// A larger number than any count of clients, and a smaller number than the seconds since 1970.
const CLIENTS_MAX: u64 = 100_000_000;

pub(super) fn read(text: &str) -> Option<Understood> {
    let transactions = value(text, "number of transactions actually processed:")?;
    let tps = value(text, "tps =")?;
    let mut phase = Phase { transactions: whole(transactions), ..Phase::default() };
    if tps > 0.0 {
        phase.elapsed_us = whole(transactions / tps * 1e6);
    }
    if let Some(failed) = value(text, "number of failed transactions:").filter(|count| *count > 0.0) {
        phase.errors.insert("failed transactions of pgbench".into(), whole(failed));
    }
    let mut figures = BTreeMap::from([("transactions_per_second".to_owned(), tps)]);
    for (key, name) in [
        ("latency_avg_us", "latency average ="),
        ("latency_stddev_us", "latency stddev ="),
        ("initial_connection_time_us", "initial connection time ="),
    ] {
        figures.extend(value(text, name).map(|ms| (key.to_owned(), ms * 1e3)));
    }
    figures.extend(value(text, "scaling factor:").map(|scale| ("scaling_factor".to_owned(), scale)));
    let count = |name: &str| value(text, name).and_then(|count| u32::try_from(whole(count)).ok());
    Some(Understood {
        program: program(text),
        connections: count("number of clients:"),
        workers: count("number of threads:"),
        arrivals: arrivals(text, tps),
        phase,
        figures,
    })
}

/// `pgbench (15.14 (Debian 15.14-0+deb12u1))`, on its first line.
fn program(text: &str) -> String {
    let version = text.lines().rev().find_map(|line| line.strip_prefix("pgbench ("));
    let version = version.map(|rest| rest.split([' ', ')', ',']).next().unwrap_or_default());
    version.map_or_else(|| "pgbench".to_owned(), |version| format!("pgbench {version}"))
}

/// With `--rate` pgbench prints a lag behind its schedule; it does not print the rate that was asked for.
fn arrivals(text: &str, tps: f64) -> Arrivals {
    if text.contains("rate limit schedule lag") { Arrivals::Poisson { per_second: tps } } else { Arrivals::Closed }
}

fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| number(line.trim_start().strip_prefix(name)?))
}

/// Adds the slots of `--progress`, which pgbench prints on its standard error, unless a log has given finer slots.
pub fn add_progress(understood: &mut Understood, text: &str) {
    if understood.phase.timeline.is_empty() {
        understood.phase.timeline = slots::of_pgbench(text);
    }
}

/// Adds the transactions of pgbench's logs (`--log`), one log for each thread. The third column is a transaction's latency, and the log has the time
/// of its end. A log of sums (`--aggregate-interval`) has no single transactions, and a log of samples (`--sampling-rate`) gives no timeline.
pub fn add_logs(understood: &mut Understood, logs: &[String]) {
    let transactions: Vec<(u64, u64)> = logs.iter().flat_map(|log| log.lines()).filter_map(transaction).collect();
    let both = &mut understood.phase.transaction;
    for (_, us) in &transactions {
        both.response.record(us.saturating_mul(1000));
        // with a rate, pgbench's latencies begin at the time when a transaction was due
        if understood.arrivals == Arrivals::Closed {
            both.service.record(us.saturating_mul(1000));
        }
    }
    // when a run is ended by its time, its log may have a few transactions more or fewer than its count
    let logged = transactions.len() as u64;
    if logged + logged / 20 >= understood.phase.transactions {
        understood.phase.timeline = slots::of_transactions(&transactions);
    }
}

/// The end of a transaction, in microseconds since 1970, and its latency: `0 199 2241 0 1175850568 995598`.
fn transaction(line: &str) -> Option<(u64, u64)> {
    let mut columns = line.split(' ');
    let client: u64 = columns.next()?.parse().ok()?;
    let took: u64 = columns.nth(1)?.parse().ok()?;
    let (seconds, micros): (u64, u64) = (columns.nth(1)?.parse().ok()?, columns.next()?.parse().ok()?);
    // a line whose first column is a time is a sum
    (client < CLIENTS_MAX && micros < 1_000_000).then(|| (seconds * 1_000_000 + micros, took))
}
