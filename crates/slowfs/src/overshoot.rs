// SPDX-License-Identifier: Apache-2.0
//! The overshoot of sleeps: how much later than asked this host wakes a thread. Learnt while the layer works.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The running median of the overshoot, separately for short and long sleeps: a processor that was idle for long sleeps deeper and
/// wakes later. A thread that must be awake at a time asks to be woken this much before it.
///
/// All zeros is a valid state, and there are no pointers: the preload layer, which compiles this file too, keeps it in shared memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Overshoot {
    median_ns: [AtomicU64; BOUNDS_NS.len() + 1],
}

/// The upper bounds of the sleeps of each median; the last median is for all longer sleeps.
const BOUNDS_NS: [u64; 4] = [100_000, 500_000, 3_000_000, 30_000_000];
/// The first estimate: the overshoot of an idle virtual processor.
const FIRST_NS: u64 = 30_000;
/// A host that wakes later than this is overloaded. A thread that asked to be woken even earlier would only spin.
const LARGEST_NS: u64 = 80_000;

impl Overshoot {
    pub(crate) fn new() -> Self {
        let lead = Self { median_ns: [const { AtomicU64::new(0) }; BOUNDS_NS.len() + 1] };
        lead.begin();
        lead
    }

    /// Forgets everything it has learnt.
    pub(crate) fn begin(&self) {
        self.median_ns.iter().for_each(|median| median.store(FIRST_NS, Relaxed));
    }

    /// How long before the wanted time to end a sleep of about `sleep_ns`.
    pub(crate) fn of(&self, sleep_ns: u64) -> u64 {
        self.slot(sleep_ns).load(Relaxed)
    }

    /// Learns that a sleep of about `sleep_ns` ended `overshoot_ns` too late. The median moves one step towards the new value: up
    /// and down steps balance when half of the overshoots lie on each side.
    pub(crate) fn learn(&self, sleep_ns: u64, overshoot_ns: u64) {
        let slot = self.slot(sleep_ns);
        let median = slot.load(Relaxed);
        let step = (median / 32).max(100);
        let next = if overshoot_ns > median { median + step } else { median.saturating_sub(step) };
        slot.store(next.min(LARGEST_NS), Relaxed);
    }

    /// All medians in nanoseconds, shortest sleeps first.
    pub(crate) fn all(&self) -> [u64; BOUNDS_NS.len() + 1] {
        self.median_ns.each_ref().map(|median| median.load(Relaxed))
    }

    fn slot(&self, sleep_ns: u64) -> &AtomicU64 {
        let index = BOUNDS_NS.iter().position(|bound| sleep_ns < *bound).unwrap_or(BOUNDS_NS.len());
        &self.median_ns[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_median_of_a_skewed_overshoot() {
        let lead = Overshoot::new();
        for round in 0..2_000u64 {
            let overshoot = if round % 10 == 0 { 900_000 } else { 8_000 + round % 7 * 100 };
            lead.learn(1_000_000, overshoot);
        }
        assert!((8_000..9_500).contains(&lead.of(1_000_000)), "{}", lead.of(1_000_000));
        assert_eq!(lead.of(10_000_000), FIRST_NS, "other lengths are learnt apart");
    }

    #[test]
    fn never_leads_further_than_its_bound() {
        let lead = Overshoot::new();
        (0..10_000).for_each(|_| lead.learn(50_000, 10_000_000));
        assert_eq!(lead.of(50_000), LARGEST_NS);
    }
}
