// SPDX-License-Identifier: Apache-2.0
//! The cost of one reading for the target so far, and the data that could not be read.

use super::Options;
use super::page_counts::PageCounts;
use host::clock;
use ledger::{Missing, Probe};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest time for which a target's address space is held without a break, as far as it can be predicted.
pub const STRETCH_US: u64 = 20_000;
/// A further process is read in detail only while all processes together were held for less than this.
pub const ALL_US: u64 = 200_000;
/// After this time no reading of a process is begun. On a busy host each reading takes longer, because the reader waits for a CPU; and without its
/// mappings little can be said about a server.
pub(super) const LIMIT_US: u64 = 2_000_000;

/// After this much CPU time of its own the reader rests for a moment before it holds a process again. The kernel stops a reader that uses its whole time
/// slice on a busy CPU, perhaps in the midst of a call, with the address space locked, until its next time slice; it does not stop a reader that has
/// rested. On two CPUs with thirty tasks that wanted them,
/// 1280 readings of 2 MiB held a process for 262 to 577 ms without rests, and 55 to 148 ms with them.
const TURN: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_micros(200);

/// One reading of a server.
pub(super) struct Reading {
    pub(super) options: Options,
    pub(super) counts: PageCounts,
    began: Instant,
    began_unix_us: u64,
    /// This thread's CPU time at the beginning.
    began_cpu: Duration,
    used_us: u64,
    /// This thread's CPU time at the end of its last rest.
    rested_at: Duration,
    probes: BTreeMap<&'static str, Probe>,
    missing: Vec<Missing>,
}

impl Reading {
    pub(super) fn begin(options: Options) -> Self {
        let (began, began_unix_us) = (Instant::now(), clock::unix_us());
        let counts = PageCounts::open();
        let (probes, missing) = (BTreeMap::new(), Vec::new());
        let (began_cpu, rested_at) = (clock::thread_cpu_time(), Duration::ZERO);
        Self { options, counts, began, began_unix_us, began_cpu, used_us: 0, rested_at, probes, missing }
    }

    pub(super) fn began_unix_us(&self) -> u64 {
        self.began_unix_us
    }

    /// Microseconds since the reading began.
    pub(super) fn now_us(&self) -> u64 {
        micros(self.began)
    }

    /// The longest time for which the target may have been held so far.
    pub(super) fn used_us(&self) -> u64 {
        self.used_us
    }

    pub(super) fn end(self) -> (u64, Vec<Probe>, Vec<Missing>) {
        (self.now_us(), self.probes.into_values().collect(), self.missing)
    }

    /// Calls `read`, which holds the target's address space at most during the call.
    pub(super) fn hold<T>(&mut self, tier: &'static str, read: impl FnOnce() -> T) -> T {
        self.rest();
        let began = Instant::now();
        let got = read();
        let took = micros(began);
        self.held(tier, took, took);
        got
    }

    /// Like [`Reading::hold`], when the kernel releases the address space `times` in between.
    pub(super) fn hold_in_parts<T>(&mut self, tier: &'static str, times: u64, read: impl FnOnce() -> T) -> T {
        self.rest();
        let began = Instant::now();
        let got = read();
        let took = micros(began);
        self.held(tier, took, took.div_ceil(times.max(1)));
        got
    }

    /// Counts a reading that holds nothing.
    pub(super) fn count(&mut self, tier: &'static str) {
        self.held(tier, 0, 0);
    }

    fn rest(&mut self) {
        if clock::thread_cpu_time().saturating_sub(self.rested_at) >= TURN {
            std::thread::sleep(REST);
            self.rested_at = clock::thread_cpu_time();
        }
    }

    /// Calls `ask`, for which the server works; it holds no process. The answer decides the tier.
    pub(super) fn ask<T>(&mut self, tier: impl FnOnce(&T) -> &'static str, ask: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let got = ask();
        let took = micros(began);
        self.told(tier(&got), took, took);
        got
    }

    pub(super) fn held(&mut self, tier: &'static str, took: u64, longest: u64) {
        self.used_us += took;
        self.told(tier, took, longest);
    }

