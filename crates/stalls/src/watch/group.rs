// SPDX-License-Identifier: Apache-2.0
//! Waits of several connections for one cause at one time are one stall.

use super::track::Wait;
use crate::cause::{Cause, Evidence};
use crate::explained::{Stall, Victim};

/// A wait that was judged to be part of a stall.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) wait: Wait,
    pub(super) cause: Cause,
    pub(super) confidence: f64,
    pub(super) evidence: Evidence,
    pub(super) victim: Victim,
}

/// Victims of one cause that waited together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) cause: Cause,
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    /// The time in which all of them waited.
    core: (u64, u64),
    members: Vec<Judged>,
}

impl Group {
    pub(super) fn new(first: Judged) -> Self {
        let (from_us, to_us) = (first.wait.from_us, first.wait.to_us);
        Self { cause: first.cause, from_us, to_us, core: (from_us, to_us), members: vec![first] }
    }

    /// Whether the wait belongs to this group: half of it, or half of the time that all others share, is at the same time.
    pub(super) fn has_room_for(&self, judged: &Judged) -> bool {
        let (from, to) = self.with(judged);
        let shorter = judged.wait.length_us().min(self.core.1.saturating_sub(self.core.0));
        self.cause == judged.cause && to > from && (to - from).saturating_mul(2) >= shorter
    }

    pub(super) fn add(&mut self, judged: Judged) {
        self.core = self.with(&judged);
        self.from_us = self.from_us.min(judged.wait.from_us);
        self.to_us = self.to_us.max(judged.wait.to_us);
        self.members.push(judged);
    }

    fn with(&self, judged: &Judged) -> (u64, u64) {
        (self.core.0.max(judged.wait.from_us), self.core.1.min(judged.wait.to_us))
    }

    /// `started_unix_us`: when the watch began, since 1970.
    pub(super) fn stall(mut self, started_unix_us: u64, most_victims: usize) -> Stall {
        self.members.sort_by_key(|it| (it.wait.from_us, it.wait.thread));
        let lost_query_us = self.members.iter().map(|it| it.victim.lost_query_us).fold(0, u64::saturating_add);
        let first_end = self.members.iter().map(|it| it.wait.to_us).min().unwrap_or(self.to_us);
        let surest = self.members.iter().max_by(|a, b| a.confidence.total_cmp(&b.confidence));
        let mut evidence = surest.map(|it| it.evidence.clone()).unwrap_or_default();
        let sum: f64 = self.members.iter().map(|it| it.confidence).sum();
        let count = self.members.len();
        if count > 1 {
            let within = crate::cause::ms(self.to_us - first_end);
            evidence.speaks_for.push(format!("{count} connections waited together, and ended within {within}"));
        }
        if self.members.iter().any(|it| it.wait.is_cut) {
            evidence.against.push("its begin was not seen: it may be longer".to_owned());
        }
        let confidence = sum / count.max(1) as f64;
        Stall {
            started_us: i64::try_from(started_unix_us + self.from_us).ok(),
            length_us: self.to_us.saturating_sub(self.from_us),
            cause: self.cause,
            confidence: (confidence * 100.0).round() / 100.0,
            lost_query_us,
            ends_within_us: self.to_us.saturating_sub(first_end),
            evidence,
            victim_count: count as u64,
            victims: self.members.into_iter().take(most_victims).map(|it| it.victim).collect(),
        }
    }
}
