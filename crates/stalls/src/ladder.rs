// SPDX-License-Identifier: Apache-2.0
//! A query that waits for a free page under `backoff` sleeps by a fixed ladder ([`capability::Ladder`]), so that its stalls
//! can have only certain lengths. Each failed try is counted in `Innodb_buffer_pool_wait_free`. So that counter is a clock.

use capability::Ladder;

/// The lengths that stalls can have on one host.
#[derive(Debug, Clone)]
pub struct Lattice {
    /// For each number of failed tries: the sum of the sleeps that were asked for, and how many sleeps there were.
    asked: Vec<(u64, u64)>,
    /// By how much each sleep is longer than the server asked for, in microseconds: timer slack and waking up.
    overhead_us: f64,
}

/// Longer stalls are not looked for in a log, in microseconds. The refiller sleeps a second at most.
const LONGEST_US: u64 = 120_000_000;

impl Lattice {
    /// The overhead of a sleep on an idle host with the kernel's usual timer slack of 50 us.
    pub const USUAL_OVERHEAD_US: f64 = 60.0;

    pub fn new(ladder: &Ladder, overhead_us: f64) -> Self {
        let mut asked = vec![(0, 0)];
        let (mut slept, mut sleeps) = (0_u64, 0_u64);
        for n in 0.. {
            slept += ladder.wait_us(n);
            sleeps += u64::from(ladder.is_sleep(n));
            asked.push((slept, sleeps));
            if slept > LONGEST_US || asked.len() > 100_000 {
                break;
            }
        }
        Self { asked, overhead_us }
    }

    #[must_use]
    pub fn with_overhead(mut self, overhead_us: f64) -> Self {
        self.overhead_us = overhead_us;
        self
    }

    pub fn overhead_us(&self) -> f64 {
        self.overhead_us
    }

    fn point(&self, (slept, sleeps): (u64, u64)) -> f64 {
        slept as f64 + self.overhead_us * sleeps as f64
    }

    /// T(n): how long a stall is that ends after `n` failed tries, in microseconds.
    pub fn length_us(&self, n: usize) -> f64 {
        self.asked.get(n).or(self.asked.last()).map_or(0.0, |asked| self.point(*asked))
    }

    /// The same for a number of tries that is not whole, such as the mean of several stalls.
    pub fn length_us_of(&self, tries: f64) -> f64 {
        let last = self.asked.len() - 1;
        if tries > last as f64 {
            // the ladder repeats itself: its mean tells so long a wait well enough
            return self.length_us(last) / last as f64 * tries;
        }
        let whole = tries.max(0.0).floor();
        let below = self.length_us(index(whole));
        below + (tries.max(0.0) - whole) * (self.length_us(index(whole + 1.0)) - below)
    }

    /// N(D): the failed tries within a stall of so many microseconds.
    pub fn tries(&self, length_us: f64) -> usize {
        self.asked.partition_point(|asked| self.point(*asked) <= length_us).saturating_sub(1)
    }

    /// The number of tries of the ladder's length that is nearest, and the distance to that length, in microseconds.
    pub fn nearest(&self, length_us: f64) -> (usize, f64) {
        let below = self.tries(length_us);
        let distance = |n: usize| (self.length_us(n) - length_us).abs();
        if distance(below + 1) < distance(below) { (below + 1, distance(below + 1)) } else { (below, distance(below)) }
    }

    /// The probability that a length in this region, which has nothing to do with the ladder, lies so near to one of its lengths by chance.
    pub fn chance(&self, length_us: f64, tolerance_us: f64) -> f64 {
        // a long sleep to either side
        const REGION_US: f64 = 20_000.0;
        let from = self.tries((length_us - REGION_US).max(0.0));
        let to = self.tries(length_us + REGION_US);
        let (first, last) = (self.length_us(from), self.length_us(to));
        let mut covered = 0.0;
        let mut until = first;
        for n in from..=to {
            let (low, high) = (self.length_us(n) - tolerance_us, (self.length_us(n) + tolerance_us).min(last));
            covered += (high - low.max(until)).max(0.0);
            until = high.max(until);
        }
        let region = last - first;
        if region > 0.0 { (covered / region).min(1.0) } else { 1.0 }
    }
}

/// A number that is neither negative nor infinite, as an index.
fn index(number: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded, and not negative")]
    let index = number.clamp(0.0, 1e9) as usize;
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use capability::LADDER;

    fn ms(n: usize) -> f64 {
        (Lattice::new(&LADDER, 60.0).length_us(n) / 10.0).round() / 100.0
    }

    #[test]
    fn the_sleeps_of_a_traced_call() {
        let sleeps: Vec<u64> = (3..77).map(|n| LADDER.wait_us(n)).collect();
        let mut expected = vec![1, 2, 4, 16, 16, 32, 32, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
        expected.extend([10_000; 18]);
        expected.extend([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]);
        expected.extend([10_000; 18]);
        expected.extend([1, 2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(sleeps, expected);
        assert_eq!([0, 1, 2].map(|n| LADDER.wait_us(n)), [0; 3]);
    }

    #[test]
    fn lengths_and_tries_answer_each_other() {
        let computed = [16, 18, 37, 51, 69, 83, 133].map(ms);
        assert_eq!(computed, [2.9, 9.16, 198.5, 215.72, 396.8, 414.02, 793.4]);
        let lattice = Lattice::new(&LADDER, 60.0);
        let tries = [5.0, 50.0, 78.0, 100.0, 200.0, 555.0, 1000.0, 2000.0].map(|ms| lattice.tries(ms * 1000.0));
        assert_eq!(tries, [16, 22, 25, 27, 46, 97, 177, 338]);
        for n in 0..500 {
            let (nearest, distance) = lattice.nearest(lattice.length_us(n) + 1.0);
            assert!(distance <= 1.0 && lattice.length_us(nearest) >= lattice.length_us(n), "{n}: {nearest}");
        }
        assert!((lattice.length_us_of(18.5) - 13_289.0).abs() < 1.0);
    }

    #[test]
    fn in_the_long_sleeps_one_length_in_thirty_is_near_by_chance() {
        let lattice = Lattice::new(&LADDER, 60.0);
        let chance = lattice.chance(300_000.0, 150.0);
        assert!((0.025..0.035).contains(&chance), "{chance}");
        assert!(lattice.chance(398_000.0, 300.0) > 2.0 * chance, "near the beginning of the ladder they lie closer");
    }
}
