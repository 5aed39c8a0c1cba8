// SPDX-License-Identifier: Apache-2.0
//! The worst case of a server's memory, in three sizes: what is there now, what its own high-water marks make likely, and what its settings permit.
//!
//! Each size is a sum of lines (count x size), and each line names its source. What no setting limits is named, with how it was counted.

mod accounts;
mod bound;
mod buffer;
mod buffers_mysql;
mod buffers_postgresql;
mod comparison;
mod concurrency;
mod entries;
mod global;
mod open;
mod open_rows;
mod realistic;
mod settings;

pub use entries::{AccountClaim, Assumed, Concurrency, Line, Unbounded, WorstCase};

use crate::Inventory;
use bound::Bound;
use settings::Settings;

/// Computes all three sizes of an inventory, whole or with parts missing.
pub fn worst_case(inventory: &Inventory, assumed: &Assumed) -> WorstCase {
    let account = crate::account(inventory);
    let settings = Settings::of(inventory);
    let concurrency = concurrency::of(inventory, &settings, assumed);
    let realistic = realistic::lines(inventory, &account, &concurrency);
    let bound = Bound::of(inventory, &account, &settings, &concurrency);
    let accounts = accounts::of(inventory, &concurrency, &settings, bound.as_ref().map(|it| it.per_connection_bytes));
    let server = inventory.server.as_ref();
    WorstCase {
        schema: 1,
        at_unix_us: inventory.at_unix_us,
        now_bytes: account.kernel_total_bytes,
        realistic_bytes: entries::sum(&realistic),
        bound_bytes: bound.as_ref().map(|it| entries::sum(&it.lines)),
        per_connection_bytes: bound.as_ref().map(|it| it.per_connection_bytes),
        unbounded: open::of(inventory, &settings, &concurrency),
        comparison: comparison::lines(&account, &settings, &concurrency),
        realistic,
        bound: bound.map(|it| it.lines).unwrap_or_default(),
        concurrency,
        accounts,
        statements: server.and_then(|it| it.marks.as_ref()).map(|it| it.statements.clone()).unwrap_or_default(),
        missing: account.missing,
    }
}

#[cfg(test)]
mod tests;
