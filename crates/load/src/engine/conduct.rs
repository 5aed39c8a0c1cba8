// SPDX-License-Identifier: Apache-2.0
//! Leads the workers through the phases of a load, and merges their results.

use super::meter::{Fault, Measured};
use super::schedule::Schedule;
use super::shared::{PhasePlan, Shared};
use super::slow;
use super::timeline::Collected;
use super::waker::Waker;
use super::worker::Worker;
use super::{Hooks, LoadSpec, PhaseEdge, Progress};
use crate::late::record_wait;
use crate::{Error, Target};
use evidence::{Fairness, Latencies, LatencyHistogram, LoadResult, Phase};
use host::clock::RunClock;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};
use workload::Rng;
use workload::rand_core::SeedableRng as _;

/// The time between the order to begin and the beginning: every worker allocates its histograms in it.
pub(super) const LEAD_NS: u64 = 3_000_000;
/// How often the conductor checks a running phase.
const LOOK_UP: Duration = Duration::from_millis(20);
/// How often it reports the number of open connections.
const CONNECTING_EVERY: Duration = Duration::from_secs(1);

enum Report {
    Connected(Result<LatencyHistogram, Error>),
    Phase(Box<Measured>),
}

pub(super) fn conduct(
    spec: &LoadSpec,
    target: &Target,
    clock: &RunClock,
    hooks: &mut Hooks<'_>,
) -> Result<LoadResult, Error> {
    let shared = Shared::new(spec, target, hooks.stop.clone(), worker_count(spec) as usize)
        .map_err(|source| Error::System { operation: "make an eventfd", source })?;
    let shared = &shared;
    thread::scope(|scope| {
        let mut band = Band::new(scope, shared, clock, hooks)?;
        let result = band.play(hooks);
        if result.is_err() {
            shared.abort.store(true, Ordering::Relaxed);
        }
        result
    })
}

pub(super) fn worker_count(spec: &LoadSpec) -> u32 {
    spec.workers.unwrap_or_else(|| default_workers(spec.connections)).clamp(1, spec.connections)
}

/// How many threads drive this many connections, unless [`LoadSpec::workers`] says otherwise.
pub fn default_workers(connections: u32) -> u32 {
    let cpus = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    usual_workers(connections, cpus).min(connections)
}

/// A worker for every four connections, but at least one for each CPU, and at most four for each CPU or sixteen in all. A worker
/// that soon sleeps leaves its CPU to the server thread that it has just woken. A worker that goes on sending makes the kernel wake
/// the other CPUs, which costs more than all of its own work. Each worker has its own histograms, hence the upper limit.
fn usual_workers(connections: u32, cpus: u32) -> u32 {
    let most = cpus.saturating_mul(4).min(16).max(cpus);
    connections.div_ceil(4).clamp(cpus, most)
}

/// All workers, waiting for the next phase.
struct Band<'env> {
    shared: &'env Shared<'env>,
    clock: &'env RunClock,
    orders: Vec<Sender<Arc<PhasePlan>>>,
    reports: Receiver<Report>,
    connect: LatencyHistogram,
}

/// How a phase ended.
struct Played {
    phase: Phase,
    /// How long all connections had been broken when the load gave up.
    lost_after: Option<Duration>,
}

