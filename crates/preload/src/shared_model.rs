// SPDX-License-Identifier: Apache-2.0
//! One disk model in shared memory, used by all processes at once: `diskmodel::Law` without a lock.
//!
//! A limit is a bucket in virtual time: one number says when the bucket is empty, and each request moves that number by its cost. A distribution
//! is a list of points of its inverse. Draws are numbered over all processes: the same seed and the same order of requests give the same times.

use crate::class::Class;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The most points of a distribution's inverse: with so many, a straight line between two of them is within half a percent.
pub(crate) const POINTS: usize = 2048;
pub(crate) const LIMITS: usize = 8;
pub(crate) const SERVERS: usize = 4096;
/// The reasons for a wait, as indexes into [`Bank::waits`].
pub(crate) const OPERATIONS: usize = 0;
pub(crate) const BYTES: usize = 1;
pub(crate) const QUEUE: usize = 2;

#[repr(C)]
pub(crate) struct Bank {
    /// 1: the time counts from the arrival; 0: from the end of the work.
    pub(crate) total: AtomicU32,
    pub(crate) limits: AtomicU32,
    /// How many requests the disk serves at once; 0: any number.
    pub(crate) depth: AtomicU32,
    pub(crate) seed: AtomicU64,
    pub(crate) operations: [Operation; 3],
    pub(crate) limit: [Limit; LIMITS],
    pub(crate) stall_every_ns: AtomicU64,
    pub(crate) stall_lasting_ns: AtomicU64,
    pub(crate) stall_factor: Real,
    /// The time of the first request.
    pub(crate) started_ns: AtomicU64,
    /// The end of the last read or write.
    pub(crate) head: AtomicU64,
    pub(crate) server_free_ns: [AtomicU64; SERVERS],
    /// Waits for operations, for bytes, for a server.
    pub(crate) waits: [Waits; 3],
}

/// How long requests waited for one reason. Time in which several requests waited counts once.
#[repr(C)]
pub(crate) struct Waits {
    pub(crate) waited_ns: AtomicU64,
    /// The time up to which it is counted.
    pub(crate) until_ns: AtomicU64,
}

#[repr(C)]
pub(crate) struct Operation {
    pub(crate) takes: Points,
    /// If this has no points, the distribution is that of `takes`.
    pub(crate) sequential: Points,
    pub(crate) ns_per_byte: Real,
    pub(crate) draws: AtomicU64,
}

/// Points of the inverse of a distribution: fraction and nanoseconds, both ascending.
#[repr(C)]
pub(crate) struct Points {
    pub(crate) len: AtomicU32,
    pub(crate) fraction: [Real; POINTS],
    pub(crate) ns: [Real; POINTS],
}

#[repr(C)]
pub(crate) struct Limit {
    /// 0: bytes; 1: operations.
    pub(crate) operations: AtomicU32,
    /// 0: both; 1: reads; 2: writes.
    pub(crate) of: AtomicU32,
    pub(crate) merge: AtomicU32,
    pub(crate) unit_bytes: AtomicU64,
    pub(crate) ns_per_token: Real,
    /// 0: no burst rate.
    pub(crate) burst_ns_per_token: Real,
    /// The time in which the bucket fills, and the credit at the start, in the same measure.
    pub(crate) capacity_ns: AtomicU64,
    pub(crate) credits_ns: AtomicU64,
    /// The time at which the bucket is or was empty, counted from 36 years before the clock's own start. 0: before the first request.
    pub(crate) empty_at_ns: AtomicU64,
    /// The time at which the burst rate lets the next request go.
    pub(crate) next_ns: AtomicU64,
    /// Bytes of the run of adjoining requests.
    pub(crate) run_bytes: AtomicU64,
}

/// A floating-point number.
#[repr(transparent)]
pub(crate) struct Real(AtomicU64);

