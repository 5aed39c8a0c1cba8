// SPDX-License-Identifier: Apache-2.0
//! Decides when a reply leaves, and waits until then.
//!
//! There are two ways to wait. One reply at a time waits in the thread that did its work, which saves a handover to another thread.
//! All other replies wait on a heap that one timer thread serves: so any number of replies can wait, and the other threads stay
//! free for requests. Both ways sleep on a futex with a deadline, ask to be woken a little early (see [`Overshoot`]), and spin for
//! the rest; only one thread spins at a time. While no reply waits, nothing spins and nothing wakes up.

use crate::clock::{MonotonicNs, now, timespec};
use crate::control::Controlled;
use crate::overshoot::Overshoot;
use crate::rule::{Due, Place, Rule};
use crate::stats::{Answered, Counters, Stats};
use crate::way::Way;
use diskmodel::{Class, Model};
use evidence::Delay;
use rustix::io::Errno;
use rustix::thread::futex;
use std::cmp::{Ordering as Order, Reverse};
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// A sleep that is shorter than this always ends too late.
const SHORTEST_SLEEP_NS: u64 = 5_000;

pub(crate) struct Engine {
    rule: RwLock<Arc<Rule>>,
    /// Grows with each change of the rule. Threads that wait with a reply sleep on it.
    epoch: AtomicU32,
    lead: Overshoot,
    /// The measured way of the kernel to the layer. Empty until it is measured: then nothing is subtracted from delays.
    way: OnceLock<Way>,
    pub(crate) counters: Counters,
    /// Taken while a thread waits with its own reply. Always taken when only one thread takes requests.
    thread_waits: AtomicBool,
    spinning: AtomicBool,
    queue: Mutex<Queue>,
    /// Grows when the timer thread must look at the queue again. The timer thread sleeps on it.
    queue_changes: AtomicU32,
}

/// One request between its arrival and its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    class: Class,
    place: Place,
    arrived: MonotonicNs,
}

#[derive(Debug, Clone, Copy)]
struct Done {
    work: Work,
    done: MonotonicNs,
    /// The due time by the rule that was in force when the work was done.
    asked: MonotonicNs,
    /// The number of that rule. With a newer rule the wait may end earlier.
    epoch: u32,
}

type Reply = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    held: BinaryHeap<Reverse<Held>>,
    epoch: u32,
}

struct Held {
    due: MonotonicNs,
    done: Done,
    reply: Reply,
}

impl Controlled for Engine {
    fn delay(&self) -> Delay {
        self.delay()
    }

    fn model(&self) -> Model {
        self.rule().model().clone()
    }

