// SPDX-License-Identifier: Apache-2.0
//! The memory that all processes of a squeezed program share with their keeper: one anonymous map for each slow directory.
//!
//! Everything in it is an atomic, so that any process may read and write at any time. All zeros is a valid state: nothing is delayed.

use crate::histogram::Histogram;
use crate::overshoot::Overshoot;
use crate::shared_model::Bank;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Marks a ready map; each layout has another number.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"WRPRELO2");
pub(crate) const PATH_BYTES: usize = 4096;
/// A model is written to a place that no process reads. The place is used again after this many changes.
pub(crate) const BANKS: usize = 4;
/// The bits of the word in force that give the bank's number; the other bits count the changes.
pub(crate) const BANK_BITS: u32 = 3;
/// The library stops to delay when the keeper has not renewed the lease for this long.
#[cfg(not(wringer_library))]
pub(crate) const LEASE_NS: u64 = 10_000_000_000;

/// The environment variable that names the maps: `FD:PID`, separated by commas. FD is the inherited descriptor. PID is the keeper,
/// which has the map open under the same number, in case the program closed it before it started another program.
pub(crate) const MAPS: &str = "WRINGER_PRELOAD_MAPS";
/// The most directories that can be slow for one program.
pub(crate) const MOST_MAPS: usize = 8;

#[repr(C)]
pub(crate) struct Shared {
    pub(crate) magic: AtomicU64,
    /// The canonical path, without a slash at the end.
    pub(crate) directory_bytes: AtomicU32,
    pub(crate) directory: [AtomicU8; PATH_BYTES],
    /// 0: no delay and no counting. Else the number of changes and, in the lowest bits, the number of the bank plus one. Waiting
    /// calls sleep on it (futex(2)).
    pub(crate) in_force: AtomicU32,
    /// The end of the lease, on `CLOCK_MONOTONIC`.
    pub(crate) lease_until_ns: AtomicU64,
    /// Processes that have found this map, since the start.
    pub(crate) attached: AtomicU32,
    /// The time until which a thread spins for the last microseconds of its wait; the others sleep.
    pub(crate) spinning_until_ns: AtomicU64,
    pub(crate) lead: Overshoot,
    pub(crate) classes: [Counted; 3],
    /// Reads from the page cache: not delayed, not counted as reads.
    pub(crate) cached_reads: AtomicU64,
    /// Reads of file systems that cannot tell whether the page cache has the data: delayed as if it had not.
    pub(crate) unseen_reads: AtomicU64,
    /// Buffered writes: the kernel writes them later.
    pub(crate) buffered_writes: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Operations without a delay, or with a shortened one, because the lease had ended.
    pub(crate) lapsed: AtomicU64,
    pub(crate) banks: [Bank; BANKS],
}

/// One class of operations: read, write, sync.
#[repr(C)]
pub(crate) struct Counted {
    pub(crate) operations: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) delayed: AtomicU64,
    pub(crate) own: Histogram,
    pub(crate) asked: Histogram,
    pub(crate) got: Histogram,
}

impl Shared {
    /// The bank that a word in force names.
    pub(crate) fn bank(&self, word: u32) -> Option<&Bank> {
        let number = word & ((1 << BANK_BITS) - 1);
        self.banks.get(number.checked_sub(1)? as usize)
    }
}
