// SPDX-License-Identifier: Apache-2.0
//! Single pages of a process, each read once. For structures that are linked by addresses, and of which many are in one page.

use super::reading::Reading;
use super::target::Target;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub(super) struct Pages {
    tier: &'static str,
    read: BTreeMap<u64, Vec<u8>>,
}

impl Pages {
    /// `tier`: the name under which the reading time is counted.
    pub(super) fn of(tier: &'static str) -> Self {
        Self { tier, read: BTreeMap::new() }
    }

    /// `None`: some of the memory is not resident, or cannot be read.
    pub(super) fn read(&mut self, target: &Target, at: u64, into: &mut [u8], reading: &mut Reading) -> Option<()> {
        let page_bytes = super::page_bytes();
        let mut done = 0;
        while done < into.len() {
            let address = at.checked_add(done as u64)?;
            let page = self.page(target, address / page_bytes * page_bytes, reading)?;
            let rest = page.get(usize::try_from(address % page_bytes).ok()?..)?;
            let length = rest.len().min(into.len() - done);
            into[done..done + length].copy_from_slice(&rest[..length]);
            done += length;
        }
        Some(())
    }

    fn page(&mut self, target: &Target, at: u64, reading: &mut Reading) -> Option<&[u8]> {
        match self.read.entry(at) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => Some(entry.insert(read_page(self.tier, target, at, reading)?)),
        }
    }
}

fn read_page(tier: &'static str, target: &Target, at: u64, reading: &mut Reading) -> Option<Vec<u8>> {
    let end = at.checked_add(super::page_bytes())?;
    // a page that is not resident is not read: reading would make it resident
    target.presence(at, end, reading)?.has(at).then_some(())?;
    let mut bytes = vec![0; usize::try_from(super::page_bytes()).ok()?];
    target.memory(tier, at, &mut bytes, reading)?;
    Some(bytes)
}
