// SPDX-License-Identifier: Apache-2.0
//! What the host did while a thread waited: its disk, and its memory. Readings come every 100 ms or so.

use super::track::Wait;
use std::collections::VecDeque;

/// Counters of the host, at one moment. `None`: they cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostReading {
    /// The time since boot, in microseconds, in which some task waited for memory (`/proc/pressure/memory`, or the server's own cgroup's `memory.pressure`).
    pub memory_us: Option<u64>,
    /// The times of the disk with the data directory, since boot.
    pub disk: Option<DiskTimes>,
}

/// `/proc/diskstats`: requests that have ended, and the time that they took, from their begin to their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskTimes {
    pub reads: u64,
    pub read_ms: u64,
    /// Writes, including flushes.
    pub writes: u64,
    pub write_ms: u64,
}

/// The difference of two readings around a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meanwhile {
    /// From one reading to the other, in microseconds.
    pub over_us: u64,
    pub memory_us: Option<u64>,
    pub disk: Option<DiskTimes>,
}

/// The most readings that are kept: those of two minutes.
const MOST: usize = 1200;

#[derive(Debug, Default)]
pub(super) struct Readings {
    of: VecDeque<(u64, HostReading)>,
}

impl Readings {
    pub(super) fn add(&mut self, at_us: u64, reading: HostReading) {
        self.of.push_back((at_us, reading));
        if self.of.len() > MOST {
            self.of.pop_front();
        }
    }

    /// The difference between the last reading before the wait and the first one after it; without a reading after it, the last one that is there.
    pub(super) fn around(&self, wait: &Wait) -> Option<Meanwhile> {
        let (from_us, before) = self.of.iter().rev().find(|(at, _)| *at <= wait.from_us).or(self.of.front())?;
        let (to_us, after) = self.of.iter().find(|(at, _)| *at >= wait.to_us).or(self.of.back())?;
        let over_us = to_us.checked_sub(*from_us).filter(|us| *us > 0)?;
        let disk = before.disk.zip(after.disk).map(|(before, after)| DiskTimes {
            reads: after.reads.saturating_sub(before.reads),
            read_ms: after.read_ms.saturating_sub(before.read_ms),
            writes: after.writes.saturating_sub(before.writes),
            write_ms: after.write_ms.saturating_sub(before.write_ms),
        });
        let memory_us = after.memory_us.zip(before.memory_us).map(|(after, before)| after.saturating_sub(before));
        Some(Meanwhile { over_us, memory_us, disk })
    }

    /// Whether some task waited for memory for a tenth of the time since the second last reading.
    pub(super) fn is_memory_short(&self) -> bool {
        let mut last = self.of.iter().rev();
        let (Some((to_us, after)), Some((from_us, before))) = (last.next(), last.next()) else { return false };
        let (Some(after), Some(before)) = (after.memory_us, before.memory_us) else { return false };
        after.saturating_sub(before).saturating_mul(10) >= to_us.saturating_sub(*from_us)
    }
}

#[cfg(test)]
mod tests {
    use super::super::track::Way;
    use super::*;

    #[test]
    fn readings_around_a_wait_are_taken_and_a_host_short_of_memory_is_noticed() {
        let mut readings = Readings::default();
        let reading = |memory: u64, reads: u64| HostReading {
            memory_us: Some(memory),
            disk: Some(DiskTimes { reads, read_ms: reads * 7, ..DiskTimes::default() }),
        };
        assert!(!readings.is_memory_short());
        readings.add(0, reading(5, 100));
        readings.add(100_000, reading(5, 103));
        assert!(!readings.is_memory_short());
        readings.add(200_000, reading(15_005, 104));
        assert!(readings.is_memory_short());
        let (from_us, to_us) = (110_000, 190_000);
        let wait = Wait {
            thread: 7,
            way: Way::Reading,
            from_us,
            to_us,
            samples: 8,
            turns: None,
            is_cut: false,
            is_open: false,
        };
        let meanwhile = readings.around(&wait).expect("two readings");
        let disk = DiskTimes { reads: 1, read_ms: 7, ..DiskTimes::default() };
        assert_eq!(meanwhile, Meanwhile { over_us: 100_000, memory_us: Some(15_000), disk: Some(disk) });
        assert_eq!(Readings::default().around(&wait), None);
    }
}
