// SPDX-License-Identifier: Apache-2.0
//! The counts of all sessions of a replay together: histograms, errors, timeline. Times are nanoseconds since the replay began.

use super::plan::{Kind, Plan};
use crate::engine::{Collected, Filling, Usage};
use crate::late::{LATE_NS, record_wait};
use evidence::{Latencies, LatencyHistogram, Phase};
use std::time::Duration;

/// Locked while one statement is counted.
pub(super) struct Counted {
    connect: LatencyHistogram,
    phase: Phase,
    /// One for each class of the plan.
    classes: Vec<Latencies>,
    /// Statements that were sent, whatever the answer.
    sent: u64,
    pub(super) without_database: u64,
    /// The moments of the statements for which there was no connection.
    left_ns: Vec<u64>,
    slot_ns: u64,
    filling: Filling,
    timeline: Collected,
}

/// A statement that was answered.
pub(super) struct Done {
    pub(super) class: usize,
    pub(super) kind: Kind,
    pub(super) intended_ns: u64,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
}

impl Counted {
    pub(super) fn new(classes: usize, slot: Duration) -> Self {
        let slot_ns = nanos(slot).max(1);
        Self {
            connect: LatencyHistogram::default(),
            phase: Phase::default(),
            classes: vec![Latencies::default(); classes],
            sent: 0,
            without_database: 0,
            left_ns: Vec::new(),
            slot_ns,
            filling: Filling::new(0, slot_ns),
            timeline: Collected::default(),
        }
    }

    pub(super) fn connected(&mut self, took_ns: u64) {
        self.connect.record(took_ns);
    }

    pub(super) fn reconnected(&mut self) {
        self.phase.reconnects += 1;
    }

    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// A statement was left out.
    pub(super) fn without_database(&mut self) {
        self.without_database += 1;
    }

    pub(super) fn left(&mut self, due_ns: &[u64]) {
        self.left_ns.extend(due_ns);
    }

    pub(super) fn error(&mut self, code: &str, now_ns: u64) {
        self.turn_page(now_ns);
        self.filling.slot.errors += 1;
        *self.phase.errors.entry(code.to_owned()).or_default() += 1;
    }

    pub(super) fn done(&mut self, done: &Done) {
        self.turn_page(done.ended_ns);
        let response_ns = done.ended_ns.saturating_sub(done.intended_ns);
        let service_ns = done.ended_ns.saturating_sub(done.began_ns);
        self.phase.transactions += 1;
        self.phase.late += u64::from(done.began_ns.saturating_sub(done.intended_ns) > LATE_NS);
        let (slot, phase) = (&mut self.filling.slot, &mut self.phase);
        let (in_slot, in_all) = match done.kind {
            Kind::Read => (&mut slot.reads, &mut phase.reads),
            Kind::Write => (&mut slot.writes, &mut phase.writes),
            Kind::Other => (&mut slot.others, &mut phase.others),
        };
        *in_slot += 1;
        *in_all += 1;
        self.filling.transaction(response_ns);
        for latencies in [&mut self.phase.transaction, &mut self.classes[done.class]] {
            latencies.response.record(response_ns);
            latencies.service.record(service_ns);
        }
    }

    /// CPU time of one of our threads.
    pub(super) fn used(&mut self, used: Usage) {
        self.phase.client_user_us += used.user_us;
        self.phase.client_system_us += used.system_us;
    }

    /// Two threads may arrive in another order than their clocks say: then the later slot counts both.
    fn turn_page(&mut self, now_ns: u64) {
        if self.filling.is_over(now_ns) {
            self.timeline.add(&self.filling.take(now_ns));
            self.timeline.close(self.filling.slot.index, &[]);
        }
    }

    /// The times to connect, and all other results of the replay.
    pub(super) fn finish(mut self, plan: &Plan, elapsed: Duration) -> (LatencyHistogram, Phase) {
        let elapsed_ns = nanos(elapsed);
        self.timeline.add(&self.filling.take(elapsed_ns));
        let mut phase = self.phase;
        // Rounded up: a statement that ended in the last microsecond has a slot, too.
        phase.elapsed_us = elapsed_ns.div_ceil(1000);
        phase.skipped = plan.statements().saturating_sub(self.sent);
        phase.unended = unended(&self.left_ns, elapsed_ns);
        let classes = plan.classes.iter().cloned().zip(self.classes);
        phase.statements = classes.filter(|(_, it)| !it.service.is_empty()).collect();
        phase.timeline = self.timeline.points(0, self.slot_ns / 1000, phase.elapsed_us);
        (self.connect, phase)
    }
}

/// How long the statements had waited that were due and not sent when the replay ended.
fn unended(due_ns: &[u64], ended_ns: u64) -> Option<Latencies> {
    let mut unended = Latencies::default();
    due_ns.iter().for_each(|due_ns| record_wait(&mut unended.response, *due_ns, ended_ns));
    (!unended.response.is_empty()).then_some(unended)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_is_in_the_slot_in_which_it_ended() {
        const MS: u64 = 1_000_000;
        let mut counted = Counted::new(1, Duration::from_millis(10));
        let mut done = |kind, intended_ms, began_ms, ended_ms| {
            let of = |ms: u64| ms * MS;
            let (intended_ns, began_ns, ended_ns) = (of(intended_ms), of(began_ms), of(ended_ms));
            counted.done(&Done { class: 0, kind, intended_ns, began_ns, ended_ns });
        };
        done(Kind::Read, 0, 0, 3);
        done(Kind::Write, 1, 5, 9);
        done(Kind::Other, 31, 31, 32);
        counted.error("1146", 33 * MS);
        counted.left(&[10 * MS, 34 * MS + MS / 2, 90 * MS]);
        let plan = Plan { classes: vec!["select ?".into()], ..Plan::default() };
        let (_, phase) = counted.finish(&plan, Duration::from_millis(35));
        let counts: Vec<_> =
            phase.timeline.iter().map(|it| (it.at_us, it.queries, it.transactions, it.errors)).collect();
        assert_eq!(counts, [(0, 2, 2, 0), (10_000, 0, 0, 0), (20_000, 0, 0, 0), (30_000, 1, 1, 1)]);
        assert_eq!((phase.timeline[0].max_us, phase.timeline[0].length_us), (8000, 10_000), "response times");
        assert_eq!((phase.elapsed_us, phase.late, phase.queries()), (35_000, 1, 3));
        assert_eq!(phase.statements["select ?"].service.max_ns() / MS, 4);
        let waited = &phase.unended.as_ref().unwrap().response;
        assert_eq!((waited.count(), waited.max_ns() / MS), (1, 25), "the others were not due, or only just");
    }
}
