// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The conditions under which a result holds (invariant 10).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    pub tool: Tool,
    pub host: Host,
    pub server: Server,
    /// The mechanism behind each squeeze, or why there is none: `ram` -> `huge-page holder`.
    pub mechanisms: BTreeMap<String, String>,
    /// The properties in which the mechanism of a squeeze differs from other mechanisms: `ram` -> `mem_total_shrinks` -> false.
    #[serde(default)]
    pub traits: BTreeMap<String, BTreeMap<String, bool>>,
    /// How the server's data were made. `None`: nothing was filled, or the recording is older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// What could weaken the result on this host, in words.
    pub caveats: Vec<String>,
}

/// Whether the data were filled for this run, or are a clone of an earlier fill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    pub how: DataHow,
    /// Names the fill: server build, options that change the files, `[fill]`, seed. Empty: the user's own data.
    pub key: String,
    /// When the rows were written, by RFC 3339.
    pub made: String,
    /// For a clone: `reflink`, whose blocks are shared with the kept data, or `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// The time from the start of the sandbox until its data were there. For a clone, the server's first start is not in it.
    pub elapsed_us: u64,
    /// For a fill: what happened to it in the cache, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataHow {
    #[default]
    Filled,
    Cloned,
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
    /// The frequency of the kernel's timer, in ticks a second.
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
    /// The version that the server itself reports.
    pub version: String,
    pub binary: String,
    /// Where the binary came from: `installed`, `distribution package mariadb-server-core 1:10.11...`.
    pub source: String,
    /// Which build of the program this is: `build ID 5f0c...`, else `SHA-256 ...` of the file. Empty: not known, or the recording is older than this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The server's variables, as it reports them when the first arm starts.
    pub variables: BTreeMap<String, String>,
}
