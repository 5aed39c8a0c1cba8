// SPDX-License-Identifier: Apache-2.0
//! The size of the heap at one time.

use serde::Serialize;

/// The unit of a snapshot's `time`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Instructions that were executed.
    #[default]
    Instructions,
    /// Milliseconds since the start.
    Milliseconds,
    /// Bytes that were allocated and freed.
    Bytes,
}

/// The size of the heap at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub number: u64,
    /// In the outline's unit; 0 where the format has no times.
    pub time: u64,
    /// Bytes that the program asked for; in jemalloc's files, bytes that it was given. With Massif's `--pages-as-heap=yes`, all bytes that it has mapped.
    pub heap_bytes: u64,
    /// Bytes that the allocator needs beside them (Massif's `--heap-admin`, rounding up). 0 where the format does not have this number.
    pub extra_bytes: u64,
    /// Bytes of the stacks, with Massif's `--stacks=yes`.
    pub stacks_bytes: u64,
    pub kind: Kind,
}

impl Snapshot {
    /// The sum of all bytes. `None`: it needs more than 64 bits, so that one of the sizes is wrong.
    pub fn total_bytes(&self) -> Option<u64> {
        self.heap_bytes.checked_add(self.extra_bytes)?.checked_add(self.stacks_bytes)
    }

    pub fn has_tree(&self) -> bool {
        self.kind != Kind::Normal
    }

    pub(crate) fn with_tree(number: u64, time: u64, heap_bytes: u64, kind: Kind) -> Self {
        Self { number, time, heap_bytes, extra_bytes: 0, stacks_bytes: 0, kind }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Without a tree.
    Normal,
    Detailed,
    /// Detailed, at the time when the heap was largest.
    Peak,
}
