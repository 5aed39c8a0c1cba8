// SPDX-License-Identifier: Apache-2.0
//! The counts of one worker in one phase. Recording does not allocate, but for the end of each slot of the timeline.

use super::client::DRAWS_MOST;
use super::shared::{PhasePlan, Shared};
use super::slow::SlowList;
use super::timeline::{Filling, Pages};
use super::usage::Usage;
use crate::protocol::{Code, Reply};
use evidence::{Latencies, Phase};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use workload::Kind;

/// The most characters that are kept of a server's message.
const WORDS_MAX: usize = 240;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Code(Code),
    /// The same error after [`DRAWS_MOST`] draws of values.
    GivenUp(Code),
    Lost,
    /// Still running when the drain limit of its phase was over.
    NoReply,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => code.fmt(f),
            Self::GivenUp(code) => write!(f, "{code} (given up after {DRAWS_MOST} draws)"),
            Self::Lost => f.write_str("connection lost"),
            Self::NoReply => f.write_str("no reply"),
        }
    }
}

pub(super) struct Meter<'a> {
    pub(super) classes: Vec<Latencies>,
    pub(super) transaction: Latencies,
    /// The count of each error, and the message of its first occurrence.
    errors: BTreeMap<Fault, (u64, String)>,
    pub(super) totals: Phase,
    pub(super) last_reply_ns: u64,
    /// Open loop: the one claimed start that its worker did not begin.
    pub(super) unstarted_ns: Option<u64>,
    /// When this worker stopped starting transactions.
    pub(super) closed_ns: u64,
    /// The transactions that had no reply when the worker gave up: how long they had lasted by then, from the intended and from the actual start.
    pub(super) unanswered: Vec<(u64, u64)>,
    filling: Filling,
    pages: &'a Mutex<Pages>,
    /// In a closed loop response and service time are equal, except for repeated transactions.
    open_loop: bool,
    before: Usage,
    pub(super) slow: SlowList,
}

impl<'a> Meter<'a> {
    pub(super) fn new(shared: &Shared<'_>, plan: &'a PhasePlan, worker: usize) -> Self {
        let (pages, start_ns, open_loop) = (&plan.pages[worker], plan.start_ns, plan.schedule.is_some());
        let slot_ns = u64::try_from(shared.spec.timeline.as_nanos()).unwrap_or(u64::MAX);
        Self {
            classes: vec![Latencies::default(); shared.classes.len()],
            transaction: Latencies::default(),
            errors: BTreeMap::new(),
            totals: Phase::default(),
            last_reply_ns: start_ns,
            unstarted_ns: None,
            closed_ns: start_ns,
            unanswered: Vec::new(),
            filling: Filling::new(start_ns, slot_ns),
            pages,
            open_loop,
            before: Usage::of_this_thread(),
            slow: SlowList::new(plan.slow),
        }
    }

    /// Stores the slot when its time is over.
    #[inline]
    pub(super) fn tick(&mut self, now_ns: u64) {
        if self.filling.is_over(now_ns) {
            self.turn_page(now_ns);
        }
    }

    fn turn_page(&mut self, now_ns: u64) {
        let slot = self.filling.take(now_ns);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.slots.push(slot);
        pages.filling = self.filling.slot.index;
    }

    #[inline]
    pub(super) fn statement(&mut self, class: usize, kind: Kind, response_ns: u64, service_ns: u64) {
        let latencies = &mut self.classes[class];
        latencies.service.record(service_ns);
        if self.open_loop {
            latencies.response.record(response_ns);
        }
        self.count(kind);
    }

    #[inline]
    pub(super) fn count(&mut self, kind: Kind) {
        let slot = &mut self.filling.slot;
        match kind {
            Kind::Read => slot.reads += 1,
            Kind::Write => slot.writes += 1,
            Kind::Other => slot.others += 1,
        }
        match kind {
            Kind::Read => self.totals.reads += 1,
            Kind::Write => self.totals.writes += 1,
            Kind::Other => self.totals.others += 1,
        }
    }