impl Real {
    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    #[cfg(not(wringer_library))]
    pub(crate) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

#[cfg(any(wringer_library, clippy, test))]
pub(crate) use law::Request;

mod law {
    use super::*;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Request {
        pub(crate) class: Class,
        pub(crate) file: u64,
        pub(crate) offset: u64,
        pub(crate) bytes: u64,
    }

    /// Added to the times of a limit: credits may be worth more than the time since the machine started.
    const EPOCH_NS: u64 = 1 << 60;
    /// The longest delay: beyond it servers take a disk for dead.
    const LONGEST_NS: f64 = 60e9;

    impl Bank {
        pub(crate) fn is_total(&self) -> bool {
            self.total.load(Relaxed) == 1
        }

        fn limits(&self) -> &[Limit] {
            self.limit.get(..self.limits.load(Relaxed) as usize).unwrap_or_default()
        }

        /// How many nanoseconds after `start` this request must be answered.
        pub(crate) fn takes_ns(&self, request: Request, start: u64) -> u64 {
            let started = match self.started_ns.compare_exchange(0, start.max(1), Relaxed, Relaxed) {
                Ok(_) => start,
                Err(started) => started,
            };
            let mut go = start;
            let mut follows = false;
            if request.class != Class::Sync {
                let end = request.offset.wrapping_add(request.bytes);
                follows = self.head.swap(place(request.file, end), Relaxed) == place(request.file, request.offset);
                go = self.admit(request, follows, start);
            }
            let ns = self.draw(request, follows);
            let left = self.serve(go, |go| {
                let ns = ns * self.stall_factor(go.saturating_sub(started));
                go.saturating_add(whole(if ns < LONGEST_NS { ns } else { LONGEST_NS }))
            });
            left - start
        }

        /// The time at which all limits let the request go.
        fn admit(&self, request: Request, follows: bool, start: u64) -> u64 {
            let mut last = (start, None);
            for limit in self.limits() {
                let go = limit.admit(request, follows, start);
                if go > last.0 {
                    last = (go, Some(limit));
                }
            }
            let (go, by) = last;
            if let Some(limit) = by {
                let cause = if limit.operations.load(Relaxed) == 1 { OPERATIONS } else { BYTES };
                self.wait(cause, start, go);
            }
            go
        }

        fn wait(&self, cause: usize, from: u64, to: u64) {
            let Some(waits) = self.waits.get(cause) else { return };
            let until = waits.until_ns.fetch_max(to, Relaxed);
            waits.waited_ns.fetch_add(to.saturating_sub(from.max(until)), Relaxed);
        }

        /// Takes the disk's first free server, which is free again when the request is answered.
        fn serve(&self, go: u64, answered: impl Fn(u64) -> u64) -> u64 {
            let depth = self.depth.load(Relaxed) as usize;
            let servers = self.server_free_ns.get(..depth).unwrap_or_default();
            loop {
                let free = servers.iter().map(|server| (server.load(Relaxed), server)).min_by_key(|(free, _)| *free);
                let Some((free, server)) = free else { return answered(go) };
                let left = answered(go.max(free));
                if server.compare_exchange(free, left, Relaxed, Relaxed).is_ok() {
                    self.wait(QUEUE, go, free);
                    return left;
                }
            }
        }

        fn draw(&self, request: Request, follows: bool) -> f64 {
            let Some(operation) = self.operations.get(request.class as usize) else { return 0.0 };
            let sequential = follows && operation.sequential.len.load(Relaxed) > 0;
            let takes = if sequential { &operation.sequential } else { &operation.takes };
            let number = operation.draws.fetch_add(1, Relaxed);
            let seed = self.seed.load(Relaxed) ^ ((request.class as u64 + 1) << 56);
            let uniform = (scramble(seed.wrapping_add(number.wrapping_mul(GOLDEN))) >> 11) as f64 / (1u64 << 53) as f64;
            takes.quantile(uniform) + operation.ns_per_byte.get() * request.bytes.saturating_sub(4096) as f64
        }

