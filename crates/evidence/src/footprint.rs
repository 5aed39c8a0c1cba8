// SPDX-License-Identifier: Apache-2.0
//! What a server's memory comes to at one mark of its life.

use serde::{Deserialize, Serialize};

/// The source of a snapshot that is a [`Footprint`]; its entity is the mark.
pub const FOOTPRINT: &str = "memory.footprint";

/// Sizes in bytes, over all processes of the server. `None`: not for this user to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// `before` and `after` an arm's load, `idle` at the end of the rest after it.
    pub mark: String,
    pub processes: u32,
    /// Of a server with one process its resident memory; of one with several the sum of `pss_bytes`, in which shared memory counts once.
    pub rss_bytes: Option<u64>,
    pub pss_bytes: Option<u64>,
    /// Addresses that are in use, resident or not, of the largest process.
    pub vsz_bytes: Option<u64>,
    pub page_tables_bytes: Option<u64>,
    /// Transparent huge pages; a part of `rss_bytes`.
    pub anon_huge_bytes: Option<u64>,
    /// Pages of the host's pool of huge pages; no part of `rss_bytes`.
    pub huge_pool_bytes: Option<u64>,
    /// What the server has asked its malloc for and not given back.
    pub asked_bytes: Option<u64>,
    /// Whose function has told `asked_bytes`, or why nobody has.
    pub asked_by: String,
}
