// SPDX-License-Identifier: Apache-2.0
//! What all processes of a squeezed program share with their keeper: one map of anonymous memory for each slow directory.
//!
//! Everything in it is an atomic, so that any process may read and write at any time, and all zeros is a valid state: nothing is delayed.

use crate::bank::Bank;
use crate::histogram::Histogram;
use crate::overshoot::Overshoot;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Of a map that is ready; another one for each layout.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"WRPRELO2");
pub(crate) const PATH_BYTES: usize = 4096;
/// A model is written where no process reads: so many changes later its place is used again.
pub(crate) const BANKS: usize = 4;
/// The bits of the word in force that name the bank; the others count the changes.
pub(crate) const BANK_BITS: u32 = 3;
/// The library stops to delay when the keeper has not renewed the lease for this long.
#[cfg(not(wringer_library))]
pub(crate) const LEASE_NS: u64 = 10_000_000_000;

/// The environment variable that names the maps: `FD:PID`, separated by commas: the descriptor that was inherited, and the keeper, which
/// has it open under the same number, should the program have closed it before it started another one.
pub(crate) const MAPS: &str = "WRINGER_PRELOAD_MAPS";
/// Directories that one program can have squeezed.
pub(crate) const MOST_MAPS: usize = 8;

#[repr(C)]
pub(crate) struct Shared {
    pub(crate) magic: AtomicU64,
    /// Canonical, without a slash at the end.
    pub(crate) directory_bytes: AtomicU32,
    pub(crate) directory: [AtomicU8; PATH_BYTES],
    /// 0: pass everything through, and count nothing. Else the number of changes and, in the lowest bits, one more than the bank.
    /// Who waits sleeps on it (futex(2)).
    pub(crate) in_force: AtomicU32,
    /// On `CLOCK_MONOTONIC`.
    pub(crate) lease_until_ns: AtomicU64,
    /// Processes in which the library has found this map, since the start.
    pub(crate) attached: AtomicU32,
    /// Until when somebody spins the last microseconds of its wait: the others sleep.
    pub(crate) spinning_until_ns: AtomicU64,
    pub(crate) lead: Overshoot,
    pub(crate) classes: [Counted; 3],
    /// Answered from the page cache: not delayed, not counted as reads.
    pub(crate) cached_reads: AtomicU64,
    /// Where the file system does not say whether it has to read: delayed as if it had.
    pub(crate) unseen_reads: AtomicU64,
    /// Buffered: the kernel writes them later.
    pub(crate) buffered_writes: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Not delayed, or not to the end, because nobody renewed the lease.
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
    /// The model that a word in force names.
    pub(crate) fn bank(&self, word: u32) -> Option<&Bank> {
        let number = word & ((1 << BANK_BITS) - 1);
        self.banks.get(number.checked_sub(1)? as usize)
    }
}
