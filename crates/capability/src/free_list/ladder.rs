// SPDX-License-Identifier: Apache-2.0
//! How long a query waits before each try under `backoff`.

/// Percona Server's `buf_LRU_get_free_block`, `buf/buf0lru.cc`: the same constants in 5.6, 5.7, 8.0 and 8.4. Read in XtraDB 5.6.36-82.0 and in
/// Percona Server 8.0.32; the arguments of the sleeps traced in MariaDB 10.1.23.
pub const LADDER: Ladder = Ladder {
    first_us: [0, 0, 0, 1, 2, 4, 16, 16, 32, 32, 32],
    shift: 5,
    modulus: 32,
    longest_us: 10_000,
    sleeps_from: 3,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// Waits after the first failed tries of one call.
    pub first_us: [u32; 11],
    /// From then on the wait after try `n` is 2 to the power of (`n` - `shift`), in microseconds.
    pub shift: u32,
    /// That power is computed in so many bits: it falls back to 1 us when it has gone through all of them.
    pub modulus: u32,
    /// No wait is longer.
    pub longest_us: u32,
    /// Before this try the thread only gives its CPU up; from it on it sleeps, and each sleep has the host's overhead on top.
    pub sleeps_from: u32,
}

impl Ladder {
    /// What is asked for after failed try `n` of one call, counted from 0: without the overhead of a sleep.
    pub fn wait_us(&self, n: u32) -> u64 {
        let first = usize::try_from(n).ok().and_then(|n| self.first_us.get(n));
        if let Some(us) = first {
            return u64::from(*us);
        }
        let power = n.saturating_sub(self.shift) % self.modulus;
        (1u64 << power).min(u64::from(self.longest_us))
    }

    /// Whether the wait after failed try `n` is a sleep.
    pub fn is_sleep(&self, n: u32) -> bool {
        n >= self.sleeps_from
    }

    /// T(n): how long a stall is that ends at try `n`, when each sleep takes `overhead_us` more than asked for.
    pub fn length_us(&self, n: u32, overhead_us: u64) -> u64 {
        let waits: u64 = (0..n).map(|n| self.wait_us(n)).sum();
        waits + overhead_us * u64::from(n.saturating_sub(self.sleeps_from))
    }

    /// N(D): how many tries failed in a stall of `length_us`. `Innodb_buffer_pool_wait_free` grows by as much.
    pub fn tries(&self, length_us: u64, overhead_us: u64) -> u32 {
        let (mut n, mut at) = (0, 0u64);
        loop {
            let overhead = if self.is_sleep(n) { overhead_us } else { 0 };
            at = at.saturating_add(self.wait_us(n)).saturating_add(overhead);
            if at > length_us || n == u32::MAX {
                return n;
            }
            n += 1;
        }
    }
}
