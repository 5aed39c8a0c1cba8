// SPDX-License-Identifier: Apache-2.0
//! Random reads of one file: latency histogram, operations a second, and the cost of the probe itself. Writes and syncs only on a
//! file that [`crate::target`] has made.
//!
//! Each thread has one operation in flight, so the number of threads is the depth. Latency is service time: from just before the
//! system call to just after it.

use crate::Error;
use crate::cpu::Cpu;
use crate::scramble::{fill, scramble};
use crate::target::Target;
use evidence::LatencyHistogram;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Read,
    Write,
    /// A write and fdatasync, timed together.
    Sync,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub operation: Operation,
    pub block_bytes: usize,
    pub threads: usize,
    /// The number of operations of all threads, and the time. The probe ends at the first of the two.
    pub count: Option<u64>,
    pub time: Option<Duration>,
    /// Use only this much of the file, from its beginning.
    pub working_set_bytes: Option<u64>,
    /// Pause of each thread between two operations.
    pub interval: Duration,
    /// The seed of the offsets: the same seed gives the same offsets.
    pub seed: u64,
}

#[derive(Debug, Clone)]
pub struct Measured {
    pub histogram: LatencyHistogram,
    pub elapsed: Duration,
    /// CPU time of all threads, system calls included.
    pub cpu: Cpu,
    /// Time between the operations: reading the clock, choosing the next offset, counting. Without `interval`.
    pub between: Duration,
    pub working_set_bytes: u64,
}

/// Buffers and offsets of direct I/O must be aligned; 4096 is enough for every device.
const ALIGNMENT: usize = 4096;

/// # Errors
/// The block size or the working set does not fit the file, or an operation failed.
pub fn measure(target: &Target, options: &Options) -> Result<Measured, Error> {
    let path = &target.path;
    let working_set_bytes = options.working_set_bytes.unwrap_or(u64::MAX).min(target.size_bytes);
    let blocks = working_set_bytes.checked_div(options.block_bytes as u64).unwrap_or(0);
    if blocks == 0 {
        let why = format!("{working_set_bytes} bytes hold no block of {}", options.block_bytes);
        return Err(Error::unfit(path, why, "choose a larger file or working set, or a smaller --block"));
    }
    if options.operation != Operation::Read && !target.own {
        return Err(Error::unfit(path, "it is not the probe's own, and is never written", "add --create SIZE"));
    }
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    let results: Vec<Result<Share, Error>> = std::thread::scope(|scope| {
        let spawn = |thread: usize| {
            let (file, stop) = (&target.file, &stop);
            let mut worker = Worker::new(options, thread, blocks);
            scope.spawn(move || worker.run(file, started, stop).map_err(Error::file(worker.verb(), path)))
        };
        let workers: Vec<_> = (0..options.threads.max(1)).map(spawn).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let elapsed = started.elapsed();
    let mut whole = Measured {
        histogram: LatencyHistogram::new(),
        elapsed,
        cpu: Cpu::default(),
        between: Duration::ZERO,
        working_set_bytes,
    };
    for share in results {
        let share = share?;
        whole.histogram.merge(&share.histogram);
        whole.cpu += share.cpu;
        whole.between += share.between;
    }
    Ok(whole)
}

/// The result of one thread.
struct Share {
    histogram: LatencyHistogram,
    cpu: Cpu,
    between: Duration,
}

struct Worker {
    options: Options,
    /// How many of the operations this thread makes.
    count: u64,
    blocks: u64,
    random: u64,
    memory: Vec<u8>,
}

impl Worker {
    fn new(options: &Options, thread: usize, blocks: u64) -> Self {
        let threads = options.threads.max(1) as u64;
        let own = |count: u64| count / threads + u64::from((thread as u64) < count % threads);
        let random = scramble(options.seed ^ scramble(thread as u64));
        let mut memory = vec![0; options.block_bytes + ALIGNMENT];
        fill(&mut memory, random);
        Self { count: options.count.map_or(u64::MAX, own), options: options.clone(), blocks, random, memory }
    }

    fn verb(&self) -> &'static str {
        match self.options.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "write and sync",
        }
    }

    fn run(&mut self, file: &File, started: Instant, stop: &AtomicBool) -> std::io::Result<Share> {
        let mut histogram = LatencyHistogram::new();
        let (mut inside, mut paused) = (Duration::ZERO, Duration::ZERO);
        let (began, cpu) = (Instant::now(), Cpu::of_this_thread());
        for number in 0..self.count {
            let offset = self.next_offset();
            let start = Instant::now();
            if let Err(error) = self.operate(file, offset) {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            let end = Instant::now();
            inside += end - start;
            histogram.record(u64::try_from((end - start).as_nanos()).unwrap_or(u64::MAX));
            if self.options.time.is_some_and(|time| end - started >= time) || stop.load(Ordering::Relaxed) {
                break;
            }
            if host::interrupt::requested() {
                break;
            }
            if !self.options.interval.is_zero() && number + 1 < self.count {
                std::thread::sleep(self.options.interval);
                paused += end.elapsed();
            }
        }
        let between = began.elapsed().saturating_sub(inside + paused);
        Ok(Share { histogram, cpu: Cpu::of_this_thread() - cpu, between })
    }

    fn operate(&mut self, file: &File, offset: u64) -> std::io::Result<()> {
        let aligned = self.memory.as_ptr().align_offset(ALIGNMENT);
        let block = &mut self.memory[aligned..aligned + self.options.block_bytes];
        match self.options.operation {
            Operation::Read => file.read_exact_at(block, offset),
            Operation::Write => file.write_all_at(block, offset),
            Operation::Sync => file.write_all_at(block, offset).and_then(|()| file.sync_data()),
        }
    }

    fn next_offset(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The high half of a product spreads evenly over the blocks (Lemire, 2019).
        let block = (u128::from(scramble(self.random)) * u128::from(self.blocks)) >> 64;
        u64::try_from(block).unwrap_or(0) * self.options.block_bytes as u64
    }
}
