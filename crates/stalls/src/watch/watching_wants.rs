// SPDX-License-Identifier: Apache-2.0
//! What the server should be asked, and of which waits enough is known.

use super::super::track::{Tracker, Wait, Way};
use super::Watching;
use capability::{FreeList, OnEmpty};

/// The questions that the server should be asked now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// What the connections do.
    pub sessions: bool,
    /// Also which connections wait for locks of rows.
    pub locks: bool,
    /// The counters, before a wait can be judged.
    pub counters: bool,
}

/// The time from one question about a wait to the next.
const AGAIN_US: u64 = 250_000;
const AGAIN_IF_BUSY_US: u64 = 110_000;
/// How long a thread must have waited before the server is asked about it.
const ASKED_FROM_US: u64 = 25_000;

impl Watching {
    /// What the server should be asked at `now_us`.
    pub fn wants(&self, now_us: u64) -> Wants {
        let mut wants = Wants { sessions: self.known.has_strangers(), ..Wants::default() };
        for wait in self.waiting() {
            // where nobody waits for a lock, many short waits are no part of a long one
            let wait = if self.known.has_locks() { self.pieces.with(wait) } else { wait };
            let is_long = wait.samples >= 2 && now_us.saturating_sub(wait.from_us) >= ASKED_FROM_US;
            let last = self.known.last_said_us(wait.thread).filter(|us| *us >= wait.from_us);
            // what InnoDB shows of its transactions is up to 100 ms old: about a thread that is only called busy, the server is asked again soon
            let again_us = if self.known.names_a_wait(wait.thread) { AGAIN_US } else { AGAIN_IF_BUSY_US };
            if is_long && !self.is_idle(&wait) && last.is_none_or(|us| now_us.saturating_sub(us) >= again_us) {
                wants.sessions = true;
                wants.locks |= wait.way == Way::Blocked;
                wants.counters |= self.may_be_for_a_page(&wait);
            }
        }
        // a thread that waits for its next client; or for a lock, on behalf of a client that it got after the last list
        let is_new = |wait: &Wait| self.known.was_client(wait.thread) && !self.known.listed_since(wait.from_us);
        let open = self.trackers.values().filter_map(Tracker::open);
        wants.sessions |= open.filter(is_new).any(|wait| now_us.saturating_sub(wait.from_us) >= ASKED_FROM_US);
        for wait in &self.pending {
            wants.counters |= self.is_counted(wait) && !self.known.counted_since(wait.to_us);
            wants.sessions |= !self.is_listed(wait);
        }
        wants
    }

    /// Whether the server said that the thread has no statement, and it has not been awake since then: it is a thread of a pool that waits for its next client.
    fn is_idle(&self, wait: &Wait) -> bool {
        let said_us = self.known.last_idle_us(wait.thread).filter(|us| *us >= wait.from_us);
        wait.turns.is_some() && said_us.is_some_and(|us| !self.woken.has_woken_since(wait.thread, us))
    }

    /// Whether counters can show that it was a wait for a page.
    pub(super) fn is_counted(&self, wait: &Wait) -> bool {
        wait.way == Way::Asleep || self.may_be_for_a_page(wait)
    }

    /// Whether a wait that looks like a wait for a lock may be for a page. With a probe it is not needed.
    fn may_be_for_a_page(&self, wait: &Wait) -> bool {
        let waits = |row: &FreeList| match row.legacy {
            OnEmpty::Searches(search) => {
                let may_be = search.waits_for_batch || wait.way == Way::WritingPages;
                may_be && self.watch.backoff == Some(false)
            }
            OnEmpty::OwnBatch { .. } | OnEmpty::WaitsForCleaner { .. } => true,
        };
        let names_a_lock = self.known.names_a_wait(wait.thread);
        matches!(wait.way, Way::Blocked | Way::WritingPages)
            && self.watch.probe.is_none()
            && !names_a_lock
            && self.watch.free_list.is_some_and(waits)
    }

    /// Whether nothing more need be asked about the wait: a list was made after it, or it was a probed call of a known connection.
    pub(super) fn is_listed(&self, wait: &Wait) -> bool {
        let is_probed = wait.way == Way::FreePage && self.known.connection(wait.thread).is_some();
        is_probed || self.known.listed_since(wait.to_us)
    }
}
