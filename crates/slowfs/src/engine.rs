// SPDX-License-Identifier: Apache-2.0
//! When a reply leaves: the delay in force, and two ways of waiting for it.
//!
//! A reply waits in the thread that did the work, as long as enough other threads are free to take requests from the kernel; beyond
//! that it is put on a heap that one timer thread serves, so that any number of requests can wait at the same time. Both ways
//! sleep on a futex with a deadline, are woken a little early by what [`Lead`] has learnt, and spin the rest, one spinner at a time.
//! Nothing spins and nothing wakes up while no reply waits.

use crate::lead::Lead;
use crate::moment::{Moment, now, timespec};
use crate::stats::{Answered, Class, Counters, Stats};
use evidence::{Delay, DelayMode};
use rustix::io::Errno;
use rustix::thread::futex;
use std::cmp::{Ordering as Order, Reverse};
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What the kernel's way to the layer and back costs a request that waits up to so long: it is taken off each delay, so that
/// asked plus the bare latency is what the client sees. The longer everybody slept, the colder the processor. Measured, see
/// `docs/slowfs.md`.
const ROUND_TRIP_NS: [(u64, u64); 4] =
    [(100_000, 11_000), (500_000, 14_000), (3_000_000, 17_000), (30_000_000, 30_000)];
const LONGEST_ROUND_TRIP_NS: u64 = 60_000;
/// A sleep shorter than this ends later than it should, whatever is asked.
const SHORTEST_SLEEP_NS: u64 = 5_000;

pub(crate) struct Engine {
    delay: RwLock<Delay>,
    /// Grows with each change of the delay. Threads that wait with a reply sleep on it.
    epoch: AtomicU32,
    lead: Lead,
    pub(crate) counters: Counters,
    waiting_threads: AtomicUsize,
    waiting_threads_max: usize,
    spinning: AtomicBool,
    queue: Mutex<Queue>,
    /// Grows when the timer thread must look at the queue again. It sleeps on it.
    queue_changes: AtomicU32,
}

/// One request between its arrival and its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    class: Class,
    arrived: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Done {
    work: Work,
    done: Moment,
    /// Due by the delay in force when the work was done.
    asked: Moment,
}

type Reply = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    held: BinaryHeap<Reverse<Held>>,
    epoch: u32,
}

struct Held {
    due: Moment,
    done: Done,
    reply: Reply,
}

impl Engine {
    /// `threads`: how many take requests from the kernel.
    pub(crate) fn new(delay: Delay, threads: usize) -> Self {
        Self {
            delay: RwLock::new(delay),
            epoch: AtomicU32::new(0),
            lead: Lead::new(),
            counters: Counters::default(),
            waiting_threads: AtomicUsize::new(0),
            waiting_threads_max: threads / 2,
            spinning: AtomicBool::new(false),
            queue: Mutex::default(),
            queue_changes: AtomicU32::new(0),
        }
    }

    pub(crate) fn delay(&self) -> Delay {
        *self.delay.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on. All classes change in one step; waits that are longer than the new delay end earlier.
    pub(crate) fn set(&self, delay: Delay) {
        *self.delay.write().unwrap_or_else(PoisonError::into_inner) = delay;
        self.epoch.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.epoch, futex::Flags::PRIVATE, u32::MAX >> 1);
        self.wake_timer();
    }

    /// No delay any more, and whoever waits goes at once.
    pub(crate) fn neutralise(&self) {
        self.set(Delay { read_us: 0, write_us: 0, sync_us: 0, mode: self.delay().mode });
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats { overshoot_ns: self.lead.all(), ..self.counters.snapshot(self.delay()) }
    }

    pub(crate) fn arrive(&self, class: Class, bytes: u64) -> Work {
        self.counters.arrived(class, bytes);
        Work { class, arrived: now() }
    }

    /// The work is done; `reply` tells the kernel, when its time has come.
    pub(crate) fn answer(&self, work: Work, reply: impl FnOnce() + Send + 'static) {
        let finished = now();
        let (due, asked) = due(work, finished, &self.delay());
        let done = Done { work, done: finished, asked };
        if due <= finished {
            return self.send(done, reply);
        }
        self.counters.held(work.class);
        if self.waiting_threads.fetch_add(1, Ordering::Relaxed) < self.waiting_threads_max {
            self.wait(done, due);
            self.waiting_threads.fetch_sub(1, Ordering::Relaxed);
            self.send(done, reply);
        } else {
            self.waiting_threads.fetch_sub(1, Ordering::Relaxed);
            self.hold(Held { due, done, reply: Box::new(reply) });
        }
    }

