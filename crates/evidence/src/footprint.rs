// SPDX-License-Identifier: Apache-2.0
//! The size of a server's memory at one mark of its life.

use serde::{Deserialize, Serialize};

/// The source of a snapshot that is a [`Footprint`]; its entity is the mark.
pub const FOOTPRINT: &str = "memory.footprint";

/// Sizes in bytes, over all processes of the server. `None`: this user may not read the figure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// The mark: `before` and `after` an arm's load, `idle` at the end of the rest after the load.
    pub mark: String,
    pub processes: u32,
    /// For a server with one process: its resident memory. For a server with several: the sum of `pss_bytes`, in which shared memory counts once.
    pub rss_bytes: Option<u64>,
    /// The most resident memory that the process has had since its start, also between two marks. `None` also for a server with several processes: theirs
    /// were not at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    /// Addresses that the largest process uses, resident or not.
    pub vsz_bytes: Option<u64>,
    pub page_tables_bytes: Option<u64>,
    /// Transparent huge pages; a part of `rss_bytes`.
    pub anon_huge_bytes: Option<u64>,
    /// Pages of the host's pool of huge pages; no part of `rss_bytes`.
    pub huge_pool_bytes: Option<u64>,
    /// Bytes that the server has asked its malloc for and not given back.
    pub asked_bytes: Option<u64>,
    /// The malloc that reported `asked_bytes`, or how they were counted from outside; else the reason why there is no such figure.
    pub asked_by: String,
    /// The parts into which the malloc divides its heap, so that threads need not wait for each other.
    pub arenas: Option<u64>,
    /// How `arenas` were counted, or the reason why there is no such figure.
    #[serde(default)]
    pub arenas_by: String,
}
