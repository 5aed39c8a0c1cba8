// SPDX-License-Identifier: Apache-2.0
//! One thread that refills: what it is, how long it sleeps, and how it changes its sleep.

use crate::instance::Done;
use capability::{Adapt, Clock, Progress, Target};
use std::ops::Range;

const MS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Refiller {
    pub(crate) kind: Kind,
    /// The instances that it fills.
    pub(crate) instances: Range<usize>,
    pub(crate) state: State,
    /// A client woke it while it was at work.
    pub(crate) is_called: bool,
    /// The number of its last event: an earlier event is void.
    pub(crate) ticket: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Manager { adapt: Adapt, clock: Clock, sleep_ms: u64, last: Done },
    Cleaner { period_ns: u64, can_be_woken: bool, keeps_half: bool },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum State {
    Asleep,
    /// In a pass that began at `woke_at`; it runs a batch of `instance`.
    AtWork {
        woke_at: u64,
        instance: usize,
        done: Done,
    },
}

impl Refiller {
    /// Its sleep in microseconds.
    pub(crate) fn sleep_us(&self) -> u64 {
        match self.kind {
            Kind::Manager { sleep_ms, .. } => sleep_ms * 1000,
            Kind::Cleaner { period_ns, .. } => period_ns / 1000,
        }
    }
}

/// `buf_lru_manager_adapt_sleep_time`, buf/buf0flu.cc: the new sleep in milliseconds. `depth` and `length` are sums over the instances that
/// the thread fills.
pub(crate) fn adapted(adapt: &Adapt, sleep_ms: u64, free: u64, depth: u64, length: u64, last: Done) -> u64 {
    let target = match adapt.target {
        Target::Depth => depth,
        Target::DepthOrLength => depth.min(length),
    };
    let progress = match adapt.progress {
        Progress::Flushed => last.flushed,
        Progress::FlushedAndEvicted => last.flushed + last.evicted,
    };
    let (nearly_empty, low, full) = (free < target / 100, free < target / 20, free > target / 5);
    let down = u64::from(adapt.step_down_ms);
    if nearly_empty && progress > 0 {
        0
    } else if full || nearly_empty {
        (sleep_ms + u64::from(adapt.step_up_ms)).min(u64::from(adapt.longest_ms))
    } else if low && sleep_ms >= down {
        sleep_ms - down
    } else {
        sleep_ms
    }
}

/// The sleep of a thread that woke up at `woke_at` and was ready at `ready_at`.
pub(crate) fn rest_ns(clock: Clock, sleep_ms: u64, woke_at: u64, ready_at: u64) -> u64 {
    match clock {
        Clock::IntegerMs => (woke_at / MS + sleep_ms).saturating_sub(ready_at / MS) * MS,
        Clock::TruncatedMs => (woke_at + sleep_ms * MS).saturating_sub(ready_at) / MS * MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Adapt = Adapt {
        step_up_ms: 1,
        step_down_ms: 50,
        longest_ms: 1000,
        target: Target::DepthOrLength,
        progress: Progress::FlushedAndEvicted,
        clock: Clock::IntegerMs,
    };

    fn next(adapt: Adapt, sleep_ms: u64, free: u64, evicted: u64) -> u64 {
        adapted(&adapt, sleep_ms, free, 1024, 7168, Done { flushed: 0, evicted })
    }

    #[test]
    fn the_limits_are_1_and_5_and_20_percent_in_whole_pages() {
        let after = |free| next(RULE, 300, free, 5);
        assert_eq!(
            [after(0), after(9), after(10), after(50), after(51), after(204), after(205)],
            [0, 0, 250, 250, 300, 300, 301]
        );
    }

    #[test]
    fn an_empty_list_without_progress_makes_the_sleep_longer() {
        assert_eq!((next(RULE, 300, 0, 0), next(RULE, 300, 0, 1)), (301, 0));
        let by_writes = Adapt { step_up_ms: 50, target: Target::Depth, progress: Progress::Flushed, ..RULE };
        assert_eq!(next(by_writes, 300, 0, 1000), 350, "evictions are no progress there");
        assert_eq!(
            (next(by_writes, 980, 1024, 0), next(RULE, 1000, 1024, 0)),
            (1000, 1000),
            "no more than the longest"
        );
        assert_eq!(next(RULE, 49, 20, 1), 49, "and never below nothing");
    }

    #[test]
    fn the_two_clocks_differ_by_a_millisecond() {
        let rest = |clock| rest_ns(clock, 500, 2_000_100_000, 2_000_150_000);
        assert_eq!((rest(Clock::IntegerMs), rest(Clock::TruncatedMs)), (500 * MS, 499 * MS));
    }
}
