// SPDX-License-Identifier: Apache-2.0
//! RAM that a mechanism has taken, before it is measured.

use crate::ram::holder::Held;
use run::{Child, StepId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(super) struct Taken {
    pub(super) step: StepId,
    pub(super) bytes: u64,
    pub(super) held: Option<Held>,
    pub(super) child: Option<Child>,
    /// Why the mechanism took less than asked.
    pub(super) stopped: Option<String>,
    pub(super) elapsed: Duration,
    /// The nodes that gave huge pages to the pool.
    pub(super) nodes: Vec<Node>,
}

impl Taken {
    pub(super) fn without_process(step: StepId, bytes: u64, elapsed: Duration) -> Self {
        Self { step, bytes, elapsed, held: None, child: None, stopped: None, nodes: Vec::new() }
    }
}

/// Huge pages that one NUMA node has given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node: u32,
    pub pages: u64,
}
