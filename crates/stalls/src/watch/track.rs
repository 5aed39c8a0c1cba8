// SPDX-License-Identifier: Apache-2.0
//! Waits of one thread, from samples: a wait is an uninterrupted run of samples in which the thread waits in the same way.
//!
//! Samples do not show the time between them. A thread that is found in the same kind of wait again and again may have been in many short waits;
//! the kernel's count of turns on a CPU tells the difference ([`Sched::turns`]). A wait under `backoff` consists of many short sleeps: there, many turns
//! with much time on a CPU tell that the thread ran statements meanwhile.

use super::sample::{Doing, Sample, Sched, Stop};

/// In which way a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    Asleep,
    Blocked,
    Faulting,
    Reclaiming,
    Reading,
    Syncing,
    /// Could run, and has no CPU.
    Queued,
    /// In the function that waits for a free page; a probe saw it.
    FreePage,
    /// Writes pages of tables to their files itself, and waits for others in between: several ways in turn.
    WritingPages,
    /// Stopped from outside, while its client waited.
    Stopped(Stop),
}

/// A wait that has ended, or that is still going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub thread: u32,
    pub way: Way,
    /// The middle between the last sample without the wait and the first sample with it. The error is at most half a sampling interval.
    pub from_us: u64,
    pub to_us: u64,
    /// The number of samples in the wait, without the samples of gaps.
    pub samples: u32,
    /// How often the thread was given a CPU within it. `None`: not known.
    pub turns: Option<u64>,
    /// Whether it had begun before watching began.
    pub is_cut: bool,
    /// Whether it was not over when it was told.
    pub is_open: bool,
}

impl Wait {
    pub fn length_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }

    /// The parts before and after this moment within the wait.
    pub(super) fn cut(&self, at_us: u64) -> (Self, Self) {
        (Self { to_us: at_us, is_open: false, ..*self }, Self { from_us: at_us, is_cut: false, ..*self })
    }

    /// This wait, and the wait that it goes on in.
    pub(super) fn and(&self, next: &Self) -> Self {
        let turns = self.turns.zip(next.turns).map(|(before, after)| before.saturating_add(after));
        let (to_us, samples) = (next.to_us, self.samples.saturating_add(next.samples));
        Self { to_us, samples, turns, is_open: next.is_open, ..*self }
    }

    /// The parts of these times, each a begin and an end, that lie within the wait.
    pub(super) fn clip(&self, times: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let clipped = times.map(|(from, to)| (from.max(self.from_us), to.min(self.to_us)));
        clipped.filter(|(from, to)| from < to).collect()
    }

    /// How much of the wait these times cover together.
    pub(super) fn covered_us(&self, times: impl Iterator<Item = (u64, u64)>) -> u64 {
        let mut clipped = self.clip(times);
        clipped.sort_unstable();
        let (mut until, mut sum) = (0, 0);
        for (from, to) in clipped {
            sum += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        sum
    }
}

/// The most samples of something else that may lie between two samples of a wait: a thread that sleeps is awake now and then.
pub(super) const GAP: usize = 2;
/// In a sleep more such samples may lie between two, as long as all lie within so many microseconds: a thread that wakes up to look has to wait for a CPU
/// first, whatever the sampling interval is.
const GAP_US: u64 = 20_000;
/// The same for samples in which the thread could run and had no CPU: it did nothing else meanwhile.
const QUEUED_GAP_US: u64 = 200_000;
/// A wait has at least so many samples.
pub const LEAST_SAMPLES: u32 = 4;
/// A thread that could run, and got less than one part in this number of a CPU since the sample before, waits for a CPU.
const QUEUED_SHARE: u64 = 5;

/// A thread that uses so much CPU time between a stop and the first look after it has run a statement: its client had sent it before the stop, or while it
/// lasted. A thread without one goes back to its wait; on the hosts where this was measured that took 6 to 50 us, and a short statement 60 to 1200 us.
const RAN_NS: u64 = 50_000;

/// Of turns on a CPU between two samples, so many are told at most.
const MOST_TURNS: u64 = 20;

/// The most time between the begin of a statement and the begin of its wait for a CPU. It is less than the time until the server is asked about the wait.
pub(super) const SLACK_QUEUED_US: u64 = 20_000;

