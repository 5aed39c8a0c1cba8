// SPDX-License-Identifier: Apache-2.0
//! Facts around a wait, and the verdict on a wait.

use super::meanwhile::Meanwhile;
use super::sample::Session;
use crate::cause::{Cause, Evidence};
use capability::FreeList;

/// Facts around a wait: what the server, its counters and the host told while it lasted.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// What the server said of the wait's connection while the wait lasted.
    pub said: &'a [Session],
    /// `innodb_empty_free_list_algorithm` is `backoff`. `None`: nothing says which algorithm the server has.
    pub backoff: Option<bool>,
    /// What this version does when the free list is empty. `None`: Wringer's authors have not read this version's source.
    pub free_list: Option<&'static FreeList>,
    /// The name of the function in which queries wait for a free page, where it is probed.
    pub probed: Option<&'a str>,
    /// By how much `wait_free` rose between the readings before and after the wait.
    pub wait_free: Option<u64>,
    /// By how much `wait_free` must have risen for this wait alone.
    pub tries: u64,
    /// By how much `Innodb_buffer_pool_pages_LRU_flushed` rose between the same readings.
    pub lru_flushed: Option<u64>,
    /// When the statement began that the server named last. `None`: the server does not say.
    pub began_us: Option<u64>,
    /// The lowest number of free pages that was read meanwhile.
    pub pages_free: Option<u64>,
    /// For how long of the wait another thread of the server waited for the disk to write.
    pub synced_us: u64,
    /// The longest time of the wait for which one other thread of the server could run, and got no CPU.
    pub queued_us: u64,
    /// In so many samples the thread itself wrote to the file of a table.
    pub page_writes: u64,
    /// In so many samples it wrote to the doublewrite buffer.
    pub doublewrites: u64,
    /// For how long of the wait another client's thread wrote pages of tables to their files itself.
    pub others_page_writes_us: u64,
    /// What the host's disk and memory did meanwhile.
    pub meanwhile: Option<Meanwhile>,
}

impl Around<'_> {
    /// The cause of a wait in the function for free pages, in this version.
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

/// The verdict on a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Stall {
        cause: Cause,
        /// From 0 to 1; 0 for `unknown`.
        confidence: f64,
        evidence: Evidence,
    },
    /// The statement asked to wait, or the time was its own work.
    OwnWork,
    /// No statement waited.
    Nothing,
}

impl Verdict {
    /// With more evidence for it.
    pub(super) fn with(self, why: String) -> Self {
        self.weighed(|_, evidence| evidence.speaks_for.push(why))
    }

    /// With evidence against it.
    pub(super) fn but(self, why: String) -> Self {
        self.weighed(|_, evidence| evidence.against.push(why))
    }

    pub(super) fn at_most(self, most: f64) -> Self {
        self.weighed(|confidence, _| *confidence = confidence.min(most))
    }

    fn weighed(mut self, weigh: impl FnOnce(&mut f64, &mut Evidence)) -> Self {
        if let Self::Stall { confidence, evidence, .. } = &mut self {
            weigh(confidence, evidence);
        }
        self
    }
}

pub(super) fn named(cause: Cause, confidence: f64, why: String) -> Verdict {
    Verdict::Stall { cause, confidence, evidence: Evidence { speaks_for: vec![why], against: Vec::new() } }
}

pub(super) fn unknown(speaks_for: Vec<String>, against: String) -> Verdict {
    let evidence = Evidence { speaks_for, against: vec![against] };
    Verdict::Stall { cause: Cause::Unknown, confidence: 0.0, evidence }
}
