// SPDX-License-Identifier: Apache-2.0
//! One wait in samples that is several waits one after another: a thread that got its lock, and waits for its commit right after that. The thread wakes up in
//! between, and the server names another kind of wait from then on.

use super::known::Known;
use super::sample::{Says, Session};
use super::track::{Wait, Way};
use super::verdict::is_commit;
use std::collections::{HashMap, VecDeque};

/// The most times that are kept for a thread.
const MOST_WOKEN: usize = 64;
/// What InnoDB shows of its transactions is up to so old.
const STALE_US: u64 = 100_000;
const MOST_SYNCS: usize = 1000;

/// When threads woke up within their waits.
#[derive(Debug, Default)]
pub(super) struct Woken {
    of: HashMap<u32, VecDeque<u64>>,
}

impl Woken {
    pub(super) fn add(&mut self, thread: u32, at_us: u64) {
        let of = self.of.entry(thread).or_default();
        of.push_back(at_us);
        if of.len() > MOST_WOKEN {
            of.pop_front();
        }
    }

    pub(super) fn gone(&mut self, thread: u32) {
        self.of.remove(&thread);
    }

    /// The waits of which this one consists.
    pub(super) fn parts(&self, wait: &Wait, known: &Known) -> Vec<Wait> {
        let mut parts = vec![*wait];
        let woken = self.of.get(&wait.thread).filter(|_| wait.way == Way::Blocked);
        let Some(woken) = woken else { return parts };
        let named: Vec<(u64, u64, Says)> =
            known.answers_within(wait).filter_map(|(asked, answered, it)| Some((asked, answered, kind(it)?))).collect();
        for (before, after) in named.iter().zip(named.iter().skip(1)).filter(|(before, after)| before.2 != after.2) {
            let may_be = before.0.saturating_sub(STALE_US)..=after.1;
            let Some(last) = parts.last_mut() else { break };
            let at_us = woken.iter().copied().find(|us| may_be.contains(us) && *us > last.from_us && *us < last.to_us);
            if let Some(at_us) = at_us {
                let rest = Wait { from_us: at_us, is_cut: false, ..*last };
                last.to_us = at_us;
                parts.push(rest);
            }
        }
        parts
    }
}

/// The kind of wait that the server names. `None`: it names none.
fn kind(session: &Session) -> Option<Says> {
    match session.says {
        Says::Busy if is_commit(&session.words) => Some(Says::Sync),
        Says::Idle | Says::Busy | Says::Background => None,
        says => Some(says),
    }
}

/// When threads of the server waited for the disk to write: clients' threads and its own ones.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    of: VecDeque<(u64, u64)>,
}

impl Syncs {
    pub(super) fn add(&mut self, wait: &Wait) {
        self.of.push_back((wait.from_us, wait.to_us));
        if self.of.len() > MOST_SYNCS {
            self.of.pop_front();
        }
    }

    /// For how long of this wait some thread waited for the disk to write. `open`: waits that go on.
    pub(super) fn within(&self, wait: &Wait, open: impl Iterator<Item = Wait>) -> u64 {
        let open = open.filter(|it| it.way == Way::Syncing).map(|it| (it.from_us, it.to_us));
        let clipped = self.of.iter().copied().chain(open);
        let clipped = clipped.map(|(from, to)| (from.max(wait.from_us), to.min(wait.to_us)));
        let mut clipped: Vec<(u64, u64)> = clipped.filter(|(from, to)| from < to).collect();
        clipped.sort_unstable();
        let (mut until, mut sum) = (0, 0);
        for (from, to) in clipped {
            sum += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        sum
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
