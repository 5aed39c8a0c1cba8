// SPDX-License-Identifier: Apache-2.0
//! Waits of several connections for one cause at one time are one stall. Waits for locks are one stall only where the connections that hold them connect
//! them: two queues behind two holders are two stalls.

use super::track::Wait;
use crate::cause::{Cause, Evidence};
use crate::explained::{Stall, Victim};
use std::collections::BTreeSet;

/// Victims of one stall that are listed.
pub(super) const MOST_VICTIMS: usize = 200;

/// What is to be said of the length of a stall that is not over.
pub(super) const STILL: &str = "it went on when this was told: it is longer";

/// A wait that was judged to be part of a stall.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) wait: Wait,
    pub(super) cause: Cause,
    pub(super) confidence: f64,
    pub(super) evidence: Evidence,
    pub(super) victim: Victim,
    /// The waiting connection; `None`: the server did not say which one the thread has.
    pub(super) connection: Option<u64>,
    /// The connections that the server named as those that it waited for: holders of the lock, and waiters before it in the queue.
    pub(super) waited_for: BTreeSet<u64>,
    /// The connections of which it is only a guess that it waited for them.
    pub(super) perhaps_for: BTreeSet<u64>,
}

/// What a wait was.
#[derive(Debug)]
pub(super) enum Judgement {
    Victim(Box<Judged>),
    /// The statement asked for it, or worked: microseconds.
    OwnWork(u64),
    Nothing,
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
    waiters: BTreeSet<u64>,
    waited_for: BTreeSet<u64>,
}

impl Group {
    /// Adds the wait to the first group that it belongs to, or begins a group with it.
    pub(super) fn gather(groups: &mut Vec<Self>, judged: Judged) {
        match groups.iter_mut().find(|group| group.has_room_for(&judged)) {
            Some(group) => group.add(judged),
            None => groups.push(Self::new(judged)),
        }
    }

    fn new(first: Judged) -> Self {
        let (from_us, to_us) = (first.wait.from_us, first.wait.to_us);
        let (waiters, waited_for) = (first.connection.into_iter().collect(), first.waited_for.clone());
        Self { cause: first.cause, from_us, to_us, core: (from_us, to_us), members: vec![first], waiters, waited_for }
    }

    /// Whether the wait belongs to this group: half of it, or half of the time that all others share, is at the same time, and it is not a wait for
    /// somebody else.
    fn has_room_for(&self, judged: &Judged) -> bool {
        let (from, to) = self.with(judged);
        let shorter = judged.wait.length_us().min(self.core.1.saturating_sub(self.core.0));
        self.cause == judged.cause && to > from && (to - from).saturating_mul(2) >= shorter && self.is_connected(judged)
    }

    /// Where the server named no holder for one side, nothing says that the two are apart.
    fn is_connected(&self, judged: &Judged) -> bool {
        self.waited_for.is_empty()
            || judged.waited_for.is_empty()
            || !self.waited_for.is_disjoint(&judged.waited_for)
            || !self.waiters.is_disjoint(&judged.waited_for)
            || judged.connection.is_some_and(|connection| self.waited_for.contains(&connection))
    }

    fn add(&mut self, judged: Judged) {
        self.core = self.with(&judged);
        self.from_us = self.from_us.min(judged.wait.from_us);
        self.to_us = self.to_us.max(judged.wait.to_us);
        self.waiters.extend(judged.connection);
        self.waited_for.extend(&judged.waited_for);
        self.members.push(judged);
    }

    /// Those who were waited for and did not wait themselves. In a deadlock, those who waited for each other.
    fn holders(&self) -> Vec<u64> {
        let alone: Vec<u64> = self.waited_for.difference(&self.waiters).copied().collect();
        if alone.is_empty() { self.in_a_circle() } else { alone }
    }

    /// Those who waited for one another. Whoever waited for somebody whom the server did not name is not among them, nor is whoever only waited for them.
    fn in_a_circle(&self) -> Vec<u64> {
        let mut left = self.waited_for.clone();
        loop {
            let members = || self.members.iter().filter(|it| it.connection.is_some_and(|own| left.contains(&own)));
            let waited_for: BTreeSet<u64> = members().flat_map(|it| &it.waited_for).copied().collect();
            let waits = |it: &&Judged| it.waited_for.iter().any(|holder| left.contains(holder));
            let waiting = members().filter(waits).filter_map(|it| it.connection);
            let still: BTreeSet<u64> = waiting.filter(|own| waited_for.contains(own)).collect();
            if still.len() == left.len() {
                return left.into_iter().collect();
            }
            left = still;
        }
    }

    /// What is to be said of those who held what the others waited for.
    fn said_of(&self, holders: &[u64]) -> Option<String> {
        if !holders.is_empty() {
            return Some(format!("held by connection {}", list(holders)));
        }
        let perhaps = self.members.iter().flat_map(|it| &it.perhaps_for).filter(|it| !self.waiters.contains(it));
        let perhaps: BTreeSet<u64> = perhaps.copied().collect();
        let perhaps: Vec<u64> = perhaps.into_iter().collect();
        (!perhaps.is_empty()).then(|| {
            let who = list(&perhaps);
            format!("the server names no holder; a guess: connection {who}, whose statement is the oldest that runs, and began before")
        })
    }

    fn with(&self, judged: &Judged) -> (u64, u64) {
        (self.core.0.max(judged.wait.from_us), self.core.1.min(judged.wait.to_us))
    }

    /// The stall with all of its victims. `started_unix_us`: when the watch began, since 1970.
    pub(super) fn stall(mut self, started_unix_us: u64) -> Stall {
        self.members.sort_by_key(|it| (it.wait.from_us, it.wait.thread));
        let lost_query_us = self.members.iter().map(|it| it.victim.lost_query_us).fold(0, u64::saturating_add);
        let first_end = self.members.iter().map(|it| it.wait.to_us).min().unwrap_or(self.to_us);
        let surest = self.members.iter().max_by(|a, b| a.confidence.total_cmp(&b.confidence));
        let mut evidence = surest.map(|it| it.evidence.clone()).unwrap_or_default();
        let held_by = self.holders();
        evidence.speaks_for.extend(self.said_of(&held_by));
        let sum: f64 = self.members.iter().map(|it| it.confidence).sum();
        let count = self.members.len();
        let open = self.members.iter().filter(|it| it.wait.is_open).count();
        let ends_within_us = if open == 0 { self.to_us.saturating_sub(first_end) } else { 0 };
        if count > 1 {
            let ended = match open {
                0 => format!("ended within {}", crate::cause::ms(ends_within_us)),
                _ => format!("{open} of them wait still"),
            };
            evidence.speaks_for.push(format!("{count} connections waited together, and {ended}"));
        }
        if open > 0 {
            evidence.against.push(STILL.to_owned());
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
            ends_within_us,
            goes_on: open > 0,
            evidence,
            held_by: held_by.iter().map(u64::to_string).collect(),
            victim_count: count as u64,
            victims: self.members.into_iter().map(|it| it.victim).collect(),
        }
    }
}

fn list(connections: &[u64]) -> String {
    connections.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