    /// What the last counted statement found or changed. sysbench's lines of progress count a write that changed no row as "other".
    #[inline]
    pub(super) fn effect(&mut self, kind: Kind, reply: &Reply) {
        match kind {
            Kind::Write if reply.affected == 0 => {
                self.totals.unchanged_writes += 1;
                self.filling.slot.writes = self.filling.slot.writes.saturating_sub(1);
                self.filling.slot.others += 1;
            }
            // what is read as a WITH may write
            Kind::Read if reply.rows == 0 && reply.affected == 0 => self.totals.reads_without_rows += 1,
            _ => {}
        }
    }

    #[inline]
    pub(super) fn transaction(&mut self, response_ns: u64, service_ns: u64) {
        self.totals.transactions += 1;
        self.transaction.service.record(service_ns);
        if self.open_loop {
            self.transaction.response.record(response_ns);
        }
        self.filling.transaction(response_ns);
    }

    pub(super) fn fault(&mut self, fault: Fault, words: &str) {
        self.errors.entry(fault).or_insert_with(|| (0, abridged(words))).0 += 1;
        self.filling.slot.errors += 1;
    }

    pub(super) fn reconnected(&mut self) {
        self.totals.reconnects += 1;
        self.filling.slot.reconnects += 1;
    }

    /// The phase is over for this worker.
    pub(super) fn finish(mut self) -> Measured {
        self.turn_page(self.last_reply_ns);
        let used = Usage::of_this_thread() - self.before;
        self.totals.client_user_us = used.user_us;
        self.totals.client_system_us = used.system_us;
        for (fault, (count, words)) in &self.errors {
            self.totals.errors.insert(fault.to_string(), *count);
            if !words.is_empty() {
                self.totals.error_messages.insert(fault.to_string(), words.clone());
            }
        }
        if !self.open_loop {
            self.transaction.response = self.transaction.service.clone();
            self.classes.iter_mut().for_each(|latencies| latencies.response = latencies.service.clone());
        }
        Measured {
            totals: self.totals,
            transaction: self.transaction,
            classes: self.classes,
            last_reply_ns: self.last_reply_ns,
            unstarted_ns: self.unstarted_ns,
            closed_ns: self.closed_ns,
            unanswered: self.unanswered,
            connections: Vec::new(),
            slow: self.slow,
        }
    }
}

/// One worker's part of a phase.
pub(super) struct Measured {
    pub(super) totals: Phase,
    pub(super) transaction: Latencies,
    pub(super) classes: Vec<Latencies>,
    pub(super) last_reply_ns: u64,
    pub(super) unstarted_ns: Option<u64>,
    pub(super) closed_ns: u64,
    pub(super) unanswered: Vec<(u64, u64)>,
    /// For each connection: completed transactions, and the sum of their times.
    pub(super) connections: Vec<(u64, u64)>,
    pub(super) slow: SlowList,
}

impl Measured {
    /// Adds this part to `phase`; latencies of statements stay separate by class.
    pub(super) fn merge_into(&self, phase: &mut Phase, classes: &[String]) {
        let own = &self.totals;
        for (sum, part) in [
            (&mut phase.transactions, own.transactions),
            (&mut phase.reads, own.reads),
            (&mut phase.writes, own.writes),
            (&mut phase.others, own.others),
            (&mut phase.unchanged_writes, own.unchanged_writes),
            (&mut phase.reads_without_rows, own.reads_without_rows),
            (&mut phase.reconnects, own.reconnects),
            (&mut phase.late, own.late),
            (&mut phase.client_user_us, own.client_user_us),
            (&mut phase.client_system_us, own.client_system_us),
        ] {
            *sum += part;
        }
        for (code, count) in &own.errors {
            *phase.errors.entry(code.clone()).or_default() += count;
        }
        for (code, words) in &own.error_messages {
            phase.error_messages.entry(code.clone()).or_insert_with(|| words.clone());
        }
        merge(&mut phase.transaction, &self.transaction);
        for (class, latencies) in classes.iter().zip(&self.classes) {
            merge(phase.statements.entry(class.clone()).or_default(), latencies);
        }
    }
}

/// The message on one line, cut after `WORDS_MAX` characters.
fn abridged(words: &str) -> String {
    let mut line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(WORDS_MAX) {
        line.truncate(end);
        line.push_str(" ...");
    }
    line
}

fn merge(sum: &mut Latencies, part: &Latencies) {
    sum.response.merge(&part.response);
    sum.service.merge(&part.service);
}