    fn set(&self, model: Model) -> Result<(), String> {
        self.set(model);
        Ok(())
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

impl Engine {
    /// `threads`: the number of threads that take requests from the kernel.
    pub(crate) fn new(model: impl Into<Model>, threads: usize) -> Self {
        Self {
            rule: RwLock::new(Arc::new(Rule::new(model.into()))),
            epoch: AtomicU32::new(0),
            lead: Overshoot::new(),
            way: OnceLock::new(),
            counters: Counters::default(),
            thread_waits: AtomicBool::new(threads < 2),
            spinning: AtomicBool::new(false),
            queue: Mutex::default(),
            queue_changes: AtomicU32::new(0),
        }
    }

    fn rule(&self) -> Arc<Rule> {
        self.rule.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn delay(&self) -> Delay {
        self.rule().delay()
    }

    /// Puts a model in force. All classes change in one step, and credits and queues start anew. A reply that waits longer than the
    /// new model asks leaves earlier.
    pub(crate) fn set(&self, model: impl Into<Model>) {
        let rule = Arc::new(Rule::new(model.into()));
        *self.rule.write().unwrap_or_else(PoisonError::into_inner) = rule;
        self.epoch.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.epoch, futex::Flags::PRIVATE, u32::MAX >> 1);
        self.wake_timer();
    }

    /// Removes all delays and limits; waiting replies leave at once.
    pub(crate) fn neutralise(&self) {
        self.set(Model::none(self.delay().mode));
    }

    pub(crate) fn stats(&self) -> Stats {
        let (rule, overshoot_ns, way) = (self.rule(), self.lead.all().to_vec(), self.way().clone());
        Stats { overshoot_ns, way: Some(way), waited: rule.waited(), ..self.counters.snapshot(rule.delay()) }
    }

    /// Sets the measured way. Called once, before the files are used.
    pub(crate) fn know_way(&self, way: Way) {
        let _ = self.way.set(way);
    }

    fn way(&self) -> &Way {
        static UNKNOWN: Way = Way { lengths: Vec::new(), why_not: None };
        self.way.get().unwrap_or(&UNKNOWN)
    }

    /// Waits until `due` as a held reply does, without counting it.
    pub(crate) fn hold_look(&self, due: MonotonicNs) {
        self.sleep_until(due, &self.epoch, self.epoch.load(Ordering::Acquire));
    }

    pub(crate) fn arrive(&self, class: Class, place: Place) -> Work {
        self.counters.arrived(class, place.bytes);
        Work { class, place, arrived: now() }
    }

    /// Call it when the work is done. `reply` answers the kernel; it is called when the reply is due.
    pub(crate) fn answer(&self, work: Work, reply: impl FnOnce() + Send + 'static) {
        self.answer_since(now(), work, reply);
    }

    /// As [`Self::answer`], for work that was done at `finished`.
    pub(crate) fn answer_since(&self, finished: MonotonicNs, work: Work, reply: impl FnOnce() + Send + 'static) {
        // Read the epoch first: a rule that is set between the two reads is then noticed, not missed.
        let epoch = self.epoch.load(Ordering::Acquire);
        let Due { at: due, asked } = self.rule().due(work.class, work.place, work.arrived, finished, self.way());
        let done = Done { work, done: finished, asked, epoch };
        if due <= finished {
            return self.send(done, reply);
        }
        self.counters.held(work.class);
        if !self.thread_waits.swap(true, Ordering::Relaxed) {
            self.wait(done, due);
            self.thread_waits.store(false, Ordering::Relaxed);
            self.send(done, reply);
        } else {
            self.hold(Held { due, done, reply: Box::new(reply) });
        }
    }

    /// The timer thread: answers the replies on the heap, forever.
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

    /// Sleeps a few times for each short length, so that the overshoot is known before the first request.
    pub(crate) fn calibrate(&self) {
        let word = AtomicU32::new(0);
        for (sleep_ns, rounds) in [(60_000, 40), (200_000, 40), (1_000_000, 12), (4_000_000, 3)] {
            (0..rounds).for_each(|_| self.sleep_until(now() + sleep_ns, &word, 0));
        }
    }

    /// Counts before it sends: a client that has the reply finds the request counted.
    fn send(&self, done: Done, reply: impl FnOnce()) {
        let since = |moment: MonotonicNs| moment.saturating_sub(done.work.arrived);
        let answered = Answered { own_ns: since(done.done), asked_ns: since(done.asked), got_ns: since(now()) };
        self.counters.answered(done.work.class, answered);
        reply();
    }

    fn wait(&self, mut done: Done, mut due: MonotonicNs) {
        loop {
            due = self.shortened(&mut done, due);
            if now() >= due {
                return;
            }
            self.sleep_until(due, &self.epoch, done.epoch);
        }
    }

    /// The due time by the rule in force now. Each rule is asked only once for each request.
    fn shortened(&self, done: &mut Done, due: MonotonicNs) -> MonotonicNs {
        let epoch = self.epoch.load(Ordering::Acquire);
        if done.epoch == epoch {
            return due;
        }
        done.epoch = epoch;
        let Work { class, place, arrived } = done.work;
        due.min(self.rule().due(class, place, arrived, done.done, self.way()).at)
    }

    fn hold(&self, mut held: Held) {
        let mut queue = self.queue();
        held.due = self.shortened(&mut held.done, held.due);
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
            // In the order in which they are due, so that a limit lets them go in this order, too.
            let mut held = std::mem::take(&mut queue.held).into_sorted_vec();
            held.iter_mut().rev().for_each(|Reverse(held)| held.due = self.shortened(&mut held.done, held.due));
            queue.held = held.into();
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

    /// Returns at `due`, or when `word` is no longer `seen`. A thread that woke too early for a short spin sleeps again: the
    /// second, short sleep on an awake processor ends more precisely than the first.
    fn sleep_until(&self, due: MonotonicNs, word: &AtomicU32, seen: u32) {
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

    /// Spins for the last microseconds. Only one thread spins; the others sleep, and are a little late.
    fn spin_until(&self, due: MonotonicNs, word: &AtomicU32, seen: u32) {
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
    /// Nothing is due now. Holds the time when the next reply is due.
    Next(Option<MonotonicNs>),
}

fn sleep(until: MonotonicNs, word: &AtomicU32, seen: u32) -> Result<(), Errno> {
    futex::wait_bitset(word, futex::Flags::PRIVATE, seen, Some(&timespec(until)), NonZeroU32::MAX)
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
    use evidence::DelayMode;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    const PLACE: Place = Place { file: 1, offset: 0, bytes: 1 };

    fn reads(us: u64, mode: DelayMode) -> Delay {
        Delay { read_us: us, write_us: 0, sync_us: 0, mode, varies: false }
    }

    fn serving(delay: impl Into<Model>, threads: usize) -> Arc<Engine> {
        let engine = Arc::new(Engine::new(delay, threads));
        let timer = engine.clone();
        std::thread::spawn(move || timer.serve_queue());
        engine
    }

    /// Answers `count` reads at once; returns when the last reply has left.
    fn answer_all(engine: &Arc<Engine>, count: usize) -> mpsc::Receiver<Instant> {
        let (sent, received) = mpsc::channel();
        for _ in 0..count {
            let sent = sent.clone();
            engine.answer(engine.arrive(Class::Read, PLACE), move || sent.send(Instant::now()).unwrap());
        }
        received
    }

    #[test]
    fn no_reply_leaves_early() {
        for threads in [1, 16] {
            let engine = serving(reads(20_000, DelayMode::Add), threads);
            let waits = (0..8).map(|_| {
                let engine = engine.clone();
                std::thread::spawn(move || {
                    let start = Instant::now();
                    answer_all(&engine, 1).recv().unwrap() - start
                })
            });
            let waits: Vec<_> = waits.collect();
            let took: Vec<Duration> = waits.into_iter().map(|wait| wait.join().unwrap()).collect();
            assert!(took.iter().all(|time| *time >= Duration::from_micros(19_900)), "{took:?}");
        }
    }

    #[test]
    fn many_wait_at_once() {
        for threads in [1, 16] {
            let engine = serving(reads(3_600_000_000, DelayMode::Add), threads);
            let waits = (0..8).map(|_| {
                let engine = engine.clone();
                std::thread::spawn(move || answer_all(&engine, 1).recv().unwrap())
            });
            let waits: Vec<_> = waits.collect();
            while engine.stats().delayed_reads < 8 {
                std::thread::yield_now();
            }
            assert!(waits.iter().all(|wait| !wait.is_finished()));
            engine.neutralise();
            for wait in waits {
                wait.join().unwrap();
            }
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
    fn what_waits_for_a_limit_goes_when_another_model_lets_it() {
        for threads in [1, 16] {
            let mut slow: Model = reads(0, DelayMode::Total).into();
            slow.depth = Some(1);
            slow.read = diskmodel::Operation::constant(3_000_000_000.0);
            let engine = serving(slow, threads);
            // No reply may be early, counted from the earliest time at which the first request can have arrived.
            let begun = Instant::now();
            let answers: Vec<_> = (0..6)
                .map(|_| {
                    let engine = engine.clone();
                    std::thread::spawn(move || answer_all(&engine, 1).recv().unwrap())
                })
                .collect();
            while engine.stats().delayed_reads < 6 {
                std::thread::yield_now();
            }
            let mut fast: Model = reads(100_000, DelayMode::Add).into();
            fast.depth = Some(1);
            let spread = begun.elapsed();
            engine.set(fast);
            let last = answers.into_iter().map(|answer| answer.join().unwrap()).max().unwrap();
            // Six requests one after the other, each asked once: five wait for those before them, and eleven would if each were asked twice. The
            // model counts this in its own time, which no pause of a thread makes longer.
            let queued = Duration::from_nanos(engine.stats().waited.queue_ns);
            assert!(
                last - begun >= Duration::from_millis(600) && queued <= spread + Duration::from_millis(500),
                "{queued:?} beside {spread:?}"
            );
        }
    }

    #[test]
    fn counts_by_class() {
        let engine = serving(reads(0, DelayMode::Add), 1);
        answer_all(&engine, 3);
        engine.answer(engine.arrive(Class::Sync, Place { bytes: 0, ..PLACE }), || {});
        let stats = engine.stats();
        assert_eq!((stats.reads, stats.read_bytes, stats.syncs, stats.writes, stats.delayed_reads), (3, 3, 1, 0, 0));
        assert_eq!(stats.read_latency.got.count(), 3);
    }
}