    fn told(&mut self, tier: &'static str, took: u64, longest: u64) {
        let probe = self.probes.entry(tier).or_insert_with(|| Probe { tier: tier.to_owned(), ..Probe::default() });
        probe.count += 1;
        probe.held_us += took;
        probe.held_us_max = probe.held_us_max.max(longest);
    }

    /// Whether the target may be held for this much longer.
    pub(super) fn admits(&self, more_us: u64) -> bool {
        self.options.deep || self.used_us + more_us <= LIMIT_US
    }

    /// Whether a further process may be read, which takes this much longer. In a repeated reading this thread's own time is limited, too.
    pub(super) fn admits_another(&self, more_us: u64) -> bool {
        let all_us = self.options.others_us.unwrap_or(ALL_US);
        let has_time = self.options.others_us.is_none_or(|most_us| self.cpu_time() <= Duration::from_micros(most_us));
        self.options.deep || (self.used_us + more_us <= all_us && has_time)
    }

    /// The part of the budget for other processes that is left.
    pub(super) fn left_us(&self) -> u64 {
        let own_us =
            self.options.others_us.map_or(0, |_| u64::try_from(self.cpu_time().as_micros()).unwrap_or(u64::MAX));
        self.options.others_us.unwrap_or(ALL_US).saturating_sub(self.used_us.max(own_us))
    }

    /// This thread's CPU time since the reading began.
    pub(super) fn cpu_time(&self) -> Duration {
        clock::thread_cpu_time().saturating_sub(self.began_cpu)
    }

    /// What reads all of it. A repeated reading has no `--deep`.
    pub(super) fn remedy(&self) -> &'static str {
        if self.options.others_us.is_some() { "`wringer memory account --deep`" } else { "--deep" }
    }

    pub(super) fn missing(&mut self, what: impl Into<String>, why: impl Into<String>, remedy: Option<&str>) {
        let it = Missing { what: what.into(), why: why.into(), remedy: remedy.map(str::to_owned) };
        // the same problem of many processes is noted once
        if !self.missing.contains(&it) {
            self.missing.push(it);
        }
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: u64 = 3_600_000_000;

    #[test]
    fn the_budget_is_how_long_the_target_is_held() {
        let mut reading = Reading::begin(Options::default());
        reading.hold("smaps", || std::thread::sleep(Duration::from_millis(2)));
        reading.hold_in_parts("heap", 2, || std::thread::sleep(Duration::from_millis(2)));
        reading.count("status");
        let used = reading.used_us();
        reading.ask(|()| Probe::SQL, || std::thread::sleep(Duration::from_millis(2)));
        reading.ask(|()| Probe::UNANSWERED, || ());
        assert_eq!(reading.used_us(), used, "a question holds no process");
        assert!(reading.admits_another(ALL_US / 2) && !reading.admits_another(ALL_US));
        assert!(reading.admits(LIMIT_US / 2) && !reading.admits(LIMIT_US));
        (0..2).for_each(|_| reading.missing("a", "b", Some("c")));
        let (took, probes, missing) = reading.end();
        let of = |tier: &str| probes.iter().find(|probe| probe.tier == tier).unwrap();
        assert!(of("sql").held_us >= 2000 && !of("sql").is_hold() && !of("unanswered").is_hold());
        assert!(took >= 4000 && of("smaps").held_us >= 2000 && of("heap").held_us_max < of("heap").held_us);
        assert_eq!((of("status").count, of("status").held_us, missing.len()), (1, 0, 1));
        let narrow = |us| Reading::begin(Options { others_us: Some(us), ..Options::default() });
        assert!(narrow(HOUR_US).admits_another(HOUR_US) && !narrow(HOUR_US).admits_another(HOUR_US + 1));
        assert!(narrow(10).admits(11), "begun readings are ended");
        let own_time = narrow(0);
        while own_time.cpu_time().is_zero() {}
        assert!(!own_time.admits_another(0), "its own time is used up");
        assert_eq!(narrow(10).remedy(), "`wringer memory account --deep`", "a recording has no --deep");
        assert!(Reading::begin(Options { deep: true, ..Options::default() }).admits(u64::MAX / 2));
    }
}
