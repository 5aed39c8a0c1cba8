// SPDX-License-Identifier: Apache-2.0
//! pgbench's report. It counts transactions; of their statements it says nothing.

use super::{Understood, number, whole};
use evidence::{Arrivals, Phase};
use std::collections::BTreeMap;

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

/// With `--rate` it prints a lag behind its schedule; the rate asked for it does not print.
fn arrivals(text: &str, tps: f64) -> Arrivals {
    if text.contains("rate limit schedule lag") { Arrivals::Poisson { per_second: tps } } else { Arrivals::Closed }
}

fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| number(line.trim_start().strip_prefix(name)?))
}

/// Adds the transactions of one log to what was understood: each latency, as pgbench measured it.
pub fn add_log(understood: &mut Understood, log: &str) {
    let both = &mut understood.phase.transaction;
    for line in log.lines() {
        if let Some(us) = line.split(' ').nth(2).and_then(|us| us.parse::<u64>().ok()) {
            both.response.record(us.saturating_mul(1000));
            // with a rate its latencies count from when a transaction was due
            if understood.arrivals == Arrivals::Closed {
                both.service.record(us.saturating_mul(1000));
            }
        }
    }
}
