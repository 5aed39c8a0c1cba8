// SPDX-License-Identifier: Apache-2.0
//! Random numbers from a seed: each client and each buffer pool instance has a stream of its own, so that what one draws does not move
//! what others draw.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

#[derive(Debug, Clone)]
pub(crate) struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// The stream of client `index`, counted from 0.
    pub(crate) fn of_client(seed: u64, index: usize) -> Self {
        Self::of(seed, 2 * index as u64 + 1)
    }

    /// The stream of buffer pool instance `index`, counted from 0.
    pub(crate) fn of_instance(seed: u64, index: usize) -> Self {
        Self::of(seed, 2 * index as u64 + 2)
    }

    fn of(seed: u64, stream: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ (stream << 32)))
    }

    /// From 0 up to, and without, 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number whose mean is `mean`: the whole part, and one more as often as the rest asks. A whole mean draws nothing.
    pub(crate) fn count(&mut self, mean: f64) -> u64 {
        let rest = mean.fract();
        #[allow(clippy::cast_possible_truncation)] // limited when the settings were checked
        let whole = mean.trunc() as u64;
        if rest > 0.0 && self.share() < rest { whole + 1 } else { whole }
    }

    /// A gap of a Poisson stream, in whole microseconds, given back in nanoseconds.
    pub(crate) fn gap_ns(&mut self, mean_ns: f64) -> u64 {
        let us = -(1.0 - self.share()).ln() * mean_ns / 1000.0;
        #[allow(clippy::cast_possible_truncation)] // saturates
        let whole = us.round() as u64;
        whole.saturating_mul(1000)
    }

    /// A number from 0 up to, and without, `count`.
    pub(crate) fn one_of(&mut self, count: usize) -> usize {
        #[allow(clippy::cast_possible_truncation)] // below count
        let index = (self.share() * count as f64) as usize;
        index
    }
}
