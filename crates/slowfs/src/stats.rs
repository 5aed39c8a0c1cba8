// SPDX-License-Identifier: Apache-2.0
//! Counters of the requests that passed through the layer. The layer counts them itself, independently of the server's counters.

use crate::waiting::Seen;
use crate::way::Way;
use diskmodel::{Class, Waited};
use evidence::{Delay, LatencyHistogram};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counters since the layer started. An operation is one FUSE request: a 16 KiB read of a database is one operation, a read from
/// the page cache is none, a read-ahead of 128 KiB is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The delay in force now.
    pub delay: Delay,
    /// Reads, counted when the request arrives.
    pub reads: u64,
    /// Reads that no thread waited for, because the kernel read ahead. Counted when the backing file has answered.
    pub read_ahead: u64,
    /// Reads whose sending thread could not be inspected: a thread may wait for them or not.
    pub unseen_reads: u64,
    pub writes: u64,
    /// fsync, fdatasync and fsync of a directory.
    pub syncs: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Operations that a delay held back.
    pub delayed_reads: u64,
    pub delayed_writes: u64,
    pub delayed_syncs: u64,
    /// Requests answered with an error of the backing file system.
    pub errors: u64,
    pub read_latency: Latency,
    pub write_latency: Latency,
    pub sync_latency: Latency,
    /// CPU time of the layer's process, user and system.
    pub cpu_us: u64,
    /// How much later than asked this host wakes the layer, in nanoseconds: the median for sleeps below 0.1, 0.5, 3 and 30 ms, and
    /// for longer sleeps. The layer asks to be woken this much earlier.
    pub overshoot_ns: Vec<u64>,
    /// The time that the FUSE layer subtracts from each delay, because the kernel needs it to reach the layer and to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
    /// How long requests have waited for the limits of the present model, since it came into force.
    #[serde(default)]
    pub waited: Waited,
    /// Counters of the preload layer, which counts inside the programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_programs: Option<InPrograms>,
}

/// Counts and latencies of one class of operations, from whichever layer.
#[derive(Debug, Clone, Default)]
pub struct OfClass {
    pub operations: u64,
    pub bytes: u64,
    pub delayed: u64,
    pub latency: Latency,
}

impl Stats {
    /// Statistics of these reads, writes and syncs, with the CPU time of this process. Counters that only some layers have are 0.
    pub fn of(delay: Delay, [read, write, sync]: [OfClass; 3]) -> Self {
        Self {
            delay,
            reads: read.operations,
            read_ahead: 0,
            unseen_reads: 0,
            writes: write.operations,
            syncs: sync.operations,
            read_bytes: read.bytes,
            write_bytes: write.bytes,
            delayed_reads: read.delayed,
            delayed_writes: write.delayed,
            delayed_syncs: sync.delayed,
            errors: 0,
            read_latency: read.latency,
            write_latency: write.latency,
            sync_latency: sync.latency,
            cpu_us: cpu_us(),
            overshoot_ns: Vec::new(),
            way: None,
            waited: Waited::default(),
            in_programs: None,
        }
    }
}

/// Counters that only the preload layer has, since the layer started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InPrograms {
    /// Processes that had the library loaded when they started.
    pub processes: u64,
    /// Reads served from the page cache; no other counter includes them.
    pub cached_reads: u64,
    /// Writes that the kernel writes back later; no other counter includes them.
    pub buffered_writes: u64,
    /// Operations without a delay, or with a shortened one, because the layer's process showed no sign of life.
    pub lapsed: u64,
}

impl InPrograms {
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            processes: self.processes - before.processes,
            cached_reads: self.cached_reads - before.cached_reads,
            buffered_writes: self.buffered_writes - before.buffered_writes,
            lapsed: self.lapsed - before.lapsed,
        }
    }
}

/// Latencies from the arrival of a request in the layer to its reply. They do not include the kernel's way to the layer and back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The time that the backing file took.
    pub own: LatencyHistogram,
    /// The time until the planned reply, by the delay in force at arrival.
    pub asked: LatencyHistogram,
    /// The time until the real reply.
    pub got: LatencyHistogram,
}

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub own_ns: u64,
    pub asked_ns: u64,
    pub got_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    classes: [Counted; 3],
    read_ahead: AtomicU64,
    unseen_reads: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug, Default)]
struct Counted {
    operations: AtomicU64,
    bytes: AtomicU64,
    delayed: AtomicU64,
    latency: Mutex<Latency>,
}

impl Counters {
    pub(crate) fn arrived(&self, class: Class, bytes: u64) {
        let counted = &self.classes[class as usize];
        counted.operations.fetch_add(1, Relaxed);
        counted.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn held(&self, class: Class) {
        self.classes[class as usize].delayed.fetch_add(1, Relaxed);
    }

    pub(crate) fn seen(&self, seen: Seen) {
        match seen {
            Seen::Waits => {}
            Seen::Ahead => drop(self.read_ahead.fetch_add(1, Relaxed)),
            Seen::Unseen => drop(self.unseen_reads.fetch_add(1, Relaxed)),
        }
    }

    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn answered(&self, class: Class, answered: Answered) {
        let mut latency = self.classes[class as usize].latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.own.record(answered.own_ns);
        latency.asked.record(answered.asked_ns);
        latency.got.record(answered.got_ns);
    }

    pub(crate) fn snapshot(&self, delay: Delay) -> Stats {
        Stats {
            read_ahead: self.read_ahead.load(Relaxed),
            unseen_reads: self.unseen_reads.load(Relaxed),
            errors: self.errors.load(Relaxed),
            ..Stats::of(delay, self.classes.each_ref().map(Counted::so_far))
        }
    }
}

impl Counted {
    fn so_far(&self) -> OfClass {
        OfClass {
            operations: self.operations.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            delayed: self.delayed.load(Relaxed),
            latency: self.latency.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// CPU time of this process, user and system.
fn cpu_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}
