// SPDX-License-Identifier: Apache-2.0
//! The work that ended in each short slot of a phase: counters, and a coarse histogram that is small enough for each slot.

use evidence::TimelinePoint;
use std::collections::BTreeMap;

/// Buckets in each octave; a bucket is 1.6 % wide.
const STEPS: u64 = 64;
const STEP_BITS: u32 = 6;
/// Up to 2^42 ns, more than an hour; larger values count in the last bucket.
const BUCKETS: usize = 37 * 64;

fn bucket(ns: u64) -> usize {
    let shift = (63 - (ns | STEPS).leading_zeros()) - STEP_BITS;
    let index = u64::from(shift) * STEPS + (ns >> shift);
    usize::try_from(index).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn highest(index: usize) -> u64 {
    let index = index as u64;
    let shift = (index / STEPS).saturating_sub(1);
    ((index - shift * STEPS + 1) << shift) - 1
}

/// A sparse histogram with buckets of 1.6 %: it stores non-empty buckets only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coarse {
    counts: BTreeMap<u16, u64>,
    max_ns: u64,
}

impl Coarse {
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The highest value of the bucket with the percentile, but at most the largest recorded value. 0 when empty.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let total = self.count();
        // A rank is at most the count.
        #[allow(clippy::cast_possible_truncation)]
        let rank = ((percentile / 100.0 * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (index, count) in &self.counts {
            seen += count;
            if seen >= rank {
                return highest(usize::from(*index)).min(self.max_ns);
            }
        }
        0
    }

    pub(super) fn add(&mut self, slot: &Slot) {
        for (index, count) in &slot.buckets {
            *self.counts.entry(*index).or_default() += u64::from(*count);
        }
        self.max_ns = self.max_ns.max(slot.max_ns);
    }
}

/// One worker's part of one slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    pub(crate) index: u32,
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    pub(crate) others: u32,
    pub(crate) transactions: u32,
    pub(crate) errors: u32,
    pub(super) reconnects: u32,
    max_ns: u64,
    buckets: Vec<(u16, u32)>,
}

/// The slot that is being filled.
pub(crate) struct Filling {
    pub(crate) slot: Slot,
    counts: Vec<u32>,
    start_ns: u64,
    length_ns: u64,
    end_ns: u64,
}

impl Filling {
    pub(crate) fn new(start_ns: u64, length_ns: u64) -> Self {
        Self { slot: Slot::default(), counts: vec![0; BUCKETS], start_ns, length_ns, end_ns: start_ns + length_ns }
    }

    #[inline]
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns
    }

    #[inline]
    pub(crate) fn transaction(&mut self, response_ns: u64) {
        self.slot.transactions += 1;
        self.slot.max_ns = self.slot.max_ns.max(response_ns);
        self.counts[bucket(response_ns)] += 1;
    }

    /// The slot so far; continues with the slot of `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64) -> Slot {
        let mut done = std::mem::take(&mut self.slot);
        for (index, count) in self.counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            done.buckets.push((u16::try_from(index).unwrap_or(u16::MAX), std::mem::take(count)));
        }
        let index = now_ns.saturating_sub(self.start_ns) / self.length_ns;
        self.slot.index = u32::try_from(index).unwrap_or(u32::MAX);
        self.end_ns = self.start_ns + (index + 1) * self.length_ns;
        done
    }
}

/// The finished slots of one worker that nobody has collected yet.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) slots: Vec<Slot>,
    /// The slot that the worker fills now.
    pub(crate) filling: u32,
}

/// The numbers that stay of a slot.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    queries: u64,
    transactions: u64,
    errors: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

/// The slots of all workers, put together as they come. Of a slot that nobody fills any more only some numbers stay: a load may run for days, on a host
/// whose memory is measured.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    open: BTreeMap<u32, (Counts, Coarse)>,
    closed: BTreeMap<u32, Counts>,
}

impl Collected {
    /// A slot that comes after its number was closed adds to all but the percentiles.
    pub(crate) fn add(&mut self, slot: &Slot) {
        let counts = match self.closed.get_mut(&slot.index) {
            Some(counts) => counts,
            None => {
                let (counts, responses) = self.open.entry(slot.index).or_default();
                responses.add(slot);
                counts
            }
        };
        counts.queries += u64::from(slot.reads) + u64::from(slot.writes) + u64::from(slot.others);
        counts.transactions += u64::from(slot.transactions);
        counts.errors += u64::from(slot.errors);
        counts.max_us = counts.max_us.max(slot.max_ns / 1000);
    }