/// Reads one after another that take less than this each are no wait, although a long one may be among them.
pub(super) const QUICK_READ_US: u64 = 10_000;

/// The most turns since the sample before, which was `since_us` ago, with which it is still one wait.
fn turns_at_once(way: Way, since_us: u64) -> u64 {
    match way {
        Way::Blocked => 1,
        Way::Reading => 1 + since_us / QUICK_READ_US,
        _ => u64::MAX,
    }
}

/// Whether a thread that was asleep in two samples, and perhaps awake between them, can have been in one wait all the time.
///
/// Whoever waits under `backoff` wakes up some 25 times in the shortest sleeps, then every 10 ms, and looks at the list in some microseconds. A thread that ran
/// short statements meanwhile had a turn for each of them, and a part of a CPU. Either alone shows nothing: a search of a long LRU list takes
/// time on a CPU, and sleeps of a tenth of a millisecond take turns.
fn has_slept_on(last: Sched, now: Sched, since_us: u64) -> bool {
    let turns = now.turns.saturating_sub(last.turns);
    let ran_us = now.cpu_ns.saturating_sub(last.cpu_ns) / 1000;
    turns <= 40 + since_us / 2_000 || ran_us.saturating_mul(20) <= since_us
}

/// Each part of so many microseconds has its own allowed turns, so that a long wait cannot collect them.
const PART_US: u64 = 1_000_000;

/// The most turns on a CPU with which a wait is one and not several: in a timed wait the thread looks at the clock now and then; a sync consists of a few
/// waits for the disk.
fn turns_allowed(way: Way, length_us: u64) -> Option<u64> {
    match way {
        Way::Blocked => Some(1 + length_us / 100_000),
        Way::Syncing => Some(4 + length_us / 50_000),
        // where many threads share one CPU, each is given it for some milliseconds in turn
        Way::Queued => Some(2 + length_us / 20_000),
        Way::Asleep
        | Way::Reading
        | Way::Faulting
        | Way::Reclaiming
        | Way::FreePage
        | Way::WritingPages
        | Way::Stopped(_) => None,
    }
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    at_us: u64,
    way: Option<Way>,
    sched: Option<Sched>,
    /// Whether it waits for its client, or was stopped when it did.
    rests: bool,
}

#[derive(Debug)]
struct Run {
    wait: Wait,
    last: Seen,
    first_turns: Option<u64>,
    /// The begin of the part for which turns are counted, and the kernel's count at that moment.
    part: (u64, Option<u64>),
    /// Samples since the last sample of the wait.
    gap: Vec<Seen>,
}

/// The waits of one thread.
#[derive(Debug)]
pub struct Tracker {
    thread: u32,
    before: Option<Seen>,
    run: Option<Run>,
    sched: Option<(u64, Sched)>,
    /// The last times at which the thread was given a CPU within a wait for another thread or for a CPU, and waited on.
    woke: Vec<Woke>,
}

/// A turn on a CPU between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Woke {
    pub(super) at_us: u64,
    /// It was so much earlier or later at most.
    pub(super) error_us: u64,
}

impl Tracker {
    pub fn new(thread: u32) -> Self {
        Self { thread, before: None, run: None, sched: None, woke: Vec::new() }
    }

    /// Takes the next sample, which is not earlier than the samples before. Returns the waits that have ended by now.
    pub fn sample(&mut self, at_us: u64, sample: &Sample) -> Vec<Wait> {
        let rests = matches!(sample.doing, Doing::Idle | Doing::Polling(_));
        let seen = Seen { at_us, way: self.way(at_us, sample), sched: sample.sched, rests };
        self.sched = sample.sched.map(|sched| (at_us, sched));
        let mut ended = Vec::new();
        if rests && sample.stop.is_none() {
            if self.run.as_ref().is_some_and(|run| run.is_stop_of_nobody(Some(&seen))) {
                self.run = None;
            }
            // the server has answered its client: the wait of the statement is over
            self.end(at_us, &mut ended);
            self.before = Some(seen);
        } else {
            self.take(seen, &mut ended);
        }
        ended
    }

