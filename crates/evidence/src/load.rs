// SPDX-License-Identifier: Apache-2.0
use crate::LatencyHistogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// When the next transaction is meant to start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Arrivals {
    /// As soon as the last transaction of the connection has ended: the load slows down with the server.
    Closed,
    /// Open loop: one transaction every 1/rate seconds over all connections.
    Constant { per_second: f64 },
    /// Open loop: exponentially distributed gaps.
    Poisson { per_second: f64 },
    /// At the times in a log, this many times as fast.
    Recorded { times: f64 },
}

/// The name of a class of SQL statements, such as `point_select`; of a replay, the text of the statement without its values. Classes are finer than
/// sysbench's counters.
pub type Statement = String;

/// Two latencies of the same work, with two starting points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the intended start to the last row.
    pub response: LatencyHistogram,
    /// From the actual start to the last row.
    pub service: LatencyHistogram,
}

/// All results of one load. Warm-up and measured phase are never mixed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// `oltp_point_select` and so on.
    pub workload: String,
    /// The protocol, `mysql` or `postgresql`; or the program that was the load: `sysbench`, `pgbench` or `command`.
    pub driver: String,
    /// Connections; sysbench calls them threads.
    pub connections: u32,
    /// Operating-system threads that drove them.
    pub workers: u32,
    pub arrivals: Arrivals,
    pub seed: u64,
    /// The distribution in force, in words: `uniform`, `special (res 75 %, pct 1 %)`.
    pub distribution: String,
    pub prepared_statements: bool,
    /// One value for each connection: TCP or socket connect, authentication, and preparing the statements.
    pub connect: LatencyHistogram,
    /// `None` when no warm-up was asked for.
    pub warmup: Option<Phase>,
    pub measured: Phase,
}

/// One phase of a load: the warm-up, or the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// On the run's clock.
    pub started_us: u64,
    /// From the first intended start to the last reply, the wait for statements in flight included. When the server did not answer any more: to the
    /// end of the phase.
    pub elapsed_us: u64,
    pub transactions: u64,
    /// Statements by sysbench's kinds: reads, writes, others.
    pub reads: u64,
    pub writes: u64,
    pub others: u64,
    /// The writes that changed no row. sysbench counts them with the others.
    #[serde(default)]
    pub unchanged_writes: u64,
    /// The reads whose answer had no row.
    #[serde(default)]
    pub reads_without_rows: u64,
    /// The number of errors by error code: `1213`, `40P01`, `connection lost`.
    pub errors: BTreeMap<String, u64>,
    /// By the same codes: the server's message with the first error of each code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_messages: BTreeMap<String, String>,
    pub reconnects: u64,
    /// Open loop: transactions that started more than a millisecond later than intended.
    pub late: u64,
    /// Open loop: transactions that were intended in this phase, and had not started when it ended.
    pub skipped: u64,
    /// Open loop: the largest number of intended starts that waited at one time.
    pub backlog_max: u64,
    /// The transactions that had not ended when the phase did: how long each had waited by then, which is the least that its time can be. `response`
    /// has all of them, `service` those that had started. `None`: there were none, or the recording is older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unended: Option<Latencies>,
    /// How long no connection was alive, as seen every 20 ms.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unconnected_us: u64,
    pub transaction: Latencies,
    pub statements: BTreeMap<Statement, Latencies>,
    /// One point for each [`TimelinePoint::length_us`]; a slot in which nothing was done has a point, too.
    pub timeline: Vec<TimelinePoint>,
    /// CPU time of the driver itself in this phase.
    pub client_user_us: u64,
    pub client_system_us: u64,
    /// `None`: not counted by connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// `None`: not asked for. The slow statements are spans of the recording, and are not stored here a second time.
    #[serde(skip)]
    pub slow: Option<SlowStatements>,
}

// serde hands a reference over
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The statements that lasted for a threshold or longer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowStatements {
    /// From the sending of a statement to its last row.
    pub threshold_us: u64,
    /// In the order in which they ended; from each worker as many as it had room for.
    pub kept: Vec<SlowStatement>,
    /// The number of further slow statements, for which there was no room.
    pub dropped: u64,
}

