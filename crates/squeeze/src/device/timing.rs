// SPDX-License-Identifier: Apache-2.0
//! How long the delay target of this kernel waits for a given number of milliseconds: it counts in ticks (jiffies).
//!
//! | target | kernels | how it waits | a request waits for |
//! | --- | --- | --- | --- |
//! | below 1.4.0 | up to 6.6 | a timer | the time rounded up to ticks, and one or two more |
//! | 1.4.0 | 6.7 to 6.15, and some stable series | below 50 ms a thread that never sleeps while a request waits; else the timer | the time rounded up to ticks |
//! | from 1.5.0 | from 6.16 | the same thread, sleeping between its looks | the same, and up to 1 ms |
//!
//! When requests come one after the other, a request arrives after a tick, later by the time that the device took for the request before. So it waits
//! that much less than the whole time, and then the device takes its own time again: the two cancel out, and the device's own time does not show in
//! the total, except for whole ticks. Requests that arrive at random wait up to one tick less.

use crate::Error;
use host::mapper::{self, DelayTable};
use rustix::time::{ClockId, clock_getres};
use serde::Serialize;

/// For this delay and longer ones every version uses the timer (dm-delay.c).
const THREAD_BELOW_MS: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    pub version: [u32; 3],
    pub tick_us: u64,
}

impl Timing {
    /// `None`: the target is not loaded.
    ///
    /// # Errors
    /// There is no device-mapper, or the user is not root.
    pub fn here() -> Result<Option<Self>, Error> {
        Ok(mapper::delay_version()?.map(|version| Self { version, tick_us: tick_us() }))
    }

    /// How long a request with a delay of `ms` waits when it is alone.
    pub fn effective_us(&self, table: &DelayTable, ms: u32) -> u64 {
        if ms == 0 {
            return 0;
        }
        let ticks = (u64::from(ms) * 1000).div_ceil(self.tick_us);
        (ticks + u64::from(!self.has_thread(table))) * self.tick_us
    }

    /// The total time of a request that waits for `effective_us`, on a device that takes `own_us` for the request.
    pub fn in_all_us(&self, effective_us: u64, own_us: f64) -> f64 {
        let tick_us = self.tick_us as f64;
        effective_us as f64 + (own_us / tick_us).floor() * tick_us
    }

    /// Whether the kernel keeps one processor busy as long as a request waits.
    pub fn burns_a_core(&self, table: &DelayTable) -> bool {
        self.has_thread(table) && self.is_burning()
    }

    /// Whether the kernel keeps one processor busy for at least one table.
    pub fn is_burning(&self) -> bool {
        self.version >= [1, 4, 0] && self.version < [1, 5, 0]
    }

    fn has_thread(&self, table: &DelayTable) -> bool {
        self.version >= [1, 4, 0] && (1..THREAD_BELOW_MS).contains(&table.longest_ms())
    }

    pub fn mechanism(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{} {major}.{minor}.{patch}", evidence::DiskMechanism::DeviceMapper.in_results())
    }

    /// What users should know about this table on this kernel.
    pub fn notes(&self, table: &DelayTable) -> Vec<String> {
        let classes = [("read", table.read_ms), ("write", table.write_ms), ("sync", table.flush_ms)];
        let rounded: Vec<String> = classes
            .into_iter()
            .map(|(name, ms)| (name, ms, self.effective_us(table, ms)))
            .filter(|(_, ms, effective)| u64::from(*ms) * 1000 != *effective)
            .map(|(name, ms, effective)| format!("{name} {ms} ms becomes {} ms", effective as f64 / 1000.0))
            .collect();
        let mut notes = Vec::new();
        if !rounded.is_empty() {
            let tick = self.tick_us as f64 / 1000.0;
            notes.push(format!("this kernel counts in ticks of {tick} ms: {}", rounded.join(", ")));
        }
        if self.burns_a_core(table) {
            notes.push(format!(
                "{} (Linux 6.7 to 6.15) keeps one processor busy while a delayed request waits: on a small host what you \
                measure has one processor less; from {THREAD_BELOW_MS} ms on, or with the FUSE layer, it does not",
                self.mechanism()
            ));
        }
        notes
    }
}

/// The coarse clock moves with each tick.
fn tick_us() -> u64 {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    u64::try_from(resolution.tv_nsec / 1000).unwrap_or(1000).clamp(1, 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(read_ms: u32) -> DelayTable {
        DelayTable { sectors: 8, device: "7:0".into(), read_ms, write_ms: 0, flush_ms: 0 }
    }

    fn effective_ms(version: [u32; 3], tick_us: u64, ms: u32) -> u64 {
        Timing { version, tick_us }.effective_us(&table(ms), ms) / 1000
    }

    /// As measured on 6.12 with HZ=250: 4, 4, 8, 12, 20 and, by the timer, 56 ms.
    #[test]
    fn the_thread_rounds_up_to_ticks() {
        let of = |ms| effective_ms([1, 4, 0], 4000, ms);
        assert_eq!([1, 4, 5, 10, 20, 50].map(of), [4, 4, 8, 12, 20, 56]);
        assert_eq!(effective_ms([1, 5, 0], 1000, 10), 10);
        assert_eq!(of(0), 0);
    }

    /// As measured on 6.1 with HZ=250: 8 to 9, 13, 17 and 25 ms.
    #[test]
    fn the_timer_adds_a_tick() {
        let of = |ms| effective_ms([1, 3, 0], 4000, ms);
        assert_eq!([1, 5, 10, 20].map(of), [8, 12, 16, 24]);
    }

    /// Measured on 6.12: 3.99, 7.97, 12.10 and 20.20 ms, with a device that took 0.1 ms.
    #[test]
    fn the_devices_own_time_is_within_the_ticks() {
        let timing = Timing { version: [1, 4, 0], tick_us: 4000 };
        assert_eq!([100.0, 3900.0, 4100.0, 9000.0].map(|own| timing.in_all_us(12_000, own)), [12e3, 12e3, 16e3, 20e3]);
    }

    #[test]
    fn only_one_version_burns_and_only_below_50_ms() {
        let burns = |version, ms| Timing { version, tick_us: 4000 }.burns_a_core(&table(ms));
        assert!(burns([1, 4, 0], 10));
        assert!(!burns([1, 4, 0], 50) && !burns([1, 4, 0], 0));
        assert!(!burns([1, 3, 0], 10) && !burns([1, 5, 0], 10));
    }

    #[test]
    fn what_is_asked_and_what_comes_are_told_when_they_differ() {
        let notes = |version, ms| Timing { version, tick_us: 4000 }.notes(&table(ms));
        let told = notes([1, 4, 0], 10);
        assert!(told[0].contains("ticks of 4 ms: read 10 ms becomes 12 ms"), "{told:?}");
        assert!(told[1].contains("keeps one processor busy"), "{told:?}");
        assert_eq!(notes([1, 5, 0], 20), Vec::<String>::new());
    }

    #[test]
    fn the_tick_of_this_host_is_one() {
        assert!([1000, 3333, 4000, 10_000].contains(&tick_us()), "{}", tick_us());
    }
}
