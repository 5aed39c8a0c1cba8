// SPDX-License-Identifier: Apache-2.0
//! Sends a workload over many connections, and measures the answers.
//!
//! A few worker threads each run an event loop over their share of the connections. All share one schedule of intended starts:
//! latency counts from the intended start, also when every connection was busy at that time. A phase (warm-up, measured) begins and
//! ends with nothing in flight. Statements that still run at the end of its time are waited for and counted.
//!
//! In: a [`LoadSpec`], a [`Target`], the run's clock. Out: an [`evidence::LoadResult`], or [`Error::ServerLost`] with the result
//! until then. Overload is counted, and never ends a load.

mod client;
mod conduct;
mod descriptors;
mod hand_over;
mod meter;
mod open_connections;
mod poller;
mod reconnect;
mod schedule;
mod shared;
mod slow;
mod timeline;
mod usage;
mod waker;
mod worker;

pub use conduct::default_workers;
pub use open_connections::Kept;
pub use timeline::Coarse;
pub(crate) use timeline::{Collected, Filling};
pub(crate) use usage::Usage;

use crate::{Error, Target};
use evidence::{Arrivals, LoadResult};
use host::clock::RunClock;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use workload::rand_core::SeedableRng as _;
use workload::{Kind, Rng, Transaction, Workload};

/// The workload, and the length of the load.
pub struct LoadSpec {
    /// `oltp_point_select`; copied into the result.
    pub name: String,
    /// The key distribution, for people; copied into the result.
    pub distribution: String,
    pub workload: Arc<dyn Workload>,
    pub connections: u32,
    /// Threads that drive the connections; never more than connections. `None`: one for every four connections, within one and four for each CPU.
    pub workers: Option<u32>,
    pub arrivals: Arrivals,
    /// The same seed draws the same values on the same connection, whatever the number of workers.
    pub seed: u64,
    /// Zero: no warm-up.
    pub warmup: Duration,
    /// No transaction starts later than this time after the start of the measured phase. `None`: only `events` ends it.
    pub time: Option<Duration>,
    /// Transactions to start in the measured phase, over all connections. `None`: only `time` ends it.
    pub events: Option<u64>,
    /// False: statements are sent as text (`--db-ps-mode=disable`).
    pub prepared: bool,
    /// Length of a timeline slot; 10 ms to 1 s.
    pub timeline: Duration,
    /// An observer reads the server's counters at the edges of the measured phase: make them include all work until then.
    pub counted: bool,
    /// Statements of the measured phase that last this long or longer are kept one by one, at most 4096 for each worker. `None`: no statement is
    /// kept.
    pub slow: Option<Duration>,
    /// Takes the connections that are open when the load is over. `None`: they are closed.
    pub stay: Option<Kept>,
    /// How long to wait for running statements at the end of a phase. Then their connections are closed.
    pub drain_limit: Duration,
    /// How long the load goes on while all connections are broken.
    pub reconnect_limit: Duration,
    /// Nanoseconds of a scripted server's clock, instead of the machine's clock. For one connection.
    #[cfg(test)]
    scripted_clock: Option<Arc<std::sync::atomic::AtomicU64>>,
}

/// The first transactions of connection 1, with `seed`.
pub fn preview(workload: &dyn Workload, seed: u64, transactions: u32) -> impl Iterator<Item = Transaction> {
    let mut rng = Rng::seed_from_u64(seed);
    (0..transactions).map(move |_| {
        let mut transaction = Transaction::default();
        workload.next(&mut rng, &mut transaction);
        transaction
    })
}

impl LoadSpec {
    /// The least number of statements that each connection keeps prepared at the server: some servers take BEGIN and COMMIT as text only.
    pub fn statements_prepared(&self) -> u64 {
        let kept = self.workload.statements().iter().filter(|statement| statement.kind != Kind::Other);
        if self.prepared { kept.count() as u64 } else { 0 }
    }

    /// A closed loop of ten seconds on one connection.
    pub fn new(name: impl Into<String>, workload: Arc<dyn Workload>) -> Self {
        Self {
            name: name.into(),
            distribution: String::new(),
            workload,
            connections: 1,
            workers: None,
            arrivals: Arrivals::Closed,
            seed: 1,
            warmup: Duration::ZERO,
            time: Some(Duration::from_secs(10)),
            events: None,
            prepared: true,
            timeline: Duration::from_millis(100),
            counted: false,
            slow: None,
            stay: None,
            drain_limit: Duration::from_secs(30),
            reconnect_limit: Duration::from_secs(5),
            #[cfg(test)]
            scripted_clock: None,
        }
    }
}

/// Moments at which nothing is in flight: counters read there belong to one phase only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseEdge {
    MeasuredStart,
    MeasuredEnd,
}

/// The work since the last report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The time since the phase began.
    pub elapsed: Duration,
    /// The length of the reported interval.
    pub interval: Duration,
    pub warmup: bool,
    pub connections: u32,
    pub transactions: u64,
    pub reads: u64,
    pub writes: u64,
    pub others: u64,
    pub errors: u64,
    pub reconnects: u64,
    /// Response times of the transactions that ended in this interval; buckets of 1.6 %.
    pub response: Coarse,
    /// Open loop: intended starts that wait for a free connection at the end of the interval.
    pub backlog: u64,
    /// The number of open connections before a phase begins; the other fields are unknown then. Reported every second, whatever the
    /// interval. `None` in a phase.
    pub connecting: Option<u64>,
}

/// Callbacks of the caller.
pub struct Hooks<'a> {
    pub on_phase: &'a mut dyn FnMut(PhaseEdge),
    pub on_progress: &'a mut dyn FnMut(&Progress),
    /// `None`: no progress reports.
    pub progress_interval: Option<Duration>,
    /// Set it to drain and end the load; the result then holds everything measured so far.
    pub stop: Arc<AtomicBool>,
}

/// Runs the load to its end.
///
/// # Errors
/// [`Error::Invalid`] for a spec that cannot run; [`Error::Descriptors`] when this process may not open so many sockets;
/// [`Error::Connect`], [`Error::Server`] and the like when the first connections
/// fail; [`Error::ServerLost`] when the server goes away in the middle.
pub fn run(spec: &LoadSpec, target: &Target, clock: &RunClock, hooks: &mut Hooks<'_>) -> Result<LoadResult, Error> {
    check(spec)?;
    conduct::conduct(spec, target, clock, hooks)
}

/// Checks everything that can be known before anything is sent. Raises this process's limit of open files if needed.
///
/// # Errors
/// As [`run`], except errors of the server.
pub fn check(spec: &LoadSpec) -> Result<(), Error> {
    let refuse = |text: &str| Err(Error::Invalid(text.to_owned()));
    let rate = match spec.arrivals {
        // a log has an engine of its own: the module replay
        Arrivals::Closed | Arrivals::Recorded { .. } => None,
        Arrivals::Constant { per_second } | Arrivals::Poisson { per_second } => Some(per_second),
    };
    if spec.connections == 0 {
        return refuse("a load needs at least one connection");
    }
    if spec.workers == Some(0) {
        return refuse("a load needs at least one worker");
    }
    if spec.time.is_none() && spec.events.is_none() {
        return refuse("a load needs an end: a time, or a number of events");
    }
    if rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
        return refuse("the rate is a number of transactions a second, above 0 and up to 1000000000");
    }
    if !(Duration::from_millis(10)..=Duration::from_secs(1)).contains(&spec.timeline) {
        return refuse("a timeline slot is 10 ms to 1 s long");
    }
    descriptors::make_room(spec.connections, conduct::worker_count(spec))
}

#[cfg(test)]
mod tests;
