// SPDX-License-Identifier: Apache-2.0
//! Plain draws from a load's random source: a share, an index.
//!
//! The source itself is [`crate::Rng`]: fast, seeded, not secret, the same numbers on every machine.

use crate::Rng;
use crate::rand_core::Rng as _;

/// What distributions and workloads draw. Never allocates.
pub trait Draw {
    /// In `0.0..1.0`, a multiple of 2^-53.
    fn unit(&mut self) -> f64;

    /// In `0..count`; 0 when `count` is 0. The bias of the multiply-and-shift is below `count` / 2^64.
    fn below(&mut self, count: u64) -> u64;
}

impl Draw for Rng {
    #[inline]
    fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    #[inline]
    fn below(&mut self, count: u64) -> u64 {
        // the high half of a 128-bit product of two 64-bit numbers fits 64 bits
        #[allow(clippy::cast_possible_truncation)]
        let high = ((u128::from(self.next_u64()) * u128::from(count)) >> 64) as u64;
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand_core::SeedableRng as _;

    #[test]
    fn unit_and_below_stay_in_range_and_fill_it() {
        let mut rng = Rng::seed_from_u64(1);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&rng.unit()));
            seen[usize::try_from(rng.below(10)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
