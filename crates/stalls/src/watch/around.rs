// SPDX-License-Identifier: Apache-2.0
//! What is known of a wait beside the wait itself, and what may be said of it in the end.

use super::meanwhile::Meanwhile;
use super::sample::Session;
use crate::cause::{Cause, Evidence};
use capability::FreeList;

/// What is known of a wait beside the wait itself.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// What the server said of its connection, while it lasted.
    pub said: &'a [Session],
    /// `innodb_empty_free_list_algorithm` is `backoff`. `None`: nothing says which algorithm the server has.
    pub backoff: Option<bool>,
    /// What this version does about an empty free list. `None`: nobody has looked at it.
    pub free_list: Option<&'static FreeList>,
    /// The function in which queries wait for a free page is probed: this is its name.
    pub probed: Option<&'static str>,
    /// By how much `wait_free` rose between the readings before and after the wait, and by how much it must have risen for this one alone.
    pub wait_free: Option<u64>,
    pub tries: u64,
    /// By how much `Innodb_buffer_pool_pages_LRU_flushed` rose, as `wait_free`.
    pub lru_flushed: Option<u64>,
    /// When the statement began of which the server spoke last. `None`: the server does not say.
    pub began_us: Option<u64>,
    /// Pages that were free, at the lowest that was read meanwhile.
    pub pages_free: Option<u64>,
    /// What the host did.
    pub meanwhile: Option<Meanwhile>,
}

impl Around<'_> {
    /// What a wait in the function for free pages is called there.
    pub(super) fn free_list_cause(&self) -> Option<Cause> {
        use capability::OnEmpty::{OwnBatch, Searches, WaitsForCleaner};
        if self.backoff == Some(true) {
            return Some(Cause::FreeListBackoff);
        }
        Some(match self.free_list?.legacy {
            Searches(_) => Cause::FreeListLegacy,
            OwnBatch { .. } | WaitsForCleaner { .. } => Cause::FreeListWait,
        })
    }
}

/// What a wait was.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Stall {
        cause: Cause,
        /// From 0 to 1; 0 for `unknown`.
        confidence: f64,
        evidence: Evidence,
    },
    /// The statement asked for it, or did that much itself.
    OwnWork,
    /// No statement waited.
    Nothing,
}

pub(super) fn named(cause: Cause, confidence: f64, why: String) -> Verdict {
    Verdict::Stall { cause, confidence, evidence: Evidence { speaks_for: vec![why], against: Vec::new() } }
}

pub(super) fn unknown(speaks_for: Vec<String>, against: String) -> Verdict {
    let evidence = Evidence { speaks_for, against: vec![against] };
    Verdict::Stall { cause: Cause::Unknown, confidence: 0.0, evidence }
}
