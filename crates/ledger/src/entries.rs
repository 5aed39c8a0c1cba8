// SPDX-License-Identifier: Apache-2.0
//! The parts of an account: the shape of the JSON.

use crate::{Estimates, Interval, Missing, Probe};
use serde::{Deserialize, Serialize};

/// Where a server's memory is. In bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub schema: u32,
    /// When reading began, in microseconds since 1970, UTC.
    pub at_unix_us: u64,
    /// Pss of all processes, their page tables, and huge pages once.
    pub kernel_total_bytes: u64,
    /// The leaves' share of the total; slightly above 1 where the kernel's figures changed while they were read. `None`: nothing is resident.
    pub explained_share: Option<f64>,
    /// The total minus the leaves. Below zero where the kernel's figures changed while they were read.
    pub unexplained_bytes: i64,
    /// How far the total may be off: sampled processes, readings at different times.
    pub uncertainty_bytes: u64,
    /// By how much the server's meters count more than is resident. So much unexplained memory may be in leaves.
    #[serde(default)]
    pub overcounted_bytes: u64,
    /// In order of their paths.
    pub leaves: Vec<Leaf>,
    pub unexplained: Vec<Unexplained>,
    pub processes: Vec<ProcessAccount>,
    /// Memory that the server causes outside of the sum.
    pub beside: Vec<Beside>,
    pub probes: Vec<Probe>,
    pub missing: Vec<Missing>,
    /// `None`: the server is not read repeatedly.
    #[serde(default)]
    pub interval: Option<Interval>,
    pub estimates: Estimates,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// `data_cache/buffer_pool`.
    pub path: String,
    pub resident_bytes: u64,
    /// The bytes by its meter; `None`: no meter counts it.
    pub allocated_bytes: Option<u64>,
    pub basis: Basis,
    pub source: String,
    /// When it was read, in microseconds after [`Account::at_unix_us`].
    pub at_us: u64,
}

/// What tells the memory and its purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    #[default]
    Kernel,
    Server,
    Allocator,
    /// A formula of the server's source, with the server's own variables.
    Formula,
}

impl Basis {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Server => "server",
            Self::Allocator => "allocator",
            Self::Formula => "formula",
        }
    }
}

/// Memory of one class that no source explains: `private` (malloc's heaps and anonymous mappings), or `rounding` (between the kernel's own
/// sum of a process and the sum of its mappings).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unexplained {
    pub class: String,
    pub bytes: i64,
    /// The largest mappings that contain it, the largest first.
    pub mappings: Vec<UnnamedMapping>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnnamedMapping {
    pub pid: u32,
    /// `heap` or `anonymous`.
    pub class: String,
    /// As in /proc/PID/maps.
    pub range: String,
    pub path: String,
    /// All resident bytes of the mapping, explained or not.
    pub resident_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessAccount {
    pub pid: u32,
    pub role: String,
    pub pss_bytes: u64,
    pub page_tables_bytes: u64,
    /// Whether the figure was estimated from processes of the same role, or from an earlier reading of this one; otherwise the kernel told it.
    pub is_estimated: bool,
    /// How long before this account the earlier reading was. `None`: the estimate is not from one.
    #[serde(default)]
    pub estimated_from_us_before: Option<u64>,
    /// Its share of the memory (Pss) by leaf, in order of the paths; together with `unexplained_bytes` they are [`Self::pss_bytes`]. Empty: its mappings were not read.
    #[serde(default)]
    pub leaves: Vec<ProcessLeaf>,
    /// `None`: its mappings were not read.
    #[serde(default)]
    pub unexplained_bytes: Option<i64>,
}

/// The part of one process in a leaf. The pool, and a segment of shared memory, are not divided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLeaf {
    pub path: String,
    pub resident_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// `kernel_stacks`, `page_cache`, ...
    pub name: String,
    pub bytes: u64,
    pub source: String,
}