impl<'env> Band<'env> {
    /// Starts the workers, and waits until all their connections are open.
    fn new<'scope>(
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        clock: &'env RunClock,
        hooks: &mut Hooks<'_>,
    ) -> Result<Self, Error> {
        let workers = shared.wakers.len();
        let mut rngs: Vec<Vec<Rng>> = vec![Vec::new(); workers];
        let mut rng = Rng::seed_from_u64(shared.spec.seed);
        for connection in 0..shared.spec.connections as usize {
            rngs[connection % workers].push(rng.clone());
            rng.jump();
        }
        let (report, reports) = channel();
        let mut orders = Vec::new();
        for (number, rngs) in rngs.into_iter().enumerate() {
            let (order, phases) = channel();
            let report = report.clone();
            scope.spawn(move || work(scope, shared, number, rngs, &phases, &report));
            orders.push(order);
        }
        let mut band = Self { shared, clock, orders, reports, connect: LatencyHistogram::new() };
        band.await_connections(hooks)?;
        Ok(band)
    }

    fn await_connections(&mut self, hooks: &mut Hooks<'_>) -> Result<(), Error> {
        let (mut first_error, mut heard) = (None, 0);
        let began = Instant::now();
        while heard < self.orders.len() {
            match self.reports.recv_timeout(CONNECTING_EVERY) {
                Ok(Report::Connected(Ok(connect))) => self.connect.merge(&connect),
                Ok(Report::Connected(Err(error))) => {
                    self.shared.abort.store(true, Ordering::Relaxed);
                    first_error.get_or_insert(error);
                }
                Err(RecvTimeoutError::Timeout) => {
                    (hooks.on_progress)(&Progress {
                        elapsed: began.elapsed(),
                        connections: self.shared.spec.connections,
                        connecting: Some(self.shared.alive.load(Ordering::Relaxed) as u64),
                        ..Progress::default()
                    });
                    continue;
                }
                _ => return Err(died()),
            }
            heard += 1;
        }
        first_error.map_or(Ok(()), Err)
    }

    fn play(&mut self, hooks: &mut Hooks<'_>) -> Result<LoadResult, Error> {
        let spec = self.shared.spec;
        let mut warmup = None;
        if !spec.warmup.is_zero() {
            let played = self.phase(Some(spec.warmup), None, true, hooks)?;
            if let Some(waited) = played.lost_after {
                return Err(self.lost(
                    "warm-up",
                    waited,
                    played.phase.elapsed_us,
                    Some(played.phase),
                    Phase::default(),
                ));
            }
            warmup = Some(played.phase);
        }
        if self.shared.should_stop() {
            return Ok(self.result(warmup, Phase::default()));
        }
        (hooks.on_phase)(PhaseEdge::MeasuredStart);
        let played = self.phase(spec.time, spec.events, false, hooks)?;
        if let Some(waited) = played.lost_after {
            return Err(self.lost("measured phase", waited, played.phase.elapsed_us, warmup, played.phase));
        }
        (hooks.on_phase)(PhaseEdge::MeasuredEnd);
        Ok(self.result(warmup, played.phase))
    }

    fn phase(
        &mut self,
        time: Option<Duration>,
        events: Option<u64>,
        warmup: bool,
        hooks: &mut Hooks<'_>,
    ) -> Result<Played, Error> {
        let spec = self.shared.spec;
        let start_ns = self.shared.now_ns() + LEAD_NS;
        let length_ns = time.map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let end_ns = start_ns.saturating_add(length_ns);
        // The warm-up has its own arrivals, so that the measured ones do not depend on its length.
        let seed = spec.seed ^ u64::from(warmup);
        let schedule = Schedule::new(spec.arrivals, seed, start_ns, end_ns);
        let mut plan = PhasePlan::new(start_ns, end_ns, schedule, events, self.orders.len());
        plan.slow = spec.slow.filter(|_| !warmup);
        let plan = Arc::new(plan);
        self.orders.iter().try_for_each(|order| order.send(plan.clone())).map_err(|_| died())?;
        let mut watch = Watch::new(self.shared, &plan, warmup);
        let mut parts = Vec::new();
        while parts.len() < self.orders.len() {
            match self.reports.recv_timeout(LOOK_UP) {
                Ok(Report::Phase(measured)) => parts.push(measured),
                Ok(Report::Connected(_)) => {}
                Err(RecvTimeoutError::Timeout) => watch.look(hooks),
                Err(RecvTimeoutError::Disconnected) => return Err(died()),
            }
        }
        watch.collect(self.shared.now_ns());
        let timeline = std::mem::take(&mut watch.timeline);
        let mut phase = self.put_together(&plan, &parts, timeline, watch.lost_after.is_some());
        phase.unconnected_us = watch.unconnected_us().min(phase.elapsed_us);
        Ok(Played { phase, lost_after: watch.lost_after })
    }

    fn put_together(&self, plan: &PhasePlan, parts: &[Box<Measured>], timeline: Collected, lost: bool) -> Phase {
        let shared = self.shared;
        let last_ns = parts.iter().map(|part| part.last_reply_ns).max().unwrap_or(plan.start_ns);
        let cut_ns = parts.iter().map(|part| part.closed_ns).max().unwrap_or(last_ns).min(plan.end_ns);
        // Time without replies counts, also when the server never answers again: silence must not make the server look faster. When the server is
        // lost, the error tells the length of the silence. Time in which nothing was due, or in which clients think, belongs to the rate as well.
        let is_silent = parts.iter().any(|part| part.totals.errors.contains_key(&Fault::NoReply.to_string()))
            || shared.alive.load(Ordering::Relaxed) == 0;
        // where a number of transactions ends it: a worker waits for an arrival of its own before it finds that none is left
        let has_time = !plan.has_no_event_left();
        let last_ns = if (is_silent || has_time) && !lost { last_ns.max(cut_ns) } else { last_ns };
        let at = |ns| self.clock.at(shared.origin + Duration::from_nanos(ns));
        let started_us = at(plan.start_ns);
        let mut phase = Phase { started_us, elapsed_us: (last_ns - plan.start_ns).div_ceil(1000), ..Phase::default() };
        parts.iter().for_each(|part| part.merge_into(&mut phase, &shared.classes));
        let lists = parts.iter().map(|part| &part.slow);
        phase.slow = plan.slow.map(|threshold| slow::together(threshold, lists, &shared.classes, at));
        let connections = parts.iter().flat_map(|part| &part.connections);
        let connections: Vec<_> = connections.map(|(completed, busy_ns)| (*completed, *busy_ns as f64 / 1e3)).collect();
        phase.fairness = Fairness::of(&connections);
        if let Some(schedule) = &plan.schedule {
            let unstarted = parts.iter().filter(|part| part.unstarted_ns.is_some_and(|at| at <= cut_ns)).count();
            phase.skipped = schedule.backlog(cut_ns) + unstarted as u64;
            phase.backlog_max = plan.backlog_max.load(Ordering::Relaxed).max(phase.skipped);
        }
        phase.unended = unended(plan, parts, cut_ns);
        let length_us = u64::try_from(shared.spec.timeline.as_micros()).unwrap_or(u64::MAX);
        phase.timeline = timeline.points(started_us, length_us, phase.elapsed_us);
        phase
    }

    fn result(&self, warmup: Option<Phase>, measured: Phase) -> LoadResult {
        let spec = self.shared.spec;
        LoadResult {
            workload: spec.name.clone(),
            driver: self.shared.target.protocol.name().to_owned(),
            connections: spec.connections,
            workers: u32::try_from(self.orders.len()).unwrap_or(u32::MAX),
            arrivals: spec.arrivals,
            seed: spec.seed,
            distribution: spec.distribution.clone(),
            prepared_statements: spec.prepared,
            connect: self.connect.clone(),
            warmup,
            measured,
        }
    }

    fn lost(
        &self,
        phase: &'static str,
        waited: Duration,
        elapsed_us: u64,
        warmup: Option<Phase>,
        measured: Phase,
    ) -> Error {
        Error::ServerLost {
            phase,
            after_ms: elapsed_us / 1000,
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            partial: Box::new(self.result(warmup, measured)),
            last: self.shared.refusal.lock().unwrap_or_else(PoisonError::into_inner).take().map(Box::new),
        }
    }
}