    /// Closes the slots that nobody fills: those before `current` that are in nobody's `filling`.
    pub(crate) fn close(&mut self, current: u32, filling: &[u32]) {
        let is_over = |index: &u32| *index < current && !filling.contains(index);
        let over: Vec<u32> = self.open.keys().copied().filter(is_over).collect();
        for index in over {
            let Some((counts, responses)) = self.open.remove(&index) else { continue };
            let (p50_us, p99_us) = (responses.percentile_ns(50.0) / 1000, responses.percentile_ns(99.0) / 1000);
            self.closed.insert(index, Counts { p50_us, p99_us, ..counts });
        }
    }

    /// A point for each slot of a phase, also for empty slots. The last one ends with the phase.
    pub(crate) fn points(mut self, start_us: u64, length_us: u64, elapsed_us: u64) -> Vec<TimelinePoint> {
        self.close(u32::MAX, &[]);
        let point = |index: u64| {
            let after_us = index * length_us;
            let counts = u32::try_from(index).ok().and_then(|index| self.closed.get(&index)).copied();
            let Counts { queries, transactions, errors, p50_us, p99_us, max_us } = counts.unwrap_or_default();
            let (at_us, length_us) = (start_us + after_us, length_us.min(elapsed_us - after_us));
            TimelinePoint {
                at_us,
                length_us,
                queries,
                transactions,
                errors,
                p50_us,
                p99_us,
                max_us,
                ..TimelinePoint::default()
            }
        };
        (0..elapsed_us.div_ceil(length_us)).map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_narrow_and_holds_its_value(ns in 0u64..(1 << 42)) {
            let top = highest(bucket(ns));
            prop_assert!(top >= ns && top - ns <= ns / STEPS, "{ns} in a bucket up to {top}");
            prop_assert!(top == 0 || bucket(top) == bucket(ns));
        }
    }

    #[test]
    fn what_is_beyond_the_last_bucket_counts_in_it() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn slots_without_work_are_there() {
        let mut filling = Filling::new(0, 1000);
        filling.transaction(50);
        let first = filling.take(3500);
        assert_eq!(filling.slot.index, 3);
        assert!(!filling.is_over(3999) && filling.is_over(4000));
        filling.transaction(10_000);
        let mut collected = Collected::default();
        [first, filling.take(4000)].iter().for_each(|slot| collected.add(slot));
        let points = collected.points(500, 1, 5);
        assert_eq!(points.iter().map(|point| point.transactions).collect::<Vec<_>>(), [1, 0, 0, 1, 0]);
        assert_eq!((points[3].at_us, points[3].max_us, points[3].p50_us), (503, 10, 10));
    }

    #[test]
    fn the_last_slot_ends_with_the_phase() {
        let lengths = |elapsed_us| {
            Collected::default()
                .points(500, 100, elapsed_us)
                .iter()
                .map(|point| (point.at_us, point.length_us))
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(230), [(500, 100), (600, 100), (700, 30)]);
        assert_eq!(lengths(200), [(500, 100), (600, 100)]);
    }

    #[test]
    fn a_slot_that_nobody_fills_any_more_is_some_numbers() {
        let mut one = Filling::new(0, 1000);
        let mut other = Filling::new(0, 1000);
        let mut collected = Collected::default();
        let mut whole = Collected::default();
        for nth in 0..1000 {
            one.transaction(1_000_000 + nth);
            let slot = one.take((nth + 1) * 1000);
            collected.add(&slot);
            whole.add(&slot);
            // the other worker waits for one answer all the time, and fills the first slot
            collected.close(one.slot.index - 1, &[one.slot.index, 0]);
            assert!(collected.open.len() <= 3, "{}", collected.open.len());
        }
        other.transaction(9_000_000);
        let slot = other.take(1_000_000);
        collected.add(&slot);
        whole.add(&slot);
        let points = collected.points(0, 1, 1000);
        assert_eq!(points, whole.points(0, 1, 1000));
        assert_eq!((points[0].transactions, points[0].p99_us, points[0].max_us), (2, 9000, 9000));
        assert_eq!(points.iter().map(|point| point.transactions).sum::<u64>(), 1001);
    }
}
