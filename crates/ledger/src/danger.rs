// SPDX-License-Identifier: Apache-2.0
//! The processes that are in danger when memory runs out, and advice: the shape of the JSON.

use crate::share::{sane, signed};
use crate::{Kill, Missing};
use serde::{Deserialize, Serialize};

/// The processes in danger, on the host and in the server's memory cgroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Oom {
    pub schema: u32,
    pub host: Arena,
    /// `None`: the server's cgroup has no limit, or was not read.
    pub cgroup: Option<Arena>,
    /// The last kill in the kernel's log, of any process. `None`: there is none, or the log was not read.
    pub last_kill: Option<Kill>,
    pub advice: Vec<Advice>,
    /// What could not be read.
    pub missing: Vec<Missing>,
}

/// Where memory can run out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Arena {
    /// RAM and swap, or the cgroup's limit and the swap it may use.
    pub total_bytes: u64,
    /// The bytes that can still be allocated before the OOM killer acts. `None`: not known.
    pub headroom_bytes: Option<i64>,
    pub headroom_source: String,
    /// The headroom that is left when the server has grown to its realistic peak ([`crate::WorstCase`]). `None`: the headroom or the peak is not known.
    #[serde(default)]
    pub headroom_at_peak_bytes: Option<i64>,
    /// In the order in which they would be killed.
    pub victims: Vec<Victim>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    pub pid: u32,
    pub command: String,
    /// Whether it is a process of the server that was read.
    pub is_server: bool,
    /// The value that /proc/PID/oom_score should have; it is always relative to the host.
    pub oom_score_predicted: i64,
    /// The value of /proc/PID/oom_score.
    pub oom_score: Option<i64>,
    pub oom_score_adj: i64,
    /// The number that the OOM killer compares, in pages. `None`: the process is never killed.
    pub badness_pages: Option<i64>,
    pub rss_bytes: u64,
    pub swap_bytes: u64,
    pub page_tables_bytes: u64,
    /// What `oom_score_adj` adds or takes, in bytes.
    pub adjustment_bytes: i64,
    /// Processes with the same badness: of these the kernel kills the one that was started last.
    pub tied_with: Vec<u32>,
    /// The cgroup that the kernel kills whole when it chooses this process: the topmost with memory.oom.group = 1, from the process's own up to the one that
    /// has run out of memory. Of it only processes with `oom_score_adj` -1000 stay. `None`: no such cgroup is known; only those above the server are read.
    #[serde(default)]
    pub killed_with: Option<String>,
}

impl Arena {
    /// The headroom that is left when the server has grown by this much.
    pub(crate) fn headroom_after(&self, growth_bytes: u64) -> Option<i64> {
        Some(self.headroom_bytes? - signed(sane(growth_bytes)))
    }
}

/// A setting of the host or the service that should be another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// `swap`, `overcommit`, `transparent_huge_pages`, `oom_score_adj`, `oom_group`.
    pub about: String,
    /// Where it is set.
    pub setting: String,
    /// `None`: it has no value now.
    pub now: Option<String>,
    pub wanted: String,
    pub why: String,
}
