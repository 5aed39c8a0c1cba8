// SPDX-License-Identifier: Apache-2.0
//! Who is in danger when memory runs out, and what to change: as it is in JSON.

use crate::share::{sane, signed};
use crate::{Kill, Missing};
use serde::{Deserialize, Serialize};

/// Who is in danger, on the host and in the server's memory cgroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Oom {
    pub schema: u32,
    pub host: Arena,
    /// `None`: the server's cgroup has no limit, or was not read.
    pub cgroup: Option<Arena>,
    /// The last one that the kernel's log tells of, whomever it was. `None`: none, or the log was not read.
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
    /// What can still be had before the killer comes. `None`: it cannot be told.
    pub headroom_bytes: Option<i64>,
    pub headroom_source: String,
    /// In the order in which they would be killed.
    pub victims: Vec<Victim>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    pub pid: u32,
    pub command: String,
    /// Of the server that the inventory is of.
    pub is_server: bool,
    /// As /proc/PID/oom_score should say it: always measured against the host.
    pub oom_score_predicted: i64,
    /// As /proc/PID/oom_score says it.
    pub oom_score: Option<i64>,
    pub oom_score_adj: i64,
    /// What the killer compares, in pages. `None`: it is never killed.
    pub badness_pages: Option<i64>,
    pub rss_bytes: u64,
    pub swap_bytes: u64,
    pub page_tables_bytes: u64,
    /// What `oom_score_adj` adds or takes, in bytes.
    pub adjustment_bytes: i64,
    /// Those with the same badness: of them, the kernel takes the one that was started last.
    pub tied_with: Vec<u32>,
}

impl Arena {
    /// What is left when the server has grown by so much.
    pub fn headroom_after(&self, growth_bytes: u64) -> Option<i64> {
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
