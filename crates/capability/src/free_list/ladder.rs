// SPDX-License-Identifier: Apache-2.0
//! How long a query waits before each try under `backoff`.

/// Percona Server's `buf_LRU_get_free_block`, `buf/buf0lru.cc`: the same constants in 5.6, 5.7, 8.0 and 8.4. They were read in XtraDB 5.6.36-82.0 and
/// in Percona Server 8.0.32; the arguments of the sleeps were traced in MariaDB 10.1.23.
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
    /// After these, the wait after try `n` is 2 to the power of (`n` - `shift`), in microseconds.
    pub shift: u32,
    /// The exponent is taken modulo this number, the count of bits in which the power is computed: after the last bit the wait falls back to 1 us.
    pub modulus: u32,
    /// The longest wait.
    pub longest_us: u32,
    /// Before this try the thread only gives up its CPU. From this try on it sleeps, and the host's overhead is added to each sleep.
    pub sleeps_from: u32,
}

impl Ladder {
    /// The wait that is asked for after failed try `n` of one call, counted from 0, without the overhead of a sleep.
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

    /// T(n): the length of a stall that ends at try `n`, when each sleep takes `overhead_us` more than asked for.
    pub fn length_us(&self, n: u32, overhead_us: u64) -> u64 {
        let waits: u64 = (0..n).map(|n| self.wait_us(n)).sum();
        waits + overhead_us * u64::from(n.saturating_sub(self.sleeps_from))
    }

    /// N(D): the number of tries that fail in a stall of `length_us`. `Innodb_buffer_pool_wait_free` grows by this number.
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
