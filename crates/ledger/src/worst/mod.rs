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
mod high_water;
mod open;
mod open_rows;
mod realistic;
mod settings;

pub use entries::{AccountClaim, Assumed, Concurrency, Line, Unbounded, WorstCase};

use crate::{Inventory, Missing};
use bound::Bound;
use capability::Flavour;
use settings::Settings;

/// Computes all three sizes of an inventory, whole or with parts missing.
pub fn worst_case(inventory: &Inventory, assumed: &Assumed) -> WorstCase {
    let account = crate::account(inventory);
    let settings = Settings::of(inventory);
    let mut concurrency = concurrency::of(inventory, &settings, assumed);
    let realistic = realistic::lines(inventory, &account, &concurrency);
    let uncounted = realistic::uncounted(inventory, &concurrency);
    if uncounted.is_some() {
        let note = format!("; the memory of {} of them is not counted", concurrency.more());
        concurrency.connections_peak_source.push_str(&note);
    }
    concurrency.connections_peak_source.extend(concurrency.refused());
    let bound = Bound::of(inventory, &account, &settings, &concurrency);
    let accounts = accounts::of(inventory, &concurrency, bound.as_ref().map(|it| it.per_connection_bytes));
    let unread = accounts::unread(inventory, &accounts);
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
        missing: account.missing.into_iter().chain(uncounted).chain(unread).collect(),
    }
}

/// How much the server would grow until its realistic peak. Memory in huge pages is never part of it: no high-water mark counts that memory. `None`: the
/// peak is not known; the list says why, or which part of the peak is not counted.
pub(crate) fn growth(inventory: &Inventory) -> (Option<u64>, Vec<Missing>) {
    let missing = |what: &str, why: &str, remedy: Option<&str>| Missing {
        what: what.into(),
        why: why.into(),
        remedy: remedy.map(str::to_owned),
    };
    if inventory.processes.is_empty() && inventory.server.is_none() {
        let remedy = "--sandbox NAME, a connection, or --pid";
        return (None, vec![missing("the realistic peak of a server", "no server was read", Some(remedy))]);
    }
    let has_mark = inventory.processes.iter().any(|process| process.status.contains_key("VmHWM"));
    if !has_mark || crate::implausible(inventory).is_some() {
        let why = "no high-water mark of the server's processes (VmHWM) was read";
        return (None, vec![missing("the server's realistic peak", why, None)]);
    }
    let account = crate::account(inventory);
    let concurrency = concurrency::of(inventory, &Settings::of(inventory), &Assumed::default());
    let peak = entries::sum(&realistic::lines(inventory, &account, &concurrency));
    let mut unknown: Vec<Missing> = realistic::uncounted(inventory, &concurrency).into_iter().collect();
    if inventory.server.is_none() && inventory.flavour != Some(Flavour::Postgresql) {
        let why = "there was no connection to the server; the realistic peak counts only what its process has had";
        unknown.push(missing("high-water marks of sessions", why, Some("a connection to the server")));
    }
    (Some(peak.saturating_sub(account.kernel_total_bytes)), unknown)
}

#[cfg(test)]
mod tests;