    /// The timer thread: answers what is on the heap, forever.
    pub(crate) fn serve_queue(&self) {
        loop {
            let seen = self.queue_changes.load(Ordering::Acquire);
            let next = loop {
                match self.pop_due() {
                    Popped::Due(held) => self.send(held.done, held.reply),
                    Popped::Next(due) => break due,
                }
            };
            match next {
                Some(due) => self.sleep_until(due, &self.queue_changes, seen),
                None => drop(futex::wait(&self.queue_changes, futex::Flags::PRIVATE, seen, None)),
            }
        }
    }

    /// Some sleeps of each length that ask for little time, so that the first requests already meet a known overshoot.
    pub(crate) fn calibrate(&self) {
        let word = AtomicU32::new(0);
        for (sleep_ns, rounds) in [(60_000, 40), (200_000, 40), (1_000_000, 12), (4_000_000, 3)] {
            (0..rounds).for_each(|_| self.sleep_until(now() + sleep_ns, &word, 0));
        }
    }

    fn send(&self, done: Done, reply: impl FnOnce()) {
        reply();
        let since = |moment: Moment| moment.saturating_sub(done.work.arrived);
        let answered = Answered { own_ns: since(done.done), asked_ns: since(done.asked), got_ns: since(now()) };
        self.counters.answered(done.work.class, answered);
    }

    fn wait(&self, done: Done, mut due: Moment) {
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            due = due.min(self::due(done.work, done.done, &self.delay()).0);
            if now() >= due {
                return;
            }
            self.sleep_until(due, &self.epoch, epoch);
        }
    }

    fn hold(&self, held: Held) {
        let mut queue = self.queue();
        let first = queue.held.peek().is_none_or(|next| held.due < next.0.due);
        queue.held.push(Reverse(held));
        drop(queue);
        if first {
            self.wake_timer();
        }
    }

    fn pop_due(&self) -> Popped {
        let mut queue = self.queue();
        let epoch = self.epoch.load(Ordering::Acquire);
        if queue.epoch != epoch {
            queue.epoch = epoch;
            let delay = self.delay();
            let held = std::mem::take(&mut queue.held).into_iter().map(|Reverse(held)| Reverse(held.shortened(&delay)));
            queue.held = held.collect();
        }
        match queue.held.peek() {
            Some(Reverse(next)) if next.due > now() => Popped::Next(Some(next.due)),
            Some(_) => queue.held.pop().map_or(Popped::Next(None), |Reverse(held)| Popped::Due(held)),
            None => Popped::Next(None),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_timer(&self) {
        self.queue_changes.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.queue_changes, futex::Flags::PRIVATE, 1);
    }

    /// Returns at `due`, or as soon as `word` is no longer `seen`. Who was woken too early for a short spin sleeps again: a second,
    /// short sleep on a processor that is awake ends more exactly than the first one.
    fn sleep_until(&self, due: Moment, word: &AtomicU32, seen: u32) {
        loop {
            let left = due.saturating_sub(now());
            let lead = self.lead.of(left);
            if left <= lead + SHORTEST_SLEEP_NS {
                return self.spin_until(due, word, seen);
            }
            let target = due - lead;
            match sleep(target, word, seen) {
                Err(Errno::TIMEDOUT) => self.lead.learn(left, now().saturating_sub(target)),
                _ => return,
            }
        }
    }

    /// The last microseconds. Only one thread spins; the others sleep, and are a little late.
    fn spin_until(&self, due: Moment, word: &AtomicU32, seen: u32) {
        if self.spinning.swap(true, Ordering::Acquire) {
            let _ = sleep(due, word, seen);
            return;
        }
        while now() < due && word.load(Ordering::Acquire) == seen {
            std::hint::spin_loop();
        }
        self.spinning.store(false, Ordering::Release);
    }
}

enum Popped {
    Due(Held),
    /// Nothing is due; when the next one is.
    Next(Option<Moment>),
}

