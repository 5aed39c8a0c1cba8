// SPDX-License-Identifier: Apache-2.0
//! For tests only, never in a release: a layer that is started with `WRINGER_BROKEN_SYNC` lies about durability. Syncs answer at once, and written data stays in this
//! process's memory, so that a kill of the layer loses it. The durability test must fail with this layer.

#![allow(clippy::cast_possible_truncation)] // offsets within a page and within a request

use crate::backing::Open;
use crate::inode::Inode;
use rustix::io::Result;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages that were written and never reached a file, by inode.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    files: Mutex<HashMap<u64, File>>,
}

#[derive(Debug, Default)]
struct File {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// The size of the file with the lost writes. 0: as long as the file below.
    size: u64,
}

const PAGE: usize = 4096;
const VARIABLE: &str = "WRINGER_BROKEN_SYNC";

impl Lost {
    /// `None`: the variable is not set, and the layer does not lie.
    pub(crate) fn when_asked() -> Option<Self> {
        std::env::var_os(VARIABLE).map(|_| Self::default())
    }

    pub(crate) fn store(&self, inode: &Inode, open: &Open, offset: u64, data: &[u8]) -> Result<()> {
        let mut files = self.files();
        let file = files.entry(inode.number).or_default();
        let mut rest = data;
        while !rest.is_empty() {
            let at = offset + (data.len() - rest.len()) as u64;
            let (index, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let (part, after) = rest.split_at(rest.len().min(PAGE - within));
            if let std::collections::btree_map::Entry::Vacant(vacant) = file.pages.entry(index) {
                let mut page = crate::buffer::Pool::default().take(PAGE);
                if part.len() < PAGE {
                    open.read(inode, page.bytes_mut(PAGE), index * PAGE as u64)?;
                }
                vacant.insert(Box::new(page.bytes(PAGE).try_into().expect("one page")));
            }
            file.pages.get_mut(&index).expect("just put in")[within..][..part.len()].copy_from_slice(part);
            rest = after;
        }
        file.size = file.size.max(offset + data.len() as u64);
        Ok(())
    }

    /// Copies the lost bytes over the bytes read from below. Returns how many bytes are valid then.
    pub(crate) fn overlay(&self, number: u64, into: &mut [u8], count: usize, offset: u64) -> usize {
        let files = self.files();
        let Some(file) = files.get(&number) else { return count };
        into[count..].fill(0);
        for (index, page) in file.pages.range(offset / PAGE as u64..) {
            let start = index * PAGE as u64;
            if start >= offset + into.len() as u64 {
                break;
            }
            let from = offset.max(start);
            let length = (into.len() as u64 - (from - offset)).min(start + PAGE as u64 - from) as usize;
            into[(from - offset) as usize..][..length].copy_from_slice(&page[(from - start) as usize..][..length]);
        }
        count.max(file.size.saturating_sub(offset).min(into.len() as u64) as usize)
    }

    pub(crate) fn enlarge(&self, number: u64, size: &mut u64) {
        *size = (*size).max(self.files().get(&number).map_or(0, |file| file.size));
    }

    pub(crate) fn truncate(&self, number: u64, size: u64) {
        if let Some(file) = self.files().get_mut(&number) {
            file.size = file.size.min(size);
            file.pages.retain(|index, _| index * (PAGE as u64) < size);
            let within = (size % PAGE as u64) as usize;
            if let Some(page) = file.pages.get_mut(&(size / PAGE as u64)) {
                page[within..].fill(0);
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