    /// The wait that goes on, until its last sample.
    pub fn open(&self) -> Option<Wait> {
        let run = self.run.as_ref().filter(|run| !run.is_stop_of_nobody(None))?;
        Some(run.so_far(run.last.at_us))
    }

    /// When the thread was given a CPU within its wait for another thread or for a CPU, if that was between the last two samples.
    pub(super) fn woke(&mut self) -> Vec<Woke> {
        std::mem::take(&mut self.woke)
    }

    /// The wait that goes on is the rest of `first`.
    pub(super) fn began_with(&mut self, first: &Wait) {
        let Some(run) = &mut self.run else { return };
        run.first_turns = run.first_turns.zip(first.turns).map(|(now, before)| now.saturating_sub(before));
        run.wait = first.and(&run.wait);
    }

    /// Watching ends: returns the wait that goes on. Of one that may be over the end is returned, as by [`Self::close`].
    pub(super) fn stop(&mut self, at_us: u64) -> Option<Wait> {
        let is_open = self.run.as_ref().is_some_and(|run| run.gap.is_empty());
        self.close(at_us).map(|wait| Wait { is_open, ..wait })
    }

    /// The thread has ended: returns the wait that went on until then.
    pub fn close(&mut self, at_us: u64) -> Option<Wait> {
        self.open()?;
        let mut ended = Vec::new();
        self.end(at_us, &mut ended);
        ended.pop()
    }

    fn way(&self, at_us: u64, sample: &Sample) -> Option<Way> {
        if let Some(stop) = sample.stop {
            return Some(Way::Stopped(stop));
        }
        match sample.doing {
            Doing::Idle | Doing::Polling(_) => None,
            Doing::Asleep => Some(Way::Asleep),
            Doing::Blocked => Some(Way::Blocked),
            Doing::Faulting => Some(Way::Faulting),
            Doing::Reclaiming => Some(Way::Reclaiming),
            Doing::Reading => Some(Way::Reading),
            Doing::Syncing(_) => Some(Way::Syncing),
            Doing::Running => {
                let ((before_us, before), now) = (self.sched?, sample.sched?);
                let passed_ns = at_us.saturating_sub(before_us).saturating_mul(1000);
                let ran_ns = now.cpu_ns.saturating_sub(before.cpu_ns);
                // a thread that ran and waits again has had a turn, and its time in the queue is counted when it gets the next one
                let is_queued = ran_ns.saturating_mul(QUEUED_SHARE) < passed_ns
                    && (now.turns == before.turns || now.queued_ns.saturating_sub(before.queued_ns) > passed_ns / 2);
                is_queued.then_some(Way::Queued)
            }
        }
    }

    fn take(&mut self, seen: Seen, ended: &mut Vec<Wait>) {
        match &mut self.run {
            None => self.begin(seen),
            Some(run) => {
                if seen.way == Some(run.wait.way) && run.is_one(&seen) {
                    self.woke = run.woke(&seen);
                    run.extend(seen);
                } else if seen.way != Some(run.wait.way) && run.has_room_for(&seen) {
                    run.gap.push(seen);
                } else {
                    let gap = std::mem::take(&mut run.gap);
                    let next_us = gap.first().map_or(seen.at_us, |first| first.at_us);
                    self.end(next_us, ended);
                    // now the gap is known to be no gap: it may be the beginning of another wait
                    gap.into_iter().chain([seen]).for_each(|seen| self.take(seen, ended));
                    return;
                }
            }
        }
        self.before = Some(seen);
    }

    fn begin(&mut self, seen: Seen) {
        let Some(way) = seen.way else { return };
        let from_us = self.before.map_or(seen.at_us, |before| middle(before.at_us, seen.at_us));
        let (thread, to_us, is_cut) = (self.thread, seen.at_us, self.before.is_none());
        let wait = Wait { thread, way, from_us, to_us, samples: 1, turns: None, is_cut, is_open: false };
        let first_turns = seen.sched.map(|sched| sched.turns);
        self.run = Some(Run { wait, last: seen, first_turns, part: (from_us, first_turns), gap: Vec::new() });
    }

