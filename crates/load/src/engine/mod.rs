// SPDX-License-Identifier: Apache-2.0
//! Sends a workload over many connections and measures what comes back.
//!
//! A few worker threads each run an event loop over their share of the connections. Above them stands one schedule of intended
//! starts: latency counts from there, also when every connection was busy at that time. A phase (warm-up, measured) begins and
//! ends with nothing in flight; statements that are still running when its time is up are waited for and counted.
//!
//! In: a [`LoadSpec`], a [`Target`], the run's clock. Out: an [`evidence::LoadResult`], or [`Error::ServerLost`] with what was
//! measured until then. Overload is counted, never a reason to stop.

mod client;
mod conduct;
mod descriptors;
mod hand_over;
mod meter;
mod poller;
mod reconnect;
mod schedule;
mod shared;
mod timeline;
mod usage;
mod waker;
mod worker;

pub use conduct::default_workers;
pub use timeline::Coarse;
pub(crate) use timeline::{Filling, Slot, points};
pub(crate) use usage::Usage;

use crate::{Error, Target};
use evidence::{Arrivals, LoadResult};
use host::clock::RunClock;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use workload::rand_core::SeedableRng as _;
use workload::{Kind, Rng, Transaction, Workload};

/// What to send, and for how long.
pub struct LoadSpec {
    /// `oltp_point_select`; goes into the result as it is.
    pub name: String,
    /// The distribution in force, in words; goes into the result as it is.
    pub distribution: String,
    pub workload: Arc<dyn Workload>,
    pub connections: u32,
    /// Threads that drive them; never more than connections. `None`: one for every four connections, within one and four a CPU.
    pub workers: Option<u32>,
    pub arrivals: Arrivals,
    /// The same seed draws the same values on the same connection, whatever the number of workers.
    pub seed: u64,
    /// Zero: no warm-up.
    pub warmup: Duration,
    /// No transaction starts later than this after the measured phase began. `None`: only `events` ends it.
    pub time: Option<Duration>,
    /// Transactions to start in the measured phase, over all connections. `None`: only `time` ends it.
    pub events: Option<u64>,
    /// False: statements go as text (`--db-ps-mode=disable`).
    pub prepared: bool,
    /// Length of a timeline slot; 10 ms to 1 s.
    pub timeline: Duration,
    /// Somebody reads the server's counters at the edges of the measured phase: they are made to hold all of the work until then.
    pub counted: bool,
    /// How long running statements are waited for when a phase is over. Then their connections are cut.
    pub drain_limit: Duration,
    /// How long no connection at all may be alive before the load gives up.
    pub reconnect_limit: Duration,
    /// Nanoseconds that a scripted server moves forward, instead of the machine's clock. For one connection.
    #[cfg(test)]
    scripted_clock: Option<Arc<std::sync::atomic::AtomicU64>>,
}

/// What connection 1 would send first, transaction by transaction, with `seed`.
pub fn preview(workload: &dyn Workload, seed: u64, transactions: u32) -> impl Iterator<Item = Transaction> {
    let mut rng = Rng::seed_from_u64(seed);
    (0..transactions).map(move |_| {
        let mut transaction = Transaction::default();
        workload.next(&mut rng, &mut transaction);
        transaction
    })
}

impl LoadSpec {
    /// How many statements each connection keeps prepared at the server, at least: some servers take BEGIN and COMMIT as text only.
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
            drain_limit: Duration::from_secs(30),
            reconnect_limit: Duration::from_secs(5),
            #[cfg(test)]
            scripted_clock: None,
        }
    }
}

/// Moments at which nothing is in flight: counters read there belong to one phase alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseEdge {
    MeasuredStart,
    MeasuredEnd,
}

/// What was done since the last report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Since the phase began.
    pub elapsed: Duration,
    /// Length of the time reported on.
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
    /// Open loop: intended starts waiting for a free connection, at the end of the interval.
    pub backlog: u64,
    /// So many connections are up, and no phase has begun: nothing else is known yet. Reported every second from the first one
    /// on, whatever the interval. `None` in a phase.
    pub connecting: Option<u64>,
}

/// Calls back into whoever started the load.
pub struct Hooks<'a> {
    pub on_phase: &'a mut dyn FnMut(PhaseEdge),
    pub on_progress: &'a mut dyn FnMut(&Progress),
    /// `None`: no progress reports.
    pub progress_interval: Option<Duration>,
    /// Set it, and the load drains and ends; the result holds what was measured.
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

/// What can be known to be in the way before anything is sent. Makes room for the connections among this process's open files.
///
/// # Errors
/// As [`run`], but for those of the server.
pub fn check(spec: &LoadSpec) -> Result<(), Error> {
    let refuse = |text: &str| Err(Error::Invalid(text.to_owned()));
    let rate = match spec.arrivals {
        Arrivals::Closed => None,
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