/// How long the transactions had waited that had not ended with the phase. When no event is left, none is due any more.
fn unended(plan: &PhasePlan, parts: &[Box<Measured>], cut_ns: u64) -> Option<Latencies> {
    let mut unended = Latencies::default();
    for (response_ns, service_ns) in parts.iter().flat_map(|part| &part.unanswered) {
        unended.response.record(*response_ns);
        unended.service.record(*service_ns);
    }
    if let (Some(schedule), false) = (&plan.schedule, plan.has_no_event_left()) {
        let mut wait = |due_ns: u64| record_wait(&mut unended.response, due_ns, cut_ns);
        parts.iter().filter_map(|part| part.unstarted_ns).for_each(&mut wait);
        schedule.each_due(cut_ns, wait);
    }
    (!unended.response.is_empty()).then_some(unended)
}

/// The whole life of a worker.
fn work<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared<'env>,
    number: usize,
    rngs: Vec<Rng>,
    phases: &Receiver<Arc<PhasePlan>>,
    report: &Sender<Report>,
) {
    // With this slack, the timers of an open loop fire on time, and not up to 50 us late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
    let mut worker = match Worker::connect(scope, shared, number, rngs) {
        Ok(worker) => worker,
        Err(error) => return drop(report.send(Report::Connected(Err(error)))),
    };
    let _ = report.send(Report::Connected(Ok(worker.connect.clone())));
    for plan in phases {
        let measured = worker.run(&plan);
        if report.send(Report::Phase(Box::new(measured))).is_err() {
            return;
        }
    }
    if let Some(kept) = &shared.spec.stay {
        kept.take(&mut worker.clients);
    }
}

/// Only a panic ends a worker thread early; the scope propagates it.
fn died() -> Error {
    Error::Invalid("a worker thread of the load ended early".into())
}