    /// `next_us`: when the thread was first seen outside of the wait.
    fn end(&mut self, next_us: u64, ended: &mut Vec<Wait>) {
        let Some(run) = self.run.take() else { return };
        let until_us = run.gap.first().map_or(next_us, |first| first.at_us);
        ended.push(run.so_far(middle(run.last.at_us, until_us)));
        self.before = Some(run.gap.last().copied().unwrap_or(run.last));
    }
}

impl Run {
    fn extend(&mut self, seen: Seen) {
        self.gap.clear();
        self.wait.samples += 1;
        if seen.at_us.saturating_sub(self.part.0) > PART_US {
            self.part = (seen.at_us, seen.sched.map(|sched| sched.turns));
        }
        self.last = seen;
    }

    /// When the thread was awake between the last sample and this one. Several turns in the queue for a CPU are taken as evenly spread.
    fn woke(&self, seen: &Seen) -> Vec<Woke> {
        let way = self.wait.way;
        let scheds = self.last.sched.zip(seen.sched);
        let turns = scheds.map_or(0, |(last, now)| now.turns.saturating_sub(last.turns));
        // a turn that the last sample has counted may have gone on after it
        let has_run = way == Way::Queued && scheds.is_some_and(|(last, now)| last.cpu_ns < now.cpu_ns);
        let is_awake = !self.gap.is_empty() || turns > 0 || has_run;
        if !is_awake || !matches!(way, Way::Blocked | Way::Queued) {
            return Vec::new();
        }
        let times = if way == Way::Queued { turns.clamp(1, MOST_TURNS) } else { 1 };
        let since_us = seen.at_us.saturating_sub(self.last.at_us);
        let woke = |nth: u64| {
            let after_us = since_us * (2 * nth + 1) / (2 * times);
            Woke { at_us: self.last.at_us + after_us, error_us: after_us.max(since_us - after_us) }
        };
        (0..times).map(woke).collect()
    }

    /// Whether this sample of something else may lie between two samples of the wait.
    fn has_room_for(&self, seen: &Seen) -> bool {
        if self.gap.len() < GAP || self.wait.way != Way::Asleep {
            return self.gap.len() < GAP;
        }
        let gap_us = seen.at_us.saturating_sub(self.last.at_us);
        let awake = self.gap.iter().chain([seen]).filter(|it| it.way != Some(Way::Queued)).count();
        gap_us <= GAP_US || (awake <= GAP && gap_us <= QUEUED_GAP_US)
    }

    /// Whether with this sample it is still one wait, and not the next wait of the same kind.
    fn is_one(&self, seen: &Seen) -> bool {
        let (part_us, first) = self.part;
        let (Some(first), Some(now)) = (first, seen.sched) else { return true };
        let way = self.wait.way;
        let allowed = turns_allowed(way, seen.at_us.saturating_sub(part_us)).unwrap_or(u64::MAX);
        let last = self.last.sched.unwrap_or(now);
        let since_us = seen.at_us.saturating_sub(self.last.at_us);
        now.turns.saturating_sub(first) <= allowed
            && now.turns.saturating_sub(last.turns) <= turns_at_once(way, since_us)
            && (way != Way::Asleep || has_slept_on(last, now, since_us))
    }

    /// Whether the thread waited for its client when it was stopped, and nothing shows that a statement came meanwhile. `next`: the first sample after the
    /// stop, if there is one, in which the thread waits for its client.
    fn is_stop_of_nobody(&self, next: Option<&Seen>) -> bool {
        let ran_ns = |after: Sched, last: Sched| after.cpu_ns.saturating_sub(last.cpu_ns);
        let scheds = next.and_then(|next| next.sched).zip(self.last.sched);
        let has_run = scheds.is_some_and(|(after, last)| ran_ns(after, last) >= RAN_NS);
        matches!(self.wait.way, Way::Stopped(_)) && self.last.rests && self.gap.is_empty() && !has_run
    }

    fn so_far(&self, to_us: u64) -> Wait {
        let turns = self.first_turns.zip(self.last.sched).map(|(first, last)| last.turns.saturating_sub(first));
        Wait { to_us, turns, ..self.wait }
    }
}

fn middle(from_us: u64, to_us: u64) -> u64 {
    from_us + to_us.saturating_sub(from_us) / 2
}

#[cfg(test)]
#[path = "track_tests.rs"]
mod tests;
