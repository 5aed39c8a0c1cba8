// SPDX-License-Identifier: Apache-2.0
//! Translates the words of the experiment file into the types of the other crates.

use crate::error::Error;
use crate::workload_from_file::WorkloadFromFile;
use evidence::Arrivals;
use experiment::{Fill, FillSize, Load, Preheat, RowShape};
use load::engine::{Kept, LoadSpec};
use load::fill::{FillSpec, Shape, Size};
use std::sync::Arc;
use std::time::Duration;
use workload::{Name, Tables};

/// Connections that fill at the same time: on two CPUs more than four only wait for the server.
const FILL_THREADS: u32 = 4;

/// # Errors
/// The numbers of the distribution are not valid; the experiment's own checks find that before.
pub fn fill_spec(fill: &Fill, size: FillSize, seed: u64) -> Result<FillSpec, Error> {
    let keys = fill.k_distribution.check()?;
    Ok(FillSpec {
        tables: fill.tables,
        size: match size {
            FillSize::Rows(rows) => Size::Rows(rows),
            FillSize::Size(bytes) => Size::Bytes(bytes.0),
            FillSize::TimesPool(times) => Size::TimesPool(times),
        },
        shape: match fill.rows {
            RowShape::Sysbench => Shape::Sysbench,
            RowShape::PerPage(rows) => Shape::RowsPerPage(rows),
            RowShape::Width(bytes) => Shape::RowBytes(bytes.0),
        },
        secondary: fill.secondary_indexes > 0,
        text_indexes: fill.secondary_indexes.saturating_sub(1),
        keys,
        threads: FILL_THREADS,
        seed,
        ..FillSpec::default()
    })
}

/// The measured load of an arm; `written` is its file, where its workload is one.
///
/// # Errors
/// The options are not valid; the experiment's own checks find that before.
pub fn load_spec(
    fill: &Fill,
    load: &Load,
    written: Option<&WorkloadFromFile>,
    protocol: load::Protocol,
    rows_per_table: u64,
) -> Result<LoadSpec, Error> {
    let (built, distribution) = match written {
        Some(written) => (written.build(protocol, rows_per_table)?, written.file.describe()),
        None => {
            let distribution = load.distribution.check()?;
            let name: Name = load.workload.parse()?;
            let tables = Tables {
                tables: fill.tables,
                table_size: rows_per_table,
                scale: fill.pgbench.unwrap_or(1),
                connections: load.threads,
            };
            let built = workload::build(name, protocol, &tables, &load.options, &distribution)?;
            (built, distribution.to_string())
        }
    };
    Ok(LoadSpec {
        distribution,
        connections: load.threads,
        arrivals: load.arrivals,
        seed: load.seed,
        warmup: load.warmup.0,
        time: load.time.map(|span| span.0),
        events: load.events,
        prepared: load.prepared,
        counted: true,
        slow: load.slow_statements.map(|span| span.0),
        stay: load.stay.then(Kept::default),
        ..LoadSpec::new(load.workload.clone(), Arc::from(built))
    })
}

/// The same workload at full speed, in a closed loop, to fill the server's own page cache.
///
/// # Errors
/// As [`load_spec`].
pub(crate) fn preheat_spec(
    fill: &Fill,
    load: &Load,
    written: Option<&WorkloadFromFile>,
    protocol: load::Protocol,
    rows_per_table: u64,
) -> Result<Option<LoadSpec>, Error> {
    let Some(preheat) = load.preheat else { return Ok(None) };
    let rows = match fill.pgbench {
        Some(scale) if load.is_pgbench() => f64::from(scale) * workload::ACCOUNTS as f64,
        _ => rows_per_table as f64 * f64::from(fill.tables),
    };
    #[allow(clippy::cast_possible_truncation)] // rows fit, and are not negative
    let (time, events) = match preheat {
        Preheat::Time(span) => (Some(span.0), None),
        Preheat::Transactions(count) => (None, Some(count)),
        Preheat::TimesRows(times) => (None, Some((rows * times).ceil().max(1.0) as u64)),
    };
    let spec = load_spec(fill, load, written, protocol, rows_per_table)?;
    // another seed than that of the measured phase: otherwise exactly the pages of that phase would be in the cache
    let seed = load.seed ^ 0x5eed_0000_0000_0000;
    Ok(Some(LoadSpec { arrivals: Arrivals::Closed, warmup: Duration::ZERO, seed, time, events, ..spec }))
}