/// The conductor's view of a running phase: progress, and whether the server still answers.
struct Watch<'a> {
    shared: &'a Shared<'a>,
    plan: &'a PhasePlan,
    warmup: bool,
    reported_ns: u64,
    /// The last moment at which a line was due, a whole number of intervals after the start.
    due_ns: u64,
    /// What was collected since the last line.
    since: Progress,
    timeline: Collected,
    dead_since: Option<Instant>,
    /// How long no connection was alive, until the last time at which one was.
    dead: Duration,
    lost_after: Option<Duration>,
}

impl<'a> Watch<'a> {
    fn new(shared: &'a Shared<'a>, plan: &'a PhasePlan, warmup: bool) -> Self {
        Self {
            shared,
            plan,
            warmup,
            reported_ns: plan.start_ns,
            due_ns: plan.start_ns,
            since: Progress::default(),
            timeline: Collected::default(),
            dead_since: None,
            dead: Duration::ZERO,
            lost_after: None,
        }
    }

    fn look(&mut self, hooks: &mut Hooks<'_>) {
        let now_ns = self.shared.now_ns();
        self.look_for_life();
        self.look_at_the_end(now_ns);
        self.collect(now_ns);
        let Some(interval) = hooks.progress_interval else { return };
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        if now_ns.saturating_sub(self.due_ns) >= interval_ns {
            let progress = self.progress(now_ns);
            self.reported_ns = now_ns;
            self.due_ns += interval_ns * ((now_ns - self.due_ns) / interval_ns.max(1));
            (hooks.on_progress)(&progress);
        }
    }

    /// Wakes waiting workers at the end of the phase.
    fn look_at_the_end(&self, now_ns: u64) {
        if now_ns >= self.plan.end_ns || self.shared.should_stop() {
            self.shared.wakers.iter().for_each(Waker::wake);
        }
    }

    fn look_for_life(&mut self) {
        if self.shared.alive.load(Ordering::Relaxed) > 0 {
            self.dead += self.dead_since.take().map_or(Duration::ZERO, |since| since.elapsed());
            return;
        }
        let waited = self.dead_since.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.shared.spec.reconnect_limit && self.lost_after.is_none() {
            self.lost_after = Some(waited);
            self.shared.abort.store(true, Ordering::Relaxed);
        }
    }

    /// How long no connection was alive in the time that counts: when the server is lost, the phase ends before that.
    fn unconnected_us(&self) -> u64 {
        let last =
            self.dead_since.filter(|_| self.lost_after.is_none()).map_or(Duration::ZERO, |since| since.elapsed());
        u64::try_from((self.dead + last).as_micros()).unwrap_or(u64::MAX)
    }

    /// Takes the finished slots of all workers.
    fn collect(&mut self, now_ns: u64) {
        let length_ns = u64::try_from(self.shared.spec.timeline.as_nanos()).unwrap_or(u64::MAX);
        let mut filling = Vec::with_capacity(self.plan.pages.len());
        for pages in &self.plan.pages {
            let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
            filling.push(pages.filling);
            for slot in pages.slots.drain(..) {
                self.timeline.add(&slot);
                self.since.transactions += u64::from(slot.transactions);
                self.since.reads += u64::from(slot.reads);
                self.since.writes += u64::from(slot.writes);
                self.since.others += u64::from(slot.others);
                self.since.errors += u64::from(slot.errors);
                self.since.reconnects += u64::from(slot.reconnects);
                self.since.response.add(&slot);
            }
        }
        // a worker may just turn to the slot before this one
        let current = (now_ns.saturating_sub(self.plan.start_ns) / length_ns).saturating_sub(1);
        self.timeline.close(u32::try_from(current).unwrap_or(u32::MAX), &filling);
    }

    fn progress(&mut self, now_ns: u64) -> Progress {
        Progress {
            elapsed: Duration::from_nanos(now_ns.saturating_sub(self.plan.start_ns)),
            interval: Duration::from_nanos(now_ns - self.reported_ns),
            warmup: self.warmup,
            connections: self.shared.spec.connections,
            backlog: self.plan.schedule.as_ref().map_or(0, |schedule| schedule.backlog(now_ns)),
            ..std::mem::take(&mut self.since)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::usual_workers;

    #[test]
    fn workers_follow_connections_within_what_the_cpus_bear() {
        assert_eq!(usual_workers(16, 2), 4);
        assert_eq!(usual_workers(64, 2), 8, "four a CPU");
        assert_eq!(usual_workers(1000, 8), 16, "sixteen in all");
        assert_eq!(usual_workers(1000, 64), 64, "but one a CPU");
        assert_eq!(usual_workers(1, 2), 2, "the caller has no more workers than connections");
    }
}
