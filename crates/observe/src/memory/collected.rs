// SPDX-License-Identifier: Apache-2.0
//! Texts about a server's memory that people collect by hand, by their paths in a bundle. Data that are expensive for the server come from the
//! inventory, which was read within its budget.
//!
//! Secrets: settings, counters and rows are requested by name, and none of them holds a secret. Of statements only the digests are requested, which
//! have `?` for each value. In command lines, the value after the name of a secret is masked. Names of accounts stay.

mod host_files;
mod mask;
mod rows;
mod texts;

use crate::Reopening;
use ledger::Inventory;
use std::collections::BTreeMap;

/// The texts by path: `proc/4711/status`, `sql/memory_summary_global_by_event_name.tsv`.
pub fn collected(inventory: &Inventory, connection: Option<&mut Reopening>) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = texts::of(inventory).into_iter().collect();
    texts.extend(host_files::of(inventory));
    if let (Some(connection), Some(flavour)) = (connection, inventory.flavour) {
        texts.extend(rows::of(connection, flavour));
    }
    texts.retain(|_, text| !text.is_empty());
    texts
}
