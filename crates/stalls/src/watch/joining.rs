// SPDX-License-Identifier: Apache-2.0
//! One wait that samples show as two.
//!
//! A thread that waits for a lock wakes up now and then and goes on waiting: PostgreSQL looks for a deadlock after `deadlock_timeout`, and may write a line to its log.
//! By the turns on a CPU alone, that looks like the end of one statement and the wait of the next one. What the server says tells the two apart.

use super::known::Known;
use super::track::{Tracker, Wait, Way};
use std::collections::{BTreeMap, HashMap};

/// The most time between two waits that may be one: a look or two, while the thread was awake.
const APART_US: u64 = 30_000;

/// Whether the second wait begins where the first one ends.
fn touch(first: &Wait, next: &Wait) -> bool {
    let are_for_others = first.way == Way::Blocked && next.way == Way::Blocked;
    let apart = next.from_us.checked_sub(first.to_us);
    are_for_others && first.thread == next.thread && apart.is_some_and(|us| us <= APART_US)
}

/// Puts waits together that the server knows as one: those that have ended, and the last of them with the wait that goes on. Of each thread, `ended` has the
/// waits in the order of their begins.
pub(super) fn join(ended: &mut Vec<Wait>, trackers: &mut BTreeMap<u32, Tracker>, known: &Known) {
    let mut joined: Vec<Wait> = Vec::new();
    let mut last: HashMap<u32, usize> = HashMap::new();
    for wait in ended.drain(..) {
        let before = last.get(&wait.thread).and_then(|nth| joined.get_mut(*nth));
        match before.filter(|it| is_one(it, &wait, known) == Some(true)) {
            Some(first) => *first = first.and(&wait),
            None => {
                last.insert(wait.thread, joined.len());
                joined.push(wait);
            }
        }
    }
    joined.retain(|wait| {
        let tracker = trackers.get_mut(&wait.thread);
        let is_open = |it: &&mut Tracker| it.open().is_some_and(|open| is_one(wait, &open, known) == Some(true));
        tracker.filter(is_open).map(|it| it.began_with(wait)).is_none()
    });
    *ended = joined;
}

fn is_one(first: &Wait, next: &Wait, known: &Known) -> Option<bool> {
    if touch(first, next) { known.is_one(first, next) } else { Some(false) }
}

/// The waits that may be the rest of another one.
pub(super) struct Rests<'a> {
    trackers: &'a BTreeMap<u32, Tracker>,
    known: &'a Known,
    /// Of those that have ended, the waits that may still be told of, by thread and begin.
    ended: BTreeMap<(u32, u64), Wait>,
}

impl<'a> Rests<'a> {
    pub(super) fn of(
        ended: impl Iterator<Item = &'a Wait>,
        trackers: &'a BTreeMap<u32, Tracker>,
        known: &'a Known,
    ) -> Self {
        Self { trackers, known, ended: ended.map(|wait| ((wait.thread, wait.from_us), *wait)).collect() }
    }

    /// Whether an answer of the server is still to come that tells if the wait goes on in the next one.
    pub(super) fn may_have(&self, wait: &Wait) -> bool {
        let is_open = || self.trackers.get(&wait.thread).and_then(Tracker::open);
        let next = self.ended.range((wait.thread, wait.to_us)..).next().map(|(_, next)| *next);
        next.or_else(is_open).is_some_and(|next| is_one(wait, &next, self.known).is_none())
    }
}

#[cfg(test)]
#[path = "joining_tests.rs"]
mod tests;
