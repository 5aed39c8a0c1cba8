// SPDX-License-Identifier: Apache-2.0
//! When the next sweep is due, how late sweeps are, and the CPU time and pressure of this process and the host.

use super::host_side::some_total;
use ::stalls::watch::Pressure;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The limits of the interval when none was asked for.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(20);
/// An interval is this many times as long as the CPU time of one round, within its limits: the rounds then take less than 1 % of a CPU, and leave a little for
/// the questions to the server.
const SHARE: u32 = 110;
/// The same limits for `--deep`: then 20 ms contain four sweeps.
const DEEP: (Duration, Duration, u32) = (Duration::from_millis(4), Duration::from_millis(5), 25);
/// The number of values from which a median is taken.
const KEPT: usize = 500;
/// The medians are computed again after this many sweeps.
const TOLD_EVERY: u64 = 200;
/// The interval is set for the first time after this many sweeps: half a second.
const FIRST_SET: u64 = 50;

#[derive(Debug)]
pub(super) struct Pacer {
    asked: Option<Duration>,
    /// The shortest and the longest interval, and the factor from a round's CPU time to an interval.
    limits: (Duration, Duration, u32),
    interval: Duration,
    due: Instant,
    last_us: Option<u64>,
    /// The time from one sweep to the next, the CPU time of each round, and the excess of each sleep, all in microseconds.
    apart: VecDeque<u64>,
    cost: VecDeque<u64>,
    overslept: VecDeque<u64>,
    /// The longest of all times from one sweep to the next.
    longest_us: u64,
    sweeps: u64,
    late: u64,
}

impl Pacer {
    pub(super) fn new(asked: Option<Duration>, is_deep: bool) -> Self {
        let limits = if is_deep { DEEP } else { (SHORTEST, LONGEST, SHARE) };
        let interval = asked.unwrap_or(limits.0);
        Self {
            asked,
            limits,
            interval,
            due: Instant::now() + interval,
            last_us: None,
            apart: VecDeque::new(),
            cost: VecDeque::new(),
            overslept: VecDeque::new(),
            longest_us: 0,
            sweeps: 0,
            late: 0,
        }
    }

    /// Sleeps until the next sweep is due. Sometimes returns the median of the last sleeps' excess on this host, in microseconds.
    pub(super) fn sleep(&mut self) -> Option<f64> {
        let now = Instant::now();
        if self.due > now {
            std::thread::sleep(self.due - now);
            keep(&mut self.overslept, micros(self.due.elapsed()));
        }
        let now = Instant::now();
        if now > self.due + self.interval {
            self.late += 1;
        }
        // sweeps that were missed are not repeated
        self.due = (self.due + self.interval).max(now);
        let is_told = self.sweeps.is_multiple_of(TOLD_EVERY) && self.overslept.len() >= 50;
        is_told.then(|| median(&self.overslept) as f64)
    }

    /// `cost_us`: the CPU time of this thread since the sweep before.
    pub(super) fn swept(&mut self, at_us: u64, cost_us: u64) {
        if let Some(last) = self.last_us.replace(at_us) {
            let apart_us = at_us.saturating_sub(last);
            keep(&mut self.apart, apart_us);
            self.longest_us = self.longest_us.max(apart_us);
        }
        keep(&mut self.cost, cost_us);
        self.sweeps += 1;
        let is_time = self.sweeps == FIRST_SET || self.sweeps.is_multiple_of(TOLD_EVERY);
        if self.asked.is_none() && is_time {
            let (shortest, longest, share) = self.limits;
            let affordable = Duration::from_micros(median(&self.cost)) * share;
            self.interval = affordable.clamp(shortest, longest);
        }
    }

    /// The time from the last sweep to the next is not counted: the watch begins now.
    pub(super) fn begin(&mut self) {
        self.last_us = None;
    }

    pub(super) fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn interval_us(&self) -> u64 {
        micros(self.interval)
    }

    pub(super) fn median_us(&self) -> u64 {
        median(&self.apart)
    }

    pub(super) fn longest_us(&self) -> u64 {
        self.longest_us
    }
}

fn keep(kept: &mut VecDeque<u64>, us: u64) {
    kept.push_back(us);
    if kept.len() > KEPT {
        kept.pop_front();
    }
}

