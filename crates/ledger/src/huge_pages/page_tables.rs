// SPDX-License-Identifier: Apache-2.0
//! The cost of page tables: each process has its own entries, 8 bytes for each page that it has touched.

use super::need::Need;
use super::readings::HugeSeen;
use crate::figures::Figures;
use capability::Flavour;
use serde::Serialize;

/// An entry of a page table on 64-bit hosts.
const ENTRY: u64 = 8;

/// Page tables of all processes of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageTables {
    /// The sum of VmPTE. `None`: no process was seen.
    pub now_bytes: Option<u64>,
    pub processes: u64,
    /// Processes that may touch all of the memory that huge pages are for: PostgreSQL's permitted connections; one where connections are threads.
    pub permitted: u64,
    /// The size of one process's entries for that memory in ordinary pages, when it has touched all of it.
    pub each_bytes: u64,
    /// The same for all permitted processes.
    pub all_touched_bytes: u64,
    /// The same in huge pages.
    pub all_touched_in_huge_pages_bytes: u64,
}

/// `None`: the size of the memory, or how many may touch it, is not known.
pub(super) fn page_tables(seen: &HugeSeen, need: Option<&Need>, page_bytes: u64) -> Option<PageTables> {
    let inventory = &seen.inventory;
    let permitted = match inventory.flavour? {
        Flavour::Postgresql => Figures::of(inventory).variable("max_connections")?,
        _ => 1,
    };
    let need = need?;
    let bytes = need.bytes.or_else(|| Some(need.pages(page_bytes)?.saturating_mul(page_bytes)))?;
    let entries = |page: u64| bytes.div_ceil(page.max(1)).saturating_mul(ENTRY);
    let each_bytes = entries(inventory.page_bytes.max(4096));
    let now = inventory.processes.iter().filter_map(|process| process.status.get("VmPTE"));
    Some(PageTables {
        now_bytes: (!inventory.processes.is_empty()).then(|| now.fold(0, |sum: u64, it| sum.saturating_add(*it))),
        processes: inventory.processes.len() as u64,
        permitted,
        each_bytes,
        all_touched_bytes: each_bytes.saturating_mul(permitted),
        all_touched_in_huge_pages_bytes: entries(page_bytes).saturating_mul(permitted),
    })
}
