// SPDX-License-Identifier: Apache-2.0
//! The output of Massif (Valgrind 3.19, massif/ms_main.c, `pp_snapshot` and `pp_snapshot_SXPt`), as a stream of snapshots and nodes of trees.
//!
//! ```text
//! desc: --time-unit=ms
//! cmd: ./program
//! time_unit: ms
//! #-----------
//! snapshot=0
//! #-----------
//! time=0
//! mem_heap_B=0
//! mem_heap_extra_B=0
//! mem_stacks_B=0
//! heap_tree=empty
//! ```
//!
//! Behind `heap_tree=detailed` and `heap_tree=peak` the tree follows: a line for each node, `nCHILDREN: BYTES LABEL`, each node before its children.

mod reader;

pub use reader::{Reader, Remarks};

use serde::Serialize;

/// What stands before the first snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Massif's options, as they stand behind `desc:`, a line each.
    pub arguments: Vec<Vec<u8>>,
    /// The command that was profiled.
    pub command: Vec<u8>,
    pub time_unit: TimeUnit,
}

/// What `time` of a snapshot counts (`--time-unit`).
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

impl TimeUnit {
    /// As Massif writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Instructions => "i",
            Self::Milliseconds => "ms",
            Self::Bytes => "B",
        }
    }

    fn of(symbol: &[u8]) -> Option<Self> {
        [Self::Instructions, Self::Milliseconds, Self::Bytes].into_iter().find(|it| it.symbol().as_bytes() == symbol)
    }
}

/// What the heap was at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub number: u64,
    /// In the header's unit.
    pub time: u64,
    /// What the program asked for. With `--pages-as-heap=yes` all that it has mapped.
    pub heap_bytes: u64,
    /// What the allocator needs beside it (`--heap-admin`, rounding up).
    pub extra_bytes: u64,
    /// With `--stacks=yes`.
    pub stacks_bytes: u64,
    pub kind: Kind,
}

impl Snapshot {
    /// `None`: more than 64 bits hold, so that one of them is wrong.
    pub fn total_bytes(&self) -> Option<u64> {
        self.heap_bytes.checked_add(self.extra_bytes)?.checked_add(self.stacks_bytes)
    }

    pub fn has_tree(&self) -> bool {
        self.kind != Kind::Normal
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

/// One line of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    /// The root is 0.
    pub depth: usize,
    /// How many follow directly below it.
    pub children: u64,
    pub bytes: u64,
    /// All behind the number of bytes, with the space before it. Not always UTF-8.
    pub label: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    Snapshot(Snapshot),
    /// Of the tree of the snapshot before it.
    Node(Node<'a>),
}
