// SPDX-License-Identifier: Apache-2.0
//! The tree of callers: the functions that hold the heap at one time.

use crate::frame::Label;
use crate::snapshot::Snapshot;

/// A snapshot with its tree. Nodes stand before their children.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    pub snapshot: Snapshot,
    pub nodes: Vec<TreeNode>,
    /// The profiler saw one allocation in so many bytes, on the average; `None`: all of them.
    pub sampled_every_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// The root, which is the allocation functions, is 0; its callers are 1.
    pub depth: usize,
    pub bytes: u64,
    /// Of `bytes`, which is an estimate where the profiler saw a sample; else 0.
    pub variance: u128,
    pub label: Label,
}
