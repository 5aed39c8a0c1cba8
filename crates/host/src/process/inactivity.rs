// SPDX-License-Identifier: Apache-2.0
//! Recognises processes that were asked to end and do nothing at all: they will not end by themselves. MariaDB 10.11 does this when SIGTERM comes while it
//! starts: the thread that takes signals has ended then, and the main thread waits for it for ever.

use super::family::family;
use super::identity::{Identity, Stat, time_of};
use super::standstill::standstill;
use std::fs;
use std::time::{Duration, Instant};

/// How long they must have done nothing. Somebody who waits for a disk is in state `D`, or reads or writes something in this time: only a slow layer that
/// holds each request back for longer than this looks like nothing.
const LONG_ENOUGH: Duration = Duration::from_secs(15);
/// What background threads may use meanwhile: one hundredth of a CPU.
const ALLOWED: u32 = 100;

/// What the processes have done up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    cpu: Duration,
    /// Bytes that passed through calls that read and write, and to and from disks: proc_pid_io(5).
    bytes: u64,
}

/// What processes and their children have done since a moment at which they last did something.
#[derive(Debug)]
pub(super) struct Inactivity {
    since: Instant,
    then: Option<Work>,
}

impl Inactivity {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), then: None }
    }

    /// Looks again; true when they have done nothing for long enough. A process that stands still, or about which the kernel tells nothing, may do
    /// something later: then it is never true.
    pub(super) fn is_lasting(&mut self, leaders: &[Identity]) -> bool {
        self.is_lasting_with(Work::of(leaders), Instant::now())
    }

    fn is_lasting_with(&mut self, work: Option<Work>, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let rests = self.then.zip(work).is_some_and(|(then, work)| {
            work.bytes == then.bytes && work.cpu.saturating_sub(then.cpu) <= LONG_ENOUGH / ALLOWED
        });
        if rests {
            return passed >= LONG_ENOUGH;
        }
        *self = Self { since: now, then: work };
        false
    }
}

impl Work {
    /// `None` when one of the processes cannot be looked at, stands still, or has a thread that waits for a disk.
    fn of(leaders: &[Identity]) -> Option<Self> {
        family(leaders).into_iter().map(|process| Self::of_process(process.pid)).sum()
    }

    fn of_process(pid: u32) -> Option<Self> {
        if Stat::of_threads(pid).any(|stat| stat.state == b'D') || standstill(pid).is_some() {
            return None;
        }
        let cpu = time_of(Stat::read(pid)?.cpu_ticks);
        let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let counted = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            matches!(name, "rchar" | "wchar" | "read_bytes" | "write_bytes")
                .then(|| value.trim().parse::<u64>().ok())?
        };
        Some(Self { cpu, bytes: io.lines().filter_map(counted).sum() })
    }
}

impl std::iter::Sum for Work {
    fn sum<I: Iterator<Item = Self>>(works: I) -> Self {
        works.fold(Self { cpu: Duration::ZERO, bytes: 0 }, |sum, next| Self {
            cpu: sum.cpu + next.cpu,
            bytes: sum.bytes.wrapping_add(next.bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(cpu_ms: u64, bytes: u64) -> Option<Work> {
        Some(Work { cpu: Duration::from_millis(cpu_ms), bytes })
    }

    #[test]
    fn only_who_does_nothing_for_long_is_inactive() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut rests = Inactivity::new();
        assert!(!rests.is_lasting_with(work(900, 7), at(0)));
        assert!(!rests.is_lasting_with(work(910, 7), at(14)));
        assert!(rests.is_lasting_with(work(920, 7), at(15)));
        // a byte, or more than the background's share of a CPU: everything begins again
        for next in [work(920, 8), work(1200, 8), None, work(1200, 8)] {
            assert!(!rests.is_lasting_with(next, at(40)));
        }
        assert!(!rests.is_lasting_with(work(1200, 8), at(54)));
        assert!(rests.is_lasting_with(work(1200, 8), at(55)));
    }

    #[test]
    fn who_works_and_who_stands_still_are_told_from_who_sleeps() {
        #[allow(clippy::disallowed_methods)] // processes for the test
        let shell = |words: &str| std::process::Command::new("sh").args(["-c", words]).spawn().expect("starts");
        let mut sleeper = shell("exec sleep 1000");
        let mut worker = shell("while :; do :; done");
        let mut stopped = shell("kill -STOP $$");
        let identities: Vec<Identity> =
            [&sleeper, &worker, &stopped].iter().filter_map(|child| Identity::of(child.id())).collect();
        let works = || identities.iter().map(|it| Work::of(&[*it])).collect::<Vec<_>>();
        std::thread::sleep(Duration::from_millis(300));
        let first = works();
        std::thread::sleep(Duration::from_millis(500));
        let second = works();
        [&mut sleeper, &mut worker, &mut stopped].into_iter().for_each(|child| drop((child.kill(), child.wait())));
        assert!(first[0].is_some() && first[0] == second[0], "{first:?} {second:?}");
        assert!(second[1].unwrap().cpu > first[1].unwrap().cpu, "{first:?} {second:?}");
        assert_eq!(second[2], None);
    }
}
