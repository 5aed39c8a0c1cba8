// SPDX-License-Identifier: Apache-2.0
//! The stalls of a log, as plain data: the shape of the JSON.

use crate::cause::{Cause, Evidence};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Times in microseconds. `None` where the source does not say it.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// The version of this shape.
    pub schema: u32,
    pub source: Source,
    /// The stalls in the order of time, as many as memory allowed: those that cost the most. The account counts all stalls.
    pub stalls: Vec<Stall>,
    pub stalls_left_out: u64,
    pub account: Account,
    /// Classes of statements; the class with the most time stands first.
    pub classes: Vec<ClassOf>,
    pub cost: Cost,
    /// Parts of the log that could not be understood, as many as memory allowed; [`Cost::skipped_bytes`] counts all of them.
    pub skipped: Vec<SkippedPart>,
    /// An answer from the counter alone: the length of the stalls, between two bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<Counter>,
    /// Notes that a reader of this answer should know.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Source {
    pub format: Option<&'static str>,
    /// The server, as the log's header or the caller names it.
    pub server: Option<String>,
    /// The shortest stall that was looked for.
    pub least_us: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stall {
    /// Since the beginning of 1970, in UTC; where the log does not tell the offset of its time zone, as the log shows it; where the log has times without a day,
    /// since midnight.
    pub started_us: Option<i64>,
    /// From the first victim's begin to the last one's end. Where the log has whole seconds: the longest time of a victim.
    pub length_us: u64,
    pub cause: Cause,
    /// How sure the cause is, from 0 to 1; 0 for `unknown`.
    pub confidence: f64,
    pub lost_query_us: u64,
    /// From the first victim's end to the last one's.
    pub ends_within_us: u64,
    /// Whether it was not over when watching ended, or when it was told: it is longer than `length_us`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    pub evidence: Evidence,
    /// The connections that held the lock and waited for nobody among the victims, where the server was asked and names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    pub victim_count: u64,
    /// The first victims.
    pub victims: Vec<Victim>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Victim {
    pub connection: Option<String>,
    /// The kernel's number of its thread or process, where the server itself was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The statement's class: its text without values.
    #[serde(serialize_with = "as_text")]
    pub statement: Arc<str>,
    /// The statement itself, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement_with_values: Option<String>,
    pub started_us: Option<i64>,
    /// From its begin to its end.
    pub length_us: u64,
    pub lost_query_us: u64,
}

impl Explained {
    /// Whether no entry tells how long its statement took, so that nothing can be judged. A slow log to which nothing has been written yet has only what
    /// the server writes at its start.
    pub fn is_unread(&self) -> bool {
        let Cost { entries, untimed_entries, no_statement, skipped_bytes, .. } = self.cost;
        entries == untimed_entries && entries + no_statement + skipped_bytes > 0
    }
}

impl Account {
    /// Counts a stall with all of its victims.
    pub fn add(&mut self, stall: &Stall) {
        let lost = stall.lost_query_us;
        self.lost_query_us = self.lost_query_us.saturating_add(lost);
        let side = match stall.cause {
            Cause::Unknown => &mut self.unexplained_query_us,
            _ => &mut self.attributed_query_us,
        };
        *side = side.saturating_add(lost);
        let of = self.by_cause.entry(stall.cause).or_default();
        of.stalls += 1;
        of.victims += stall.victim_count;
        of.lost_query_us = of.lost_query_us.saturating_add(lost);
        of.longest_us = of.longest_us.max(stall.length_us);
    }

    /// The longest stall of all causes.
    pub fn longest_us(&self) -> Option<u64> {
        self.by_cause.values().map(|of| of.longest_us).max()
    }
}

/// What stalls cost.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Account {
    /// The lost time of all victims. A victim loses its time minus the median of its class outside stalls. `attributed + unexplained`.
    pub lost_query_us: u64,
    pub attributed_query_us: u64,
    pub unexplained_query_us: u64,
    pub by_cause: BTreeMap<Cause, OfCause>,
    /// By how much the counter rose, as the caller says.
    pub wait_free: Option<u64>,
    /// By how much the counter must have risen, if the stalls that were found were all waits under `backoff`.
    pub wait_free_by_stalls: Option<u64>,
    /// By how much one sleep of the ladder was longer than the server asked for, computed from the lengths of stalls; where it could not be computed, the usual
    /// value.
    pub sleep_overhead_us: Option<f64>,
    /// Time beyond a class's median that is explained by the statement's own work; of a statement that asked to wait, all of it where its class has no quick
    /// one. It belongs to no stall.
    pub own_work_query_us: u64,
    /// The whole time of the other slow statements that are in no stall: of those of which nothing shows what is usual for their class, and of those that are as slow as
    /// their class usually is. `None`: the source shows only statements that stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_stall_query_us: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct OfCause {
    pub stalls: u64,
    pub victims: u64,
    pub lost_query_us: u64,
    /// The longest stall.
    pub longest_us: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct ClassOf {
    #[serde(serialize_with = "as_text")]
    pub statement: Arc<str>,
    pub count: u64,
    pub sum_us: u64,
    pub max_us: u64,
    /// Known within 1 %, as the next number is.
    pub median_us: u64,
    pub p95_us: u64,
    /// `None`: no statement of the class ran outside stalls.
    pub median_outside_stalls_us: Option<u64>,
    pub victims: u64,
    pub lost_query_us: u64,
}

/// The log that this answer was made from.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    pub bytes: u64,
    pub entries: u64,
    /// Entries that do not say how long they took: they are in no class.
    pub untimed_entries: u64,
    /// Lines, messages and commands that were understood and ran no statement.
    pub no_statement: u64,
    pub skipped_bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct SkippedPart {
    pub offset: u64,
    pub bytes: u64,
    pub why: String,
}

/// The counter as a clock.
#[derive(Debug, Clone, Serialize)]
pub struct Counter {
    pub victims: u64,
    /// Failed tries of each victim, if all waited equally long.
    pub tries_each: f64,
    /// The length of one stall.
    pub length_us: Band,
    /// The lost time of all victims.
    pub lost_query_us: Band,
    /// By how much a sleep is longer than the server asked for.
    pub sleep_overhead_us: Band,
}

/// A number that cannot be known exactly, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    pub least: f64,
    pub likely: f64,
    pub most: f64,
}

fn as_text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}
