// SPDX-License-Identifier: Apache-2.0
//! The number of mappings of each page of the machine: `/proc/kpagecount` (kernel, admin-guide/mm/pagemap.rst). Only root may read it. Reading it
//! holds no process.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The number of pages whose counts are read at once.
const BLOCK: usize = 512;

/// Counts that were read are kept during the whole reading of a server: its processes share most of their shared pages.
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

    /// `frame`: the page's number in the machine. 0: the page is not counted for any process, like the page of zeros. `None`: not known.
    pub(super) fn of(&mut self, frame: u64) -> Option<u16> {
        let file = self.file.as_ref().filter(|_| frame > 0)?;
        let block = frame / BLOCK as u64;
        let counts = self.blocks.entry(block).or_insert_with(|| read(file, block));
        counts.get(usize::try_from(frame % BLOCK as u64).ok()?).copied()
    }
}

/// The counts of a block, which is shorter at the end of memory.
fn read(file: &File, block: u64) -> Box<[u16]> {
    let mut bytes = [0; BLOCK * 8];
    let read = file.read_at(&mut bytes, block * BLOCK as u64 * 8).unwrap_or(0);
    let (words, _) = bytes[..read].as_chunks::<8>();
    words.iter().map(|word| u16::try_from(u64::from_ne_bytes(*word)).unwrap_or(u16::MAX)).collect()
}
