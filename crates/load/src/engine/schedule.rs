// SPDX-License-Identifier: Apache-2.0
//! The intended starts of an open loop: one sequence for all connections and workers. No I/O; the only other state is the random generator.

use evidence::Arrivals;
use std::sync::{Mutex, PoisonError};
use workload::Rng;
use workload::rand_core::{Rng as _, SeedableRng as _};

/// Makes the seed of the schedule differ from the seeds of the connections.
const STREAM: u64 = 0x5c4e_d01e;

/// A worker with a free connection claims the next intended start, waits for its time, and starts it. The first free connection
/// gets the oldest start: one queue, first in, first out.
pub(super) struct Schedule {
    cursors: Mutex<Cursors>,
    end_ns: u64,
}

struct Cursors {
    /// The next start to be claimed.
    claim: Cursor,
    /// Runs ahead of `claim`, to count the starts whose time has come.
    due: Cursor,
}

/// One pass over the sequence.
#[derive(Clone)]
struct Cursor {
    index: u64,
    start_ns: f64,
    gap_ns: f64,
    /// The present position, relative to the start.
    offset_ns: f64,
    random: Option<Rng>,
}

impl Schedule {
    /// `None` for a closed loop. There is no intended start at `end_ns` or later.
    pub(super) fn new(arrivals: Arrivals, seed: u64, start_ns: u64, end_ns: u64) -> Option<Self> {
        let (per_second, random) = match arrivals {
            Arrivals::Closed | Arrivals::Recorded { .. } => return None,
            Arrivals::Constant { per_second } => (per_second, None),
            Arrivals::Poisson { per_second } => (per_second, Some(Rng::seed_from_u64(seed ^ STREAM))),
        };
        let mut claim =
            Cursor { index: 0, start_ns: start_ns as f64, gap_ns: 1e9 / per_second, offset_ns: 0.0, random };
        claim.offset_ns = claim.first_offset();
        Some(Self { cursors: Mutex::new(Cursors { due: claim.clone(), claim }), end_ns })
    }

    /// Claims the next intended start. `None`: there are no more.
    pub(super) fn claim(&self) -> Option<u64> {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cursors.claim.at_ns();
        if at >= self.end_ns {
            return None;
        }
        cursors.claim.advance();
        Some(at)
    }

    /// Calls `see` with each unclaimed start that was due at `now_ns`, in their order.
    pub(super) fn each_due(&self, now_ns: u64, mut see: impl FnMut(u64)) {
        let mut due = self.cursors.lock().unwrap_or_else(PoisonError::into_inner).claim.clone();
        while due.at_ns() <= now_ns && due.at_ns() < self.end_ns {
            see(due.at_ns());
            due.advance();
        }
    }

    /// How many unclaimed starts were due at `now_ns`.
    pub(super) fn backlog(&self, now_ns: u64) -> u64 {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        while cursors.due.at_ns() <= now_ns && cursors.due.at_ns() < self.end_ns {
            cursors.due.advance();
        }
        cursors.due.index.saturating_sub(cursors.claim.index)
    }
}

impl Cursor {
    fn at_ns(&self) -> u64 {
        // Both are far below 2^63 ns, which is 292 years.
        #[allow(clippy::cast_possible_truncation)]
        {
            (self.start_ns + self.offset_ns) as u64
        }
    }

    fn first_offset(&mut self) -> f64 {
        if self.random.is_some() { self.random_gap() } else { 0.0 }
    }

    fn advance(&mut self) {
        self.index += 1;
        self.offset_ns = match self.random {
            // Computed from the index, so that rounding errors do not add up.
            None => self.index as f64 * self.gap_ns,
            Some(_) => self.offset_ns + self.random_gap(),
        };
    }

    /// Exponentially distributed with mean `gap_ns`: `-ln(1 - u)`, u uniform in [0, 1).
    fn random_gap(&mut self) -> f64 {
        let bits = self.random.as_mut().map_or(0, |random| random.next_u64() >> 11);
        -(1.0 - bits as f64 / (1_u64 << 53) as f64).ln() * self.gap_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_constant_rate_has_even_gaps_and_an_end() {
        let schedule = Schedule::new(Arrivals::Constant { per_second: 3.0 }, 1, 100, SECOND + 100).unwrap();
        let claimed: Vec<_> = std::iter::from_fn(|| schedule.claim()).collect();
        assert_eq!(claimed, [100, 333_333_433, 666_666_766]);
    }

    #[test]
    fn poisson_has_the_mean_and_the_spread_of_an_exponential() {
        let schedule = Schedule::new(Arrivals::Poisson { per_second: 1e6 }, 7, 0, SECOND).unwrap();
        let claimed: Vec<_> = std::iter::from_fn(|| schedule.claim()).collect();
        let gaps: Vec<f64> = claimed.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1000.0).abs() < 5.0, "mean {mean}");
        assert!((deviation - 1000.0).abs() < 10.0, "deviation {deviation}");
    }

    #[test]
    fn the_backlog_is_what_is_due_and_not_claimed() {
        let schedule = Schedule::new(Arrivals::Constant { per_second: 1000.0 }, 1, 0, SECOND).unwrap();
        assert_eq!(schedule.backlog(9_999_999), 10);
        for _ in 0..4 {
            schedule.claim();
        }
        assert_eq!(schedule.backlog(9_999_999), 6);
        let mut due = Vec::new();
        schedule.each_due(9_999_999, |at| due.push(at));
        assert_eq!(due, [4_000_000, 5_000_000, 6_000_000, 7_000_000, 8_000_000, 9_000_000]);
        assert_eq!(schedule.backlog(u64::MAX), 996, "nothing is due beyond the end");
        while schedule.claim().is_some() {}
        assert_eq!(schedule.backlog(u64::MAX), 0);
    }
}
