// SPDX-License-Identifier: Apache-2.0
use crate::bucket::Bucket;
use crate::class::Class;
use crate::model::{Counts, Model, Of, Operation};
use crate::waited::{Cause, Waited, Waits};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The properties of a request that a disk model needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub class: Class,
    pub file: u64,
    pub offset: u64,
    pub bytes: u64,
}

/// A model at work. It remembers credits, busy servers and the position of the head, and gives each request its delay.
#[derive(Debug)]
pub struct Law {
    model: Model,
    /// One generator for each class, so that the times of a class do not depend on requests of other classes.
    draws: [Xoshiro256PlusPlus; 3],
    buckets: Vec<Metered>,
    /// The time at which each server is free; as many servers as the model's depth.
    servers: Option<BinaryHeap<Reverse<u64>>>,
    /// File and offset of the end of the last read or write.
    head: Option<(u64, u64)>,
    /// The time of the first request.
    started: Option<u64>,
    waits: Waits,
}

/// A bucket, with the run of adjoining requests that counts as one operation.
#[derive(Debug)]
struct Metered {
    bucket: Bucket,
    counts: Counts,
    of: Of,
    unit: u64,
    merge: bool,
    run: u64,
}

/// The longest delay, whatever the model asks: beyond it servers take a disk for dead.
const LONGEST_US: f64 = 60e6;

impl Law {
    pub fn new(model: Model) -> Self {
        let draws = [0x5eed_0001, 0x5eed_0002, 0x5eed_0003u64]
            .map(|class| Xoshiro256PlusPlus::seed_from_u64(model.seed ^ (class << 32)));
        let metered = model.limits.iter().map(|limit| Metered {
            bucket: Bucket::new(limit.rate_per_second, limit.burst_per_second, limit.capacity, limit.credits),
            counts: limit.counts,
            of: limit.of,
            unit: limit.unit_bytes.unwrap_or(u64::MAX).max(1),
            merge: limit.merge,
            run: 0,
        });
        let buckets = metered.collect();
        let servers = model.depth.map(|depth| (0..depth.max(1)).map(|_| Reverse(0)).collect());
        Self { model, draws, buckets, servers, head: None, started: None, waits: Waits::default() }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How long requests have waited for the limits so far.
    pub fn waited(&self) -> Waited {
        self.waits.waited
    }

    /// How many nanoseconds after `start` this request must be answered. The order of the calls is the order of the requests.
    pub fn takes_ns(&mut self, request: &Request, start: u64) -> u64 {
        let started = *self.started.get_or_insert(start);
        let follows = request.class != Class::Sync && self.head == Some((request.file, request.offset));
        let mut go = start;
        if request.class != Class::Sync {
            self.head = Some((request.file, request.offset + request.bytes));
            go = self.admit(request, follows, start);
        }
        let mut us = self.draw(request, follows);
        if let Some(server) = self.servers.as_mut().and_then(BinaryHeap::pop) {
            self.waits.add(Cause::Queue, go, server.0);
            go = go.max(server.0);
        }
        us = (us * self.stall_factor(go.saturating_sub(started))).min(LONGEST_US);
        #[allow(clippy::cast_possible_truncation)] // not negative, and below an hour
        let left = go + (us * 1000.0).round() as u64;
        if let Some(servers) = &mut self.servers {
            servers.push(Reverse(left));
        }
        left - start
    }

    /// The time at which all limits let the request go.
    fn admit(&mut self, request: &Request, follows: bool, start: u64) -> u64 {
        let mut last = (start, None);
        for metered in &mut self.buckets {
            let go = metered.admit(request, follows, start);
            if go > last.0 {
                last = (go, Some(metered.counts));
            }
        }
        let (go, by) = last;
        if let Some(counts) = by {
            let cause = if counts == Counts::Bytes { Cause::Bytes } else { Cause::Operations };
            self.waits.add(cause, start, go);
        }
        go
    }

    fn draw(&mut self, request: &Request, follows: bool) -> f64 {
        let operation: &Operation = match request.class {
            Class::Read => &self.model.read,
            Class::Write => &self.model.write,
            Class::Sync => &self.model.sync,
        };
        let takes = operation.sequential.as_ref().filter(|_| follows).unwrap_or(&operation.takes);
        // Always draw, so that a change of one figure does not change the other draws.
        let uniform = (self.draws[request.class as usize].next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        takes.quantile(uniform) + operation.us_per_kib * (request.bytes.saturating_sub(4096) as f64 / 1024.0)
    }

    fn stall_factor(&self, since_start: u64) -> f64 {
        match &self.model.stalls {
            Some(stalls) if since_start as f64 / 1000.0 % stalls.every_us >= stalls.every_us - stalls.lasting_us => {
                stalls.factor
            }
            _ => 1.0,
        }
    }
}

impl Metered {
    fn admit(&mut self, request: &Request, follows: bool, now: u64) -> u64 {
        let counted = match self.of {
            Of::Both => true,
            Of::Reads => request.class == Class::Read,
            Of::Writes => request.class == Class::Write,
        };
        if !counted {
            return now;
        }
        let cost = match self.counts {
            Counts::Bytes => request.bytes,
            Counts::Operations => self.operations(request.bytes, follows),
        };
        if cost == 0 { now } else { self.bucket.admit(now, cost as f64) }
    }

    /// How many operations this request adds to those already counted for its run.
    fn operations(&mut self, bytes: u64, follows: bool) -> u64 {
        let before = if follows && self.merge { self.run } else { 0 };
        self.run = before + bytes;
        self.run.div_ceil(self.unit).max(1) - before.div_ceil(self.unit)
    }
}
