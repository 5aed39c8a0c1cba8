// SPDX-License-Identifier: Apache-2.0
//! How many times each page of the machine is mapped: `/proc/kpagecount` (kernel, admin-guide/mm/pagemap.rst). Only root may read it. Reading it holds
//! no process.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Pages whose counts are read at once.
const BLOCK: usize = 512;

/// Counts that were read stay for the whole reading of a server: its processes share most pages that are shared.
pub(super) struct PageCounts {
    file: Option<File>,
    blocks: HashMap<u64, Box<[u16]>>,
}

impl PageCounts {
    pub(super) fn open() -> Self {
        Self { file: File::open("/proc/kpagecount").ok(), blocks: HashMap::new() }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.file.is_some()
    }

    /// `frame`: the page's number in the machine. 0: nobody's, as the page of zeros is. `None`: not told.
    pub(super) fn of(&mut self, frame: u64) -> Option<u16> {
        let file = self.file.as_ref().filter(|_| frame > 0)?;
        let block = frame / BLOCK as u64;
        let counts = self.blocks.entry(block).or_insert_with(|| read(file, block));
        counts.get(usize::try_from(frame % BLOCK as u64).ok()?).copied()
    }
}

/// Shorter than a block at the end of memory.
fn read(file: &File, block: u64) -> Box<[u16]> {
    let mut bytes = [0; BLOCK * 8];
    let read = file.read_at(&mut bytes, block * BLOCK as u64 * 8).unwrap_or(0);
    let (words, _) = bytes[..read].as_chunks::<8>();
    words.iter().map(|word| u16::try_from(u64::from_ne_bytes(*word)).unwrap_or(u16::MAX)).collect()
}
