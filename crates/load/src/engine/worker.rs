// SPDX-License-Identifier: Apache-2.0
//! The event loop over one worker's connections.

use super::client::{Activity, Client, Ready, Retry};
use super::hand_over::hand_over;
use super::meter::{Fault, Measured, Meter};
use super::poller::Poller;
use super::reconnect::Reconnector;
use super::shared::{PhasePlan, Shared};
use super::slow::Entry;
use crate::Error;
use crate::protocol::{Event, Reply};
use crate::transport::READ_BYTES;
use evidence::LatencyHistogram;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::Duration;
use workload::{Kind, Rng};

/// How often an idle worker checks whether to stop.
const LOOK_UP: Duration = Duration::from_millis(50);
/// The same pause, while broken connections are being made again.
const LOOK_UP_SOON: Duration = Duration::from_millis(2);
/// The pause between two checks of an overloaded open loop's backlog.
const BACKLOG_EVERY_NS: u64 = 1_000_000;
const WANTS_DATA: &str = "the statement wants data of the client (COPY FROM STDIN, LOAD DATA LOCAL): there is none";
/// The key of the waker in the poller.
const WAKER: usize = usize::MAX;

pub(super) struct Worker<'scope, 'env> {
    shared: &'env Shared<'env>,
    number: usize,
    pub(super) clients: Vec<Client>,
    /// Used for a single connection, too. A blocking read would save a system call, but cost a wake-up: on a Unix socket a blocked
    /// reader also wakes when its peer takes the request (`unix_write_space` in Linux' net/unix/af_unix.c).
    poller: Poller,
    reconnector: Reconnector<'scope, 'env>,
    scratch: Vec<u8>,
    ready: Vec<usize>,
    pub(super) connect: LatencyHistogram,
}

impl<'scope, 'env> Worker<'scope, 'env> {
    /// Connects one client for each generator.
    pub(super) fn connect(
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        number: usize,
        rngs: Vec<Rng>,
    ) -> Result<Self, Error> {
        let waker = &shared.wakers[number];
        let poller = Poller::woken_by(waker, WAKER).map_err(|e| system("make an epoll instance", e))?;
        let mut connect = LatencyHistogram::new();
        let mut clients = Vec::with_capacity(rngs.len());
        for (key, rng) in rngs.into_iter().enumerate() {
            if shared.should_stop() {
                break;
            }
            let before = shared.now_ns();
            let mut client = Client::new(Ready::open(shared)?, rng);
            connect.record(shared.now_ns() - before);
            shared.alive.fetch_add(1, Ordering::Relaxed);
            attach(&mut client, key, &poller).map_err(|e| system("set a socket up", e))?;
            clients.push(client);
        }
        let reconnector = Reconnector::new(scope, shared);
        let scratch = vec![0; READ_BYTES];
        Ok(Self { shared, number, clients, poller, reconnector, scratch, ready: Vec::new(), connect })
    }

    /// Runs one phase to its end. Before and after it nothing is in flight.
    pub(super) fn run(&mut self, plan: &PhasePlan) -> Measured {
        let meter = Meter::new(self.shared, plan, self.number);
        let idle = (0..self.clients.len()).filter(|key| self.clients[*key].activity == Activity::Idle).collect();
        let now_ns = self.shared.now_ns();
        let phase = PhaseLoop {
            worker: self,
            plan,
            meter,
            idle,
            in_flight: 0,
            claim: None,
            closing_since_ns: None,
            backlog_looked_ns: 0,
            thinking: BinaryHeap::new(),
            now_ns,
        };
        let mut measured = phase.run();
        let take = |client: &mut Client| std::mem::take(&mut client.completed);
        measured.connections = self.clients.iter_mut().map(take).collect();
        hand_over(&mut self.clients, self.shared);
        measured
    }
}

fn system(operation: &'static str, source: io::Error) -> Error {
    Error::System { operation, source }
}

fn attach(client: &mut Client, key: usize, poller: &Poller) -> io::Result<()> {
    let Some(link) = client.link() else { return Ok(()) };
    link.transport.set_blocking(false)?;
    poller.add(&link.transport, key)
}

/// The state of one phase.
struct PhaseLoop<'a, 'scope, 'env> {
    worker: &'a mut Worker<'scope, 'env>,
    plan: &'a PhasePlan,
    meter: Meter<'a>,
    idle: VecDeque<usize>,
    in_flight: usize,
    /// Open loop: an intended start that this worker has claimed, and that waits for its time or for a connection.
    claim: Option<u64>,
    closing_since_ns: Option<u64>,
    backlog_looked_ns: u64,
    /// Waiting clients and their times: between two transactions, or within one.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    now_ns: u64,
}