        fn stall_factor(&self, since_start: u64) -> f64 {
            let (every, lasting) = (self.stall_every_ns.load(Relaxed), self.stall_lasting_ns.load(Relaxed));
            if every > 0 && since_start % every >= every - lasting.min(every) { self.stall_factor.get() } else { 1.0 }
        }
    }

    impl Points {
        pub(crate) fn quantile(&self, p: f64) -> f64 {
            let len = (self.len.load(Relaxed) as usize).min(POINTS);
            let at = |index: usize| match (self.fraction.get(index), self.ns.get(index)) {
                (Some(fraction), Some(ns)) => (fraction.get(), ns.get()),
                _ => (1.0, 0.0),
            };
            let (mut low, mut high) = (0, len);
            while low < high {
                let middle = (low + high) / 2;
                if at(middle).0 < p { low = middle + 1 } else { high = middle }
            }
            match (low, len) {
                (_, 0) => 0.0,
                (0, _) => at(0).1,
                (low, len) if low == len => at(len - 1).1,
                (low, _) => {
                    let ((p0, ns0), (p1, ns1)) = (at(low - 1), at(low));
                    ns0 + (ns1 - ns0) * (p - p0) / (p1 - p0)
                }
            }
        }
    }

    impl Limit {
        fn admit(&self, request: Request, follows: bool, now: u64) -> u64 {
            let counted = match self.of.load(Relaxed) {
                1 => request.class == Class::Read,
                2 => request.class == Class::Write,
                _ => true,
            };
            let tokens = match (counted, self.operations.load(Relaxed)) {
                (false, _) => 0,
                (true, 0) => request.bytes,
                (true, _) => self.count(request.bytes, follows),
            };
            if tokens == 0 { now } else { self.take(now, tokens as f64) }
        }

        /// How many operations this request adds to those already counted for its run.
        fn count(&self, bytes: u64, follows: bool) -> u64 {
            let unit = self.unit_bytes.load(Relaxed).max(1);
            let before = if follows && self.merge.load(Relaxed) == 1 { self.run_bytes.load(Relaxed) } else { 0 };
            let run = before.saturating_add(bytes);
            self.run_bytes.store(run, Relaxed);
            run.div_ceil(unit).max(1) - before.div_ceil(unit)
        }

        /// The time at which a request may go: as soon as the bucket is not in debt. The request takes its tokens then.
        fn take(&self, now: u64, tokens: f64) -> u64 {
            let cost = whole(tokens * self.ns_per_token.get());
            let now = now.saturating_add(EPOCH_NS);
            let mut empty = self.empty_at_ns.load(Relaxed);
            let mut go = loop {
                let from = match empty {
                    0 => now.saturating_sub(self.credits_ns.load(Relaxed)).max(1),
                    _ => empty.max(now.saturating_sub(self.capacity_ns.load(Relaxed))),
                };
                match self.empty_at_ns.compare_exchange(empty, from.saturating_add(cost), Relaxed, Relaxed) {
                    Ok(_) => break now.max(from) - EPOCH_NS,
                    Err(other) => empty = other,
                }
            };
            let burst = self.burst_ns_per_token.get();
            if burst > 0.0 {
                let mut next = self.next_ns.load(Relaxed);
                loop {
                    let at = go.max(next);
                    let after = at.saturating_add(whole(tokens * burst));
                    match self.next_ns.compare_exchange(next, after, Relaxed, Relaxed) {
                        Ok(_) => break go = at,
                        Err(other) => next = other,
                    }
                }
            }
            go
        }
    }

    #[allow(clippy::cast_possible_truncation)] // a float beyond u64 saturates
    fn whole(ns: f64) -> u64 {
        (ns + 0.5) as u64
    }

    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

    fn place(file: u64, offset: u64) -> u64 {
        scramble(file ^ scramble(offset.wrapping_add(GOLDEN)))
    }

    /// SplitMix64's output function (Steele, Lea, Flood 2014).
    fn scramble(number: u64) -> u64 {
        let mut z = number.wrapping_add(GOLDEN);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
