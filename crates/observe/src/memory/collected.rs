// SPDX-License-Identifier: Apache-2.0
//! What one collects by hand of a server's memory, as texts by their paths in a bundle. What costs the server something is taken from the inventory, which was
//! read within its budget.
//!
//! Secrets: settings, counters and rows are asked for by name, and none of those holds one. Statements are not asked for, but for their digests, which have `?`
//! for each value. Of command lines, what follows the name of a secret is masked. Names of accounts stay.

mod host_files;
mod mask;
mod rows;
mod texts;

use crate::Reopening;
use ledger::Inventory;
use std::collections::BTreeMap;

/// By path: `proc/4711/status`, `sql/memory_summary_global_by_event_name.tsv`.
pub fn collected(inventory: &Inventory, connection: Option<&mut Reopening>) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = texts::of(inventory).into_iter().collect();
    texts.extend(host_files::of(inventory));
    if let (Some(connection), Some(flavour)) = (connection, inventory.flavour) {
        texts.extend(rows::of(connection, flavour));
    }
    texts.retain(|_, text| !text.is_empty());
    texts
}
