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
//! After `heap_tree=detailed` and `heap_tree=peak` the tree follows: a line for each node, `nCHILDREN: BYTES LABEL`, each node before its children.

mod reader;
pub(crate) mod trees;
mod writer;

pub use crate::snapshot::{Kind, Snapshot, TimeUnit};
pub use reader::{Reader, Remarks};
pub use writer::text;

/// The header: everything before the first snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Massif's options, as they stand after `desc:`; one line each.
    pub arguments: Vec<Vec<u8>>,
    /// The command that was profiled.
    pub command: Vec<u8>,
    pub time_unit: TimeUnit,
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

/// One line of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    /// The root is 0.
    pub depth: usize,
    /// How many nodes follow directly below it.
    pub children: u64,
    pub bytes: u64,
    /// Everything after the number of bytes, with the space before it. Not always UTF-8.
    pub label: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    Snapshot(Snapshot),
    /// A node of the tree of the last snapshot.
    Node(Node<'a>),
}