fn median(of: &VecDeque<u64>) -> u64 {
    let mut sorted: Vec<u64> = of.iter().copied().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The CPU time of all threads of this process, user and system.
pub(super) fn cpu_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Pressure since boot; `None`: this kernel has no pressure stall information.
pub(super) fn pressure() -> Option<Pressure> {
    let total = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/pressure/{file}")).ok()?;
        some_total(&text)
    };
    Some(Pressure { cpu_us: total("cpu")?, io_us: total("io")?, memory_us: total("memory")? })
}

/// When the server may be asked again: the questions are to be a small part of its work, also where many connections wait.
#[derive(Debug, Default)]
pub(super) struct Budget {
    last_took_us: u64,
    until_us: u64,
}

/// The least time from an answer to the next question, and the most.
const REST_US: (u64, u64) = (50_000, 10_000_000);
/// The rest is so many times as long as the answer took.
const REST_SHARE: u64 = 5;

impl Budget {
    /// Takes how long the server took for an answer. One late answer alone may be that of a server that was stopped; after two the server is spared.
    pub(super) fn answered(&mut self, now_us: u64, took_us: u64) {
        let usual_us = took_us.min(std::mem::replace(&mut self.last_took_us, took_us));
        self.until_us = now_us + usual_us.saturating_mul(REST_SHARE).clamp(REST_US.0, REST_US.1);
    }

    pub(super) fn allows(&self, now_us: u64) -> bool {
        now_us >= self.until_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_sweeps_come_seldom_unless_an_interval_was_asked_for() {
        let of = |asked: Option<Duration>, cost_us: u64| {
            let mut pacer = Pacer::new(asked, false);
            (0..TOLD_EVERY).for_each(|nth| pacer.swept(nth * 10_000, cost_us));
            (pacer.interval_us(), pacer.median_us())
        };
        let mut pacer = Pacer::new(None, false);
        (0..FIRST_SET).for_each(|nth| pacer.swept(nth * 10_000, 150));
        assert_eq!(pacer.interval_us(), 16_500, "not only after some seconds");
        assert_eq!(of(None, 50), (10_000, 10_000));
        assert_eq!(of(None, 150), (16_500, 10_000));
        assert_eq!(of(None, 5_000), (20_000, 10_000));
        assert_eq!(of(Some(Duration::from_millis(5)), 5_000), (5_000, 10_000));
        let mut deep = Pacer::new(None, true);
        (0..TOLD_EVERY).for_each(|nth| deep.swept(nth * 4_000, 9_000));
        assert_eq!(deep.interval_us(), 5_000, "20 ms are seen, whatever it takes");
    }

    #[test]
    fn the_longest_time_between_two_sweeps_is_kept_for_the_whole_watch() {
        let mut pacer = Pacer::new(None, false);
        let mut at_us = 0;
        pacer.swept(at_us, 10);
        pacer.begin();
        for apart_us in [5_000_000, 10_000, 310_000].into_iter().chain([10_000; 2 * KEPT]) {
            at_us += apart_us;
            pacer.swept(at_us, 10);
        }
        assert_eq!((pacer.longest_us(), pacer.median_us()), (310_000, 10_000), "not the time before it began");
    }

    #[test]
    fn a_sleep_is_too_long_by_what_the_host_adds() {
        let mut pacer = Pacer::new(Some(Duration::from_millis(1)), false);
        let patience = Instant::now() + Duration::from_secs(60);
        // on a busy host many sweeps are late, and there is nothing left to sleep before the next one
        let sleeps = std::iter::repeat_with(|| pacer.sleep()).take_while(|_| Instant::now() < patience);
        let told = sleeps.flatten().next();
        assert!(told.is_some_and(|us| us >= 1.0), "{told:?}");
    }

    #[test]
    fn a_server_whose_answers_take_long_is_asked_less_often() {
        let mut budget = Budget::default();
        assert!(budget.allows(0));
        let mut rest_ms = |took_us| {
            budget.answered(1_000_000, took_us);
            (0..20_000).find(|ms| budget.allows(1_000_000 + ms * 1000)).expect("some time")
        };
        assert_eq!([2_000, 3_000_000, 2_000].map(&mut rest_ms), [50; 3], "one late answer");
        assert_eq!([100_000, 200_000, 1_600_000, 5_000_000].map(rest_ms), [50, 500, 1_000, 8_000]);
    }
}
