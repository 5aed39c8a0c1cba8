// SPDX-License-Identifier: Apache-2.0
//! Waits that a probe saw: calls of the function in which queries wait for a free page, from their begin to their return.

use super::track::{LEAST_SAMPLES, Wait, Way};
use std::collections::{HashMap, VecDeque};

/// A thread came to the function, or returned from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    pub thread: u32,
    /// Microseconds since the watch began. Hits come in the order of time.
    pub at_us: u64,
    pub is_return: bool,
}

/// The probed function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The function's symbol.
    pub symbol: &'static str,
    /// The shortest call that counts as a wait, in microseconds.
    pub least_us: u64,
}

/// The most recent calls that are kept. Samples that lie in such a call are left out.
const MOST_RECENT: usize = 5000;

/// The calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Calls {
    least_us: u64,
    open: HashMap<u32, u64>,
    recent: VecDeque<Wait>,
}

impl Calls {
    pub(super) fn new(least_us: u64) -> Self {
        Self { least_us, ..Self::default() }
    }

    /// Returns the calls that were waits. A hit whose other half is missing is ignored: the record of the begin or of the return was lost, or the call began before the
    /// probe.
    pub(super) fn take(&mut self, hits: &[Hit]) -> Vec<Wait> {
        let mut waits = Vec::new();
        for hit in hits {
            if !hit.is_return {
                self.open.insert(hit.thread, hit.at_us);
            } else if let Some(from_us) = self.open.remove(&hit.thread) {
                let wait = call(hit.thread, from_us, hit.at_us);
                waits.extend(Some(wait).filter(|it| it.length_us() >= self.least_us));
            }
        }
        self.recent.extend(waits.iter().copied());
        let too_many = self.recent.len().saturating_sub(MOST_RECENT);
        self.recent.drain(..too_many);
        waits
    }

    /// The calls that have not returned when watching ends.
    pub(super) fn stop(&mut self, at_us: u64) -> Vec<Wait> {
        let open = std::mem::take(&mut self.open);
        let waits = open.into_iter().map(|(thread, from_us)| Wait { is_open: true, ..call(thread, from_us, at_us) });
        waits.filter(|it| it.length_us() >= self.least_us).collect()
    }

    pub(super) fn gone(&mut self, thread: u32) {
        self.open.remove(&thread);
    }

    /// Whether the probe tells this wait, or will tell it: at least half of it lies in a call of the function.
    pub(super) fn cover(&self, wait: &Wait) -> bool {
        let shared = |from_us: u64, to_us: u64| to_us.min(wait.to_us).saturating_sub(from_us.max(wait.from_us));
        let told = self.recent.iter().rev().filter(|it| it.thread == wait.thread);
        let told: u64 = told.map(|it| shared(it.from_us, it.to_us)).sum();
        let open = self.open.get(&wait.thread).map_or(0, |from_us| shared(*from_us, wait.to_us));
        (told + open).saturating_mul(2) >= wait.length_us()
    }
}

/// Threads that have ended, until all their hits are read: the hits of the last millisecond are read with the next ones.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    new: Vec<u32>,
    /// Hits were read once after their end.
    heard: Vec<u32>,
}

impl Leaving {
    pub(super) fn add(&mut self, thread: u32) {
        self.new.push(thread);
    }

    /// Hits were read. Returns the threads of which no more hits come.
    pub(super) fn over(&mut self) -> Vec<u32> {
        std::mem::replace(&mut self.heard, std::mem::take(&mut self.new))
    }

    pub(super) fn all(&mut self) -> Vec<u32> {
        self.over().into_iter().chain(self.over()).collect()
    }
}

fn call(thread: u32, from_us: u64, to_us: u64) -> Wait {
    Wait {
        thread,
        way: Way::FreePage,
        from_us,
        to_us,
        samples: LEAST_SAMPLES,
        turns: None,
        is_cut: false,
        is_open: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(thread: u32, at_us: u64, is_return: bool) -> Hit {
        Hit { thread, at_us, is_return }
    }

    #[test]
    fn long_calls_are_waits_and_hits_without_their_fellow_are_not() {
        let mut calls = Calls::new(5_000);
        let hits = [
            hit(1, 0, false),
            hit(2, 100, false),
            hit(1, 4_999, true),
            hit(3, 5_000, true),
            hit(1, 6_000, false),
            hit(2, 9_100, true),
        ];
        let waits = calls.take(&hits);
        assert_eq!(waits.iter().map(|it| (it.thread, it.from_us, it.to_us)).collect::<Vec<_>>(), [(2, 100, 9_100)]);
        // the record of the return of thread 1 was lost
        let waits = calls.take(&[hit(1, 50_000, false), hit(1, 55_000, true), hit(4, 60_000, false)]);
        assert_eq!(waits.iter().map(|it| (it.thread, it.from_us)).collect::<Vec<_>>(), [(1, 50_000)]);
        assert_eq!(calls.stop(64_999), []);
    }

    #[test]
    fn samples_of_a_call_are_the_probes_and_others_are_not() {
        let mut calls = Calls::new(5_000);
        calls.take(&[hit(1, 10_000, false), hit(1, 60_000, true), hit(2, 10_000, false)]);
        let sampled = |thread, from_us, to_us| Wait { way: Way::Asleep, ..call(thread, from_us, to_us) };
        assert!(calls.cover(&sampled(1, 14_000, 66_000)));
        assert!(!calls.cover(&sampled(1, 50_000, 90_000)), "a quarter of it");
        assert!(calls.cover(&sampled(2, 14_000, 66_000)), "it has not returned");
        assert!(!calls.cover(&sampled(3, 14_000, 66_000)));
        let cut = calls.stop(30_000);
        assert_eq!(cut.iter().map(|it| (it.thread, it.length_us())).collect::<Vec<_>>(), [(2, 20_000)]);
    }
}
