// SPDX-License-Identifier: Apache-2.0
//! Builds a [`Workload`] from its name, its tables and its options.

use crate::distribution::Distribution;
use crate::{Error, Name, Options, SETTINGS, Slot, Tables, Workload, pgbench, sysbench};
use capability::Protocol;

/// Builds a workload; its settings do not change after that.
///
/// # Errors
/// A number that leaves nothing to send, or that needs more than one statement can hold.
pub fn build(
    name: Name,
    protocol: Protocol,
    tables: &Tables,
    options: &Options,
    distribution: &Distribution,
) -> Result<Box<dyn Workload>, Error> {
    check(tables, options)?;
    match pgbench::build(name, protocol, tables, distribution) {
        Some(workload) => Ok(workload),
        None => {
            sysbench::build(name, protocol, tables, options, distribution).ok_or(Error::Empty { name: name.as_str() })
        }
    }
}

fn check(tables: &Tables, options: &Options) -> Result<(), Error> {
    let fits = |option: &str, value: u64, least: u64, most: u64| {
        let wrong = || Error::OutOfRange { option: option.to_owned(), value, least, most };
        if (least..=most).contains(&value) { Ok(()) } else { Err(wrong()) }
    };
    fits("tables", tables.tables.into(), 1, 100_000)?;
    fits("table-size", tables.table_size, 1, sysbench::MOST_ROWS)?;
    fits("threads", tables.connections.into(), 1, 1_000_000)?;
    fits("scale", tables.scale.into(), 1, u32::MAX.into())?;
    let mut options = options.clone();
    SETTINGS.iter().try_for_each(|setting| match setting.slot(&mut options) {
        Slot::Count { value, limits } => fits(&setting.flag(), *value, *limits.start(), *limits.end()),
        Slot::Flag(_) => Ok(()),
    })
}

/// The statements that make the tables of a workload that does not run on filled ones: those of `bulk_insert`, one table for each connection. Older
/// tables of these names must be dropped first, so that keys begin at 1. Empty for all other workloads.
pub fn setup(name: Name, tables: &Tables) -> Vec<String> {
    let columns = "id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (id)";
    let make = |table: String| format!("CREATE TABLE {table} ({columns})");
    setup_tables(name, tables).into_iter().map(make).collect()
}

/// The tables that [`setup`] makes.
pub fn setup_tables(name: Name, tables: &Tables) -> Vec<String> {
    let count = if name == Name::BulkInsert { tables.connections } else { 0 };
    (1..=count).map(|table| format!("sbtest{table}")).collect()
}