/// When the kernel must get the reply, and when the client is to have it.
fn due(work: Work, done: Moment, delay: &Delay) -> (Moment, Moment) {
    let delay_ns = work.class.delay_ns(delay);
    let start = match delay.mode {
        DelayMode::Add => done,
        DelayMode::Total => work.arrived,
    };
    (start + delay_ns.saturating_sub(round_trip_ns(delay_ns)), (start + delay_ns).max(done))
}

fn round_trip_ns(delay_ns: u64) -> u64 {
    ROUND_TRIP_NS.iter().find(|(bound, _)| delay_ns <= *bound).map_or(LONGEST_ROUND_TRIP_NS, |(_, trip)| *trip)
}

fn sleep(until: Moment, word: &AtomicU32, seen: u32) -> Result<(), Errno> {
    futex::wait_bitset(word, futex::Flags::PRIVATE, seen, Some(&timespec(until)), NonZeroU32::MAX)
}

impl Held {
    fn shortened(self, delay: &Delay) -> Self {
        Self { due: self.due.min(due(self.done.work, self.done.done, delay).0), ..self }
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Order {
        self.due.cmp(&other.due)
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Held {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    fn reads(us: u64, mode: DelayMode) -> Delay {
        Delay { read_us: us, write_us: 0, sync_us: 0, mode }
    }

    fn serving(delay: Delay, threads: usize) -> Arc<Engine> {
        let engine = Arc::new(Engine::new(delay, threads));
        let timer = engine.clone();
        std::thread::spawn(move || timer.serve_queue());
        engine
    }

    /// Answers `count` reads at once and returns when the last has left.
    fn answer_all(engine: &Arc<Engine>, count: usize) -> mpsc::Receiver<Instant> {
        let (sent, received) = mpsc::channel();
        for _ in 0..count {
            let sent = sent.clone();
            engine.answer(engine.arrive(Class::Read, 1), move || sent.send(Instant::now()).unwrap());
        }
        received
    }

    #[test]
    fn add_counts_from_the_completion_and_total_from_the_arrival() {
        let work = Work { class: Class::Read, arrived: 1_000_000 };
        assert_eq!(due(work, 1_500_000, &reads(100, DelayMode::Add)).1, 1_600_000);
        assert_eq!(due(work, 1_050_000, &reads(100, DelayMode::Total)).1, 1_100_000);
        assert_eq!(due(work, 1_500_000, &reads(100, DelayMode::Total)).1, 1_500_000, "never before the work is done");
        assert!(due(work, 1_500_000, &reads(0, DelayMode::Add)).0 <= 1_500_000);
    }

    #[test]
    fn no_reply_leaves_early_and_many_wait_at_once() {
        for threads in [1, 16] {
            let engine = serving(reads(20_000, DelayMode::Add), threads);
            let start = Instant::now();
            let (done, finished) = mpsc::channel();
            for _ in 0..8 {
                let (engine, done) = (engine.clone(), done.clone());
                std::thread::spawn(move || {
                    answer_all(&engine, 1).recv().unwrap();
                    done.send(start.elapsed()).unwrap();
                });
            }
            let elapsed: Vec<Duration> = finished.iter().take(8).collect();
            assert!(elapsed.iter().all(|time| *time >= Duration::from_micros(19_900)), "{elapsed:?}");
            assert!(elapsed.iter().all(|time| *time < Duration::from_millis(150)), "side by side: {elapsed:?}");
        }
    }

    #[test]
    fn a_smaller_delay_cuts_waits_on_the_heap_and_in_threads() {
        for threads in [1, 16] {
            let engine = serving(reads(3_600_000_000, DelayMode::Add), threads);
            let waiting = engine.clone();
            let waiter = std::thread::spawn(move || answer_all(&waiting, 1).recv().unwrap());
            while engine.stats().delayed_reads == 0 {
                std::thread::yield_now();
            }
            engine.neutralise();
            waiter.join().unwrap();
            assert_eq!(engine.delay().read_us, 0);
        }
    }

    #[test]
    fn counts_by_class() {
        let engine = serving(reads(0, DelayMode::Add), 1);
        answer_all(&engine, 3);
        engine.answer(engine.arrive(Class::Sync, 0), || {});
        let stats = engine.stats();
        assert_eq!((stats.reads, stats.read_bytes, stats.syncs, stats.writes, stats.delayed_reads), (3, 3, 1, 0, 0));
        assert_eq!(stats.read_latency.got.count(), 3);
    }
}
