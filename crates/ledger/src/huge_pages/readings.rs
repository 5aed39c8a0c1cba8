// SPDX-License-Identifier: Apache-2.0
//! The data that were read about a server, the kernel's pools and the limits, before any arithmetic.

use crate::Inventory;
use serde::{Deserialize, Serialize};

/// Everything that was read at one time. All sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HugeSeen {
    /// The status of all processes of the server, the mappings of the first one, the server's settings, and the sum of its shared allocations.
    /// Without a process: of a server that does not run, whose program was asked for its settings.
    pub inventory: Inventory,
    /// One for each size of huge pages that the kernel has, the smallest first.
    pub pools: Vec<Pool>,
    /// The limits of the server's hugetlb cgroup and of those above it, the nearest first. Empty: none has a limit, or there is no such cgroup.
    pub limits: Vec<HugeLimit>,
    /// How much the server may lock (RLIMIT_MEMLOCK); [`u64::MAX`]: no limit. `None`: not read.
    pub lock_limit: Option<u64>,
    /// The group that the server runs as.
    pub group: Option<u32>,
}

/// The kernel's pool of huge pages of one size, in pages (kernel, admin-guide/mm/hugetlbpage.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    pub page_bytes: u64,
    pub total: u64,
    pub free: u64,
    /// Promised to mappings that have not touched them yet; they are among `free`.
    pub reserved: u64,
    /// Beyond the pool's size, until their users let go.
    pub surplus: u64,
    /// How many may be taken beyond the pool.
    pub overcommit: u64,
    /// The NUMA nodes that the pages lie on.
    pub nodes: Vec<NodePool>,
}

impl Pool {
    /// Free pages that nobody has reserved: the next server takes them.
    pub fn unclaimed(&self) -> u64 {
        self.free.saturating_sub(self.reserved)
    }

    /// Pages that are in use or promised.
    pub fn claimed(&self) -> u64 {
        self.total.saturating_sub(self.unclaimed())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePool {
    pub node: u32,
    pub total: u64,
    pub free: u64,
}

/// The limits of one cgroup for huge pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugeLimit {
    /// The cgroup, as the kernel names it.
    pub path: String,
    /// The file that has `limit_bytes`.
    pub file: String,
    pub page_bytes: u64,
    /// For pages that are touched. When it is reached, the process that touches the next page gets SIGBUS. `None`: no limit.
    pub limit_bytes: Option<u64>,
    pub usage_bytes: Option<u64>,
    /// The file that has `reservation_limit_bytes`; empty in records of before Wringer read it.
    #[serde(default)]
    pub reservation_file: String,
    /// For pages that are reserved. When it is reached, mmap(2) fails. `None`: no limit.
    pub reservation_limit_bytes: Option<u64>,
    /// Bytes that all processes in the cgroup have mapped, touched or not.
    pub reservation_usage_bytes: Option<u64>,
}