impl PhaseLoop<'_, '_, '_> {
    fn run(mut self) -> Measured {
        loop {
            self.now_ns = self.worker.shared.now_ns();
            self.meter.tick(self.now_ns);
            self.close_when_over();
            if self.closing_since_ns.is_some() && self.in_flight == 0 {
                break;
            }
            self.dispatch();
            self.wake();
            self.wait();
            self.take_reconnected();
        }
        self.meter.unstarted_ns = self.claim;
        self.meter.closed_ns = self.closing_since_ns.unwrap_or(self.now_ns);
        self.meter.finish()
    }

    fn close_when_over(&mut self) {
        let shared = self.worker.shared;
        match self.closing_since_ns {
            None if self.now_ns >= self.plan.end_ns || shared.should_stop() || self.waits_in_vain() => {
                self.closing_since_ns = Some(self.now_ns)
            }
            Some(since) if self.in_flight > 0 => {
                let limit = u64::try_from(shared.spec.drain_limit.as_nanos()).unwrap_or(u64::MAX);
                if shared.abort.load(Ordering::Relaxed) || self.now_ns - since > limit {
                    self.cut();
                }
            }
            _ => {}
        }
    }

    /// Whether all that this worker waits for are new connections, and no event is left for them. The server may refuse them for good, while other
    /// workers have connections.
    fn waits_in_vain(&self) -> bool {
        self.in_flight == 0 && self.worker.reconnector.pending > 0 && self.plan.has_no_event_left()
    }

    /// Gives up on missing replies.
    #[cold]
    fn cut(&mut self) {
        for key in 0..self.worker.clients.len() {
            if self.worker.clients[key].is_busy() {
                self.meter.unanswered.push(self.worker.clients[key].lasted_ns(self.now_ns));
                self.broken(key, Fault::NoReply, "");
            }
        }
    }

    /// Starts the due transactions on free connections.
    fn dispatch(&mut self) {
        if self.closing_since_ns.is_some() || self.now_ns < self.plan.start_ns {
            return;
        }
        if let Some(schedule) = &self.plan.schedule {
            while !self.idle.is_empty() {
                self.now_ns = self.worker.shared.now_ns();
                if self.claim.is_none() {
                    self.look_at_backlog();
                    self.claim = schedule.claim();
                }
                match self.claim {
                    // a reply that was read late must not begin another transaction
                    Some(intended_ns) if intended_ns <= self.now_ns && self.now_ns < self.plan.end_ns => {
                        self.claim = None;
                        let Some(key) = self.idle.pop_front() else { break };
                        self.start(key, intended_ns);
                    }
                    _ => break,
                }
            }
        } else {
            while self.closing_since_ns.is_none() {
                let Some(key) = self.idle.pop_front() else { break };
                self.now_ns = self.worker.shared.now_ns();
                self.start(key, self.now_ns);
            }
        }
    }

    /// Continues the clients whose waiting time is over.
    #[inline]
    fn wake(&mut self) {
        while let Some(&Reverse((due_ns, key))) = self.thinking.peek() {
            if due_ns > self.now_ns {
                return;
            }
            self.thinking.pop();
            if self.worker.clients[key].activity == Activity::Pause {
                self.send_step(key);
            } else if self.closing_since_ns.is_none() {
                self.start(key, self.now_ns);
            }
        }
    }

    /// Sends the next step, at once or after the workload's pause.
    #[inline]
    fn go_on(&mut self, key: usize) {
        let client = &mut self.worker.clients[key];
        match client.transaction.pause_ns(client.step) {
            0 => self.send_step(key),
            pause_ns => {
                client.activity = Activity::Pause;
                self.thinking.push(Reverse((self.now_ns.saturating_add(pause_ns), key)));
            }
        }
    }

    #[inline]
    fn send_step(&mut self, key: usize) {
        let sent = self.worker.clients[key].send_step(self.worker.shared, self.now_ns);
        self.check_sent(key, sent);
    }

    fn look_at_backlog(&mut self) {
        if self.now_ns.saturating_sub(self.backlog_looked_ns) < BACKLOG_EVERY_NS {
            return;
        }
        self.backlog_looked_ns = self.now_ns;
        if let Some(schedule) = &self.plan.schedule {
            self.plan.backlog_max.fetch_max(schedule.backlog(self.now_ns), Ordering::Relaxed);
        }
    }

    #[inline]
    fn start(&mut self, key: usize, intended_ns: u64) {
        if !self.plan.take_event() {
            self.closing_since_ns = Some(self.now_ns);
            self.idle.push_back(key);
            return;
        }
        if self.now_ns - intended_ns > crate::late::LATE_NS {
            self.meter.totals.late += 1;
        }
        self.in_flight += 1;
        self.worker.clients[key].draw(self.worker.shared, intended_ns, self.now_ns);
        self.go_on(key);
    }

    #[inline]
    fn check_sent(&mut self, key: usize, sent: io::Result<()>) {
        if let Err(error) = sent {
            self.hung_up(key, &error.to_string());
        }
    }

    /// A server that closes a connection may have sent a reason that was not read yet.
    #[cold]
    fn hung_up(&mut self, key: usize, error: &str) {
        let worker = &mut *self.worker;
        match worker.clients[key].last_word(worker.shared, &mut worker.scratch) {
            Some((code, words)) => self.broken(key, Fault::Code(code), &words),
            None => self.broken(key, Fault::Lost, error),
        }
    }

    /// Waits for replies, for the next intended start, or for the end, and handles the replies.
    #[inline]
    fn wait(&mut self) {
        // When every connection is in use, only the server or the conductor can cause an event.
        let for_ever = self.plan.schedule.is_none()
            && self.in_flight > 0
            && self.closing_since_ns.is_none()
            && self.thinking.is_empty()
            && self.worker.reconnector.pending == 0;
        let timeout = if for_ever { None } else { Some(self.patience()) };
        #[cfg(test)]
        let timeout = self.wait_by_script(timeout);
        let mut ready = std::mem::take(&mut self.worker.ready);
        if self.worker.poller.wait(timeout, &mut ready).is_err() {
            // An epoll instance of ours does not fail. If it does, the drain limit ends the phase.
            std::thread::sleep(LOOK_UP_SOON);
        }
        ready.iter().for_each(|key| self.read(*key));
        self.worker.ready = ready;
    }

    /// With a scripted clock, time passes at once when nothing is in flight; else the server moves it.
    #[cfg(test)]
    fn wait_by_script(&self, timeout: Option<Duration>) -> Option<Duration> {
        let (Some(clock), 0, Some(wait)) = (&self.worker.shared.spec.scripted_clock, self.in_flight, timeout) else {
            return timeout;
        };
        clock.fetch_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
        Some(Duration::ZERO)
    }

    fn patience(&self) -> Duration {
        let limit = if self.worker.reconnector.pending > 0 { LOOK_UP_SOON } else { LOOK_UP };
        let mut wake_ns = self.thinking.peek().map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns);
        if self.closing_since_ns.is_none() {
            wake_ns = wake_ns.min(self.plan.end_ns);
            if self.now_ns < self.plan.start_ns {
                wake_ns = self.plan.start_ns;
            } else if let (Some(claim), false) = (self.claim, self.idle.is_empty()) {
                wake_ns = wake_ns.min(claim);
            }
        }
        limit.min(Duration::from_nanos(wake_ns.saturating_sub(self.now_ns)))
    }

    #[inline]
    fn read(&mut self, key: usize) {
        if key == WAKER {
            return;
        }
        loop {
            let worker = &mut *self.worker;
            match worker.clients[key].receive(worker.shared, &mut worker.scratch) {
                Ok((event, more)) => {
                    match event {
                        Some(Event::Done(reply)) => {
                            self.now_ns = worker.shared.now_ns();
                            self.answered(key, reply);
                        }
                        // The server would wait for the data for ever.
                        Some(Event::CopyIn) => return self.broken(key, Fault::Lost, WANTS_DATA),
                        _ => {}
                    }
                    if !more {
                        return;
                    }
                }
                Err(error) => return self.hung_up(key, &host::chain(&error)),
            }
        }
    }

    #[inline]
    fn answered(&mut self, key: usize, reply: Reply) {
        self.meter.tick(self.now_ns);
        self.meter.last_reply_ns = self.now_ns;
        match (self.worker.clients[key].activity, reply.error) {
            (_, Some(code)) if reply.hangs_up => {
                let words = self.worker.clients[key].message().to_owned();
                self.broken(key, Fault::Code(code), &words);
            }
            (Activity::Step, None) => self.step_done(key, reply),
            (Activity::Step, Some(code)) => {
                self.look_whether_slow(key, true);
                let client = &self.worker.clients[key];
                let retries = self.worker.shared.spec.workload.retries(code) && self.closing_since_ns.is_none();
                let retry = if retries { client.retry(code) } else { Retry::No };
                let given_up = retries && retry == Retry::No;
                self.meter.fault(if given_up { Fault::GivenUp(code) } else { Fault::Code(code) }, client.message());
                if reply.in_transaction {
                    let sent = self.worker.clients[key].send_rollback(retry);
                    self.check_sent(key, sent);
                } else {
                    self.after_failure(key, retry);
                }
            }
            (Activity::Rollback { retry }, _) => {
                self.meter.count(Kind::Other);
                self.after_failure(key, retry);
            }
            // The server sends an error without a request, and does not close the connection.
            (Activity::Idle | Activity::Pause | Activity::Down, _) => {}
        }
    }

    #[inline]
    fn step_done(&mut self, key: usize, reply: Reply) {
        self.look_whether_slow(key, false);
        let client = &mut self.worker.clients[key];
        let service_ns = self.now_ns - client.statement_ns;
        // Only the first statement of a transaction has an intended start that differs from its actual one.
        let response_ns =
            if client.step == 0 { service_ns + client.started_ns - client.intended_ns } else { service_ns };
        let statement = &self.worker.shared.statements[client.transaction.get(client.step).0];
        self.meter.statement(statement.class, statement.kind, response_ns, service_ns);
        self.meter.effect(statement.kind, &reply);
        client.step += 1;
        if client.step < client.transaction.len() {
            return self.go_on(key);
        }
        client.completed.0 += 1;
        client.completed.1 += self.now_ns - client.started_ns;
        self.meter.transaction(self.now_ns - client.intended_ns, self.now_ns - client.started_ns);
        self.finished(key);
    }

    /// Keeps the statement that was answered now, if it was slow.
    #[inline]
    fn look_whether_slow(&mut self, key: usize, failed: bool) {
        let client = &self.worker.clients[key];
        if !self.meter.slow.is_slow(self.now_ns - client.statement_ns) {
            return;
        }
        let late_ns = if client.step == 0 { client.started_ns - client.intended_ns } else { 0 };
        let (begun_ns, ended_ns) = (client.statement_ns, self.now_ns);
        let class = self.worker.shared.statements[client.transaction.get(client.step).0].class;
        let connection = u32::try_from(key * self.worker.shared.wakers.len() + self.worker.number + 1);
        let connection = connection.unwrap_or(u32::MAX);
        self.meter.slow.keep(Entry { begun_ns, ended_ns, late_ns, connection, class, failed });
    }

    /// The connection becomes free.
    #[inline]
    fn finished(&mut self, key: usize) {
        self.in_flight -= 1;
        let over = self.closing_since_ns.is_some() || self.now_ns >= self.plan.end_ns;
        if self.plan.schedule.is_none() && !over && !self.worker.shared.should_stop() {
            let think_ns = self.worker.clients[key].transaction.think_ns();
            if think_ns == 0 {
                return self.start(key, self.now_ns);
            }
            self.worker.clients[key].activity = Activity::Idle;
            self.thinking.push(Reverse((self.now_ns.saturating_add(think_ns), key)));
            return;
        }
        self.worker.clients[key].activity = Activity::Idle;
        self.idle.push_back(key);
        if self.plan.schedule.is_some() {
            self.dispatch();
        }
    }

    /// After the rollback: repeats the transaction from its first statement, or begins the next one.
    fn after_failure(&mut self, key: usize, retry: Retry) {
        let Worker { clients, shared, .. } = &mut *self.worker;
        match retry {
            _ if self.closing_since_ns.is_some() => return self.finished(key),
            Retry::No => return self.finished(key),
            Retry::SameValues => clients[key].step = 0,
            Retry::NewValues => clients[key].draw_values(shared),
        }
        self.go_on(key);
    }

    #[cold]
    fn broken(&mut self, key: usize, fault: Fault, words: &str) {
        let client = &mut self.worker.clients[key];
        if client.is_busy() {
            self.in_flight -= 1;
        }
        self.idle.retain(|idle| *idle != key);
        self.thinking.retain(|Reverse((_, thinking))| *thinking != key);
        if let Some(link) = client.link() {
            self.worker.poller.remove(&link.transport);
        }
        client.replace(None);
        self.meter.fault(fault, words);
        self.worker.shared.alive.fetch_sub(1, Ordering::Relaxed);
        self.worker.reconnector.request(key);
    }

    #[inline]
    fn take_reconnected(&mut self) {
        if self.worker.reconnector.pending > 0 {
            self.reconnected();
        }
    }

    #[cold]
    fn reconnected(&mut self) {
        while let Some((key, ready)) = self.worker.reconnector.take() {
            let client = &mut self.worker.clients[key];
            client.replace(Some(ready));
            if attach(client, key, &self.worker.poller).is_err() {
                client.replace(None);
                self.worker.reconnector.request(key);
                continue;
            }
            self.worker.shared.alive.fetch_add(1, Ordering::Relaxed);
            self.meter.reconnected();
            self.idle.push_back(key);
        }
    }
}