/// One statement of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowStatement {
    /// When it was sent, on the run's clock.
    pub from_us: u64,
    /// When its last row, or its error, arrived.
    pub to_us: u64,
    /// Open loop, the first statement of a transaction: its intended start was this long before `from_us`.
    pub late_us: u64,
    /// The number of the load's connection, from 1.
    pub connection: u32,
    pub class: Statement,
    /// Whether the server answered with an error.
    pub failed: bool,
}

/// How evenly the connections shared the work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Standard deviation of the transactions that each connection completed.
    pub transactions_stddev: f64,
    /// Standard deviation of the time that each connection spent in its transactions.
    pub busy_stddev_us: f64,
}

impl Fairness {
    /// `connections` has the number of transactions of each connection and their time in microseconds. As in sysbench, the standard deviation is of a
    /// whole population, not of a sample.
    pub fn of(connections: &[(u64, f64)]) -> Option<Self> {
        let count = connections.len() as f64;
        let stddev = |values: &dyn Fn(&(u64, f64)) -> f64| {
            let mean = connections.iter().map(values).sum::<f64>() / count;
            (connections.iter().map(|each| (values(each) - mean).powi(2)).sum::<f64>() / count).sqrt()
        };
        let all = || Self {
            transactions_stddev: stddev(&|(transactions, _)| *transactions as f64),
            busy_stddev_us: stddev(&|(_, busy_us)| *busy_us),
        };
        (!connections.is_empty()).then(all)
    }
}

impl Phase {
    /// Statements of every kind.
    pub fn queries(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// Whether statements were counted: a transaction has at least one statement, and a program such as pgbench reports only transactions.
    pub fn counts_queries(&self) -> bool {
        self.queries() > 0 || self.transactions == 0
    }

    /// `None` for a phase of no length, and when statements were not counted.
    pub fn queries_per_second(&self) -> Option<f64> {
        (self.elapsed_us > 0 && self.counts_queries()).then(|| self.queries() as f64 * 1e6 / self.elapsed_us as f64)
    }

    pub fn transactions_per_second(&self) -> Option<f64> {
        (self.elapsed_us > 0).then(|| self.transactions as f64 * 1e6 / self.elapsed_us as f64)
    }

    /// The slots of the timeline. The last one ends with the phase; recordings of earlier builds give it the full length. When the phase covers half of
    /// a slot or less, this last slot says nothing, and is left out.
    pub fn whole_slots(&self) -> Vec<TimelinePoint> {
        let ended_us = self.started_us.saturating_add(self.elapsed_us);
        let longest_us = self.timeline.iter().map(|slot| slot.length_us).max().unwrap_or(0);
        let mut slots = self.timeline.clone();
        if let Some(last) = slots.last_mut() {
            last.length_us = last.length_us.min(ended_us.saturating_sub(last.at_us));
            if last.length_us <= longest_us / 2 {
                slots.pop();
            }
        }
        slots
    }
}

/// The work that ended within one slot of the timeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// Start of the slot, on the run's clock.
    pub at_us: u64,
    pub length_us: u64,
    pub queries: u64,
    pub transactions: u64,
    pub errors: u64,
    /// Response time of the transactions that ended in this slot; 0 when none did.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// Another program may report another figure of a slot in place of these: sysbench its 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_us: Option<u64>,
    /// The mean, which pgbench reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slot_ends_with_the_phase_also_in_an_old_recording() {
        let slots = |elapsed_us: u64, last_us: u64| {
            let slot = |(at_us, length_us)| TimelinePoint { at_us, length_us, ..TimelinePoint::default() };
            let timeline = [(500, 100), (600, 100), (700, last_us)].map(slot).into();
            let phase = Phase { started_us: 500, elapsed_us, timeline, ..Phase::default() };
            phase.whole_slots().iter().map(|slot| slot.length_us).collect::<Vec<_>>()
        };
        assert_eq!(slots(300, 100), [100, 100, 100]);
        // this build gives the last slot its true length, earlier builds did not
        for last_us in [100, 80] {
            assert_eq!(slots(280, last_us), [100, 100, 80]);
        }
        for last_us in [100, 10] {
            assert_eq!(slots(210, last_us), [100, 100]);
        }
        assert!(Phase::default().whole_slots().is_empty());
    }
}
