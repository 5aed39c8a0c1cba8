// SPDX-License-Identifier: Apache-2.0
//! Each counter: its value, its meaning in this version, and whether it can be trusted.

use crate::advised::{Counted, Missing};
use crate::reading::Reading;
use capability::{Algorithm, Bug, Flavour, FreeList, Version, bugs, setting};

pub(crate) fn counters(
    reading: &Reading,
    row: &'static FreeList,
    version: &Version,
    algorithm: Algorithm,
    missing: &mut Vec<Missing>,
) -> Vec<Counted> {
    let known: Vec<&'static Bug> = bugs(row.flavour, version).collect();
    let mut off = Vec::new();
    let counters = row.counters.iter().map(|counter| {
        let means = match algorithm {
            Algorithm::Backoff => counter.backoff,
            Algorithm::Legacy => counter.legacy,
        };
        let is_gauge = counter.name == FREE;
        let value_now = reading.last(counter.name).filter(|_| is_gauge);
        let value_per_second = reading.rate(counter.name).filter(|_| !is_gauge);
        let bugs: Vec<&'static Bug> =
            known.iter().copied().filter(|bug| bug.counters.contains(&counter.name)).collect();
        let trust = match (value_now.or(value_per_second), bugs.is_empty()) {
            (None, _) => "missing",
            (Some(_), true) => "good",
            (Some(_), false) => "doubtful",
        };
        if trust == "missing" {
            off.push(counter.name);
        }
        Counted {
            name: counter.name,
            value_per_second,
            value_now,
            means: means.to_owned(),
            trust,
            bugs,
            source: row.source,
        }
    });
    let counters = counters.collect();
    missing.extend(absent(&off, row.flavour, version));
    counters
}

const FREE: &str = "Innodb_buffer_pool_pages_free";

/// Counters that are missing. Metrics can be turned on together with one statement; a status counter of the version is always there.
fn absent(off: &[&'static str], flavour: Flavour, version: &Version) -> Vec<Missing> {
    let (metrics, status): (Vec<&str>, Vec<&str>) = off.iter().copied().partition(|name| name.starts_with("buffer_"));
    let mut missing: Vec<Missing> = status
        .into_iter()
        .map(|name| Missing {
            what: format!("{name}, in both readings"),
            statement: Some(format!("SHOW GLOBAL STATUS LIKE '{name}'")),
        })
        .collect();
    if !metrics.is_empty() {
        let can_be_set = setting("innodb_monitor_enable", flavour, version).is_some();
        missing.push(Missing {
            what: format!("{}: metrics that are off, or were not in both readings", metrics.join(", ")),
            statement: can_be_set.then(|| "SET GLOBAL innodb_monitor_enable = 'buffer_LRU%';".to_owned()),
        });
    }
    missing
}
