// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a result is only true under (invariant 10).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    pub tool: Tool,
    pub host: Host,
    pub server: Server,
    /// The mechanism behind each squeeze, or why there is none: `ram` -> `huge-page holder`.
    pub mechanisms: BTreeMap<String, String>,
    /// In what a squeeze by its mechanism differs from the same by others: `ram` -> `mem_total_shrinks` -> false.
    #[serde(default)]
    pub traits: BTreeMap<String, BTreeMap<String, bool>>,
    /// What could weaken the result on this host, in words.
    pub caveats: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub version: String,
    /// The exact command line.
    pub command: Vec<String>,
    pub as_root: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub kernel: String,
    pub distribution: String,
    pub cpu_model: String,
    pub cpus: u32,
    pub mem_total_bytes: u64,
    pub swap_total_bytes: u64,
    pub page_size_bytes: u64,
    pub huge_page_size_bytes: u64,
    /// Ticks a second of the kernel's own timer.
    pub hz: u32,
    /// `kvm`, `docker`, `none`, ... as far as it can be told.
    pub virtualisation: String,
    /// `v1`, `v2`, `hybrid`, `none`.
    pub cgroup: String,
    /// The file system and device that hold the sandbox.
    pub storage: String,
    pub clock_source: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub flavour: String,
    /// As the server itself says.
    pub version: String,
    pub binary: String,
    /// Where the binary came from: `installed`, `distribution package mariadb-server-core 1:10.11...`.
    pub source: String,
    /// As the server reports them when the first arm starts.
    pub variables: BTreeMap<String, String>,
}
