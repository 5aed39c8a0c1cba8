// SPDX-License-Identifier: Apache-2.0
//! Counts of times, in shared memory: 128 buckets for each doubling, so that a bucket's middle is within 0.4 % of what it counts.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: u32 = 7;
const EACH: usize = 1 << BITS;
/// The buckets cover times up to 2^37 ns, which is more than two minutes; longer times are counted in the last bucket.
const BUCKETS: usize = (37 - BITS as usize + 1) * EACH;

/// A histogram with all zeros is empty.
#[repr(C)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
}

impl Histogram {
    pub(crate) fn record(&self, ns: u64) {
        if let Some(count) = self.counts.get(bucket(ns)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// The middle of each bucket that is not empty, and its count.
    #[cfg(not(wringer_library))]
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.counts.iter().map(|count| count.load(Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(index, count)| (middle(index), count))
    }
}

#[allow(clippy::cast_possible_truncation)] // a bucket's number is small
fn bucket(ns: u64) -> usize {
    if ns < EACH as u64 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros() - BITS;
    let within = (ns >> power) as usize - EACH;
    ((power as usize + 1) * EACH + within).min(BUCKETS - 1)
}

#[cfg(not(wringer_library))]
fn middle(index: usize) -> u64 {
    let (power, within) = (index / EACH, (index % EACH) as u64);
    match power {
        0 => within,
        _ => {
            let width = 1u64 << (power - 1);
            (EACH as u64 + within) * width + width / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_near_to_what_it_counts() {
        for ns in [0, 1, 127, 128, 129, 1000, 65_535, 1_000_003, 10_000_000, 99_999_999_999] {
            let shown = middle(bucket(ns));
            assert!(shown.abs_diff(ns) as f64 <= ns as f64 * 0.004 + 0.5, "{ns}: {shown}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!((0..4000).map(bucket).collect::<Vec<_>>().windows(2).filter(|two| two[1] < two[0]).count(), 0);
    }
}
