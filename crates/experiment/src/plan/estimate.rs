// SPDX-License-Identifier: Apache-2.0
//! Rough figures for the decision whether to start: within a factor of two on an ordinary machine.

use super::HostFacts;
use crate::model::{Arm, Experiment, FillSize, Flavour, Load, Preheat, RowShape};
use evidence::Arrivals;
use units::{Bytes, Span};

/// Rows are inserted through SQL, over several connections at once; 30 to 60 MiB/s were seen on two cores.
const FILL_BYTES_PER_SECOND: f64 = 25.0 * 1024.0 * 1024.0;
/// Point selects over one connection, without delay, some of them with a read: 3,000 to 15,000 were seen.
const TRANSACTIONS_PER_SECOND: f64 = 4000.0;
/// Download and unpacking of a package.
const FETCH_SECONDS: f64 = 60.0;
/// A server when it is unpacked, with its libraries.
pub(super) const PACKAGE: Bytes = Bytes(400 * Bytes::MIB);
/// An empty data directory: system tables, redo log or WAL.
const EMPTY_DATA_BYTES: u64 = 350 * Bytes::MIB;
/// A server without its page cache, and the driver.
const SERVER_BYTES: u64 = 350 * Bytes::MIB;
/// The server's buffers for one connection.
const CONNECTION_BYTES: u64 = Bytes::MIB;

/// The size of all tables together.
pub(super) fn fill_bytes(experiment: &Experiment) -> Bytes {
    let pool = experiment
        .arms
        .first()
        .map_or(Bytes(experiment.server.flavour.pool_default_bytes()), |arm| experiment.pool(arm));
    match experiment.fill.size {
        None => Bytes(0),
        Some(FillSize::Size(size)) => size,
        Some(FillSize::TimesPool(factor)) => times(pool.0, factor),
        Some(FillSize::Rows(rows)) => {
            let each = row_bytes(experiment);
            Bytes(rows.saturating_mul(each).saturating_mul(u64::from(experiment.fill.tables)))
        }
    }
}

/// The bytes of a row's entries in none, one, two and three secondary indexes: on a number, on a text of 60 and on one of 120 characters.
const INDEXES_BYTES: [u64; 4] = [0, 16, 100, 250];

/// The bytes of a row on the page, with its share of the page's free space.
fn row_bytes(experiment: &Experiment) -> u64 {
    let page = match experiment.server.flavour {
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => 16 << 10,
        Flavour::Postgresql => 8 << 10,
    };
    let row = match experiment.fill.rows {
        RowShape::Sysbench => 230,
        RowShape::PerPage(rows) => page / u64::from(rows.max(1)),
        RowShape::Width(width) => width.0 * 11 / 10,
    };
    row + INDEXES_BYTES.get(experiment.fill.secondary_indexes as usize).copied().unwrap_or_default()
}

pub(super) fn rows(experiment: &Experiment) -> u64 {
    match experiment.fill.size {
        Some(FillSize::Rows(rows)) => rows * u64::from(experiment.fill.tables),
        _ => fill_bytes(experiment).0 / row_bytes(experiment).max(1),
    }
}

pub(super) fn fill_seconds(experiment: &Experiment) -> f64 {
    1.0 + fill_bytes(experiment).0 as f64 / FILL_BYTES_PER_SECOND
}

pub(super) fn pgbench_seconds(scale: u32) -> f64 {
    pgbench_bytes(Some(scale)) as f64 / FILL_BYTES_PER_SECOND
}

/// A table of 100,000 accounts has 15 MiB, with its index.
fn pgbench_bytes(scale: Option<u32>) -> u64 {
    u64::from(scale.unwrap_or_default()) * 15 * Bytes::MIB
}

/// Four series of reads, at half a millisecond for each read, and two scans at 100 MiB a second.
pub(super) fn probe_seconds(experiment: &Experiment, reads: u64) -> f64 {
    let scans = 2.0 * fill_bytes(experiment).0 as f64 / f64::from(experiment.fill.tables.max(1));
    4.0 * reads as f64 * 0.0005 + scans / (100.0 * 1024.0 * 1024.0)
}

pub(super) fn fetch_seconds(host: &HostFacts) -> f64 {
    if host.server_binary.is_some() { 0.0 } else { FETCH_SECONDS }
}

/// The number of rows of the table that pgbench's scripts read.
fn accounts(experiment: &Experiment) -> u64 {
    u64::from(experiment.fill.pgbench.unwrap_or_default()) * 100_000
}

pub(super) fn preheat_seconds(experiment: &Experiment, load: &Load) -> f64 {
    let transactions = match load.preheat {
        None => return 0.0,
        Some(Preheat::Time(span)) => return seconds(span),
        Some(Preheat::Transactions(count)) => count as f64,
        Some(Preheat::TimesRows(factor)) if load.is_pgbench() => factor * accounts(experiment) as f64,
        Some(Preheat::TimesRows(factor)) => factor * rows(experiment) as f64,
    };
    transactions / TRANSACTIONS_PER_SECOND
}

/// The length of the measured phase: its time, or its events at the given rate or at the rate that the delay allows, whichever ends first.
pub(super) fn measured_seconds(arm: &Arm) -> f64 {
    let by_events = arm.load.events.map(|events| {
        let rate = match arm.load.arrivals {
            Arrivals::Closed | Arrivals::Recorded { .. } => {
                let read = arm.squeeze.disk.as_ref().map_or(0.0, |disk| disk.read_median_us() / 1e6);
                f64::from(arm.load.threads) / (read / 2.0 + f64::from(arm.load.threads) / TRANSACTIONS_PER_SECOND)
            }
            Arrivals::Constant { per_second } | Arrivals::Poisson { per_second } => per_second,
        };
        events as f64 / rate
    });
    let by_time = arm.load.time.map(seconds);
    match (by_time, by_events) {
        (Some(time), Some(events)) => time.min(events),
        (time, events) => time.or(events).unwrap_or_default(),
    }
}

pub(super) fn disk(experiment: &Experiment, host: &HostFacts) -> Bytes {
    let package = if host.server_binary.is_some() { 0 } else { PACKAGE.0 };
    let filled = fill_bytes(experiment).0 + pgbench_bytes(experiment.fill.pgbench);
    Bytes(times(filled, 1.3).0 + EMPTY_DATA_BYTES + package)
}

/// The largest RAM that any arm needs.
pub(super) fn ram(experiment: &Experiment) -> Bytes {
    let needs = |arm: &Arm| experiment.pool(arm).0 + SERVER_BYTES + u64::from(arm.load.threads) * CONNECTION_BYTES;
    Bytes(experiment.arms.iter().map(needs).max().unwrap_or_default())
}

pub(super) fn seconds(span: Span) -> f64 {
    span.0.as_secs_f64()
}

fn times(bytes: u64, factor: f64) -> Bytes {
    #[allow(clippy::cast_possible_truncation)] // the value saturates, and is only an estimate
    Bytes((bytes as f64 * factor) as u64)
}
