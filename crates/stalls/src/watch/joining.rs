// SPDX-License-Identifier: Apache-2.0
//! One wait that samples show as several.
//!
//! A thread that waits for a lock wakes up now and then and goes on waiting: PostgreSQL looks for a deadlock after `deadlock_timeout`, and may write a line to its log; where
//! many wait for one row, each commit wakes some of them up. By the turns on a CPU alone, that looks like the end of one statement and the wait of the next
//! one. What the server says tells the two apart, where it says for how long a statement has run.

use super::server_answers::Known;
use super::track::{Tracker, Wait, Way};
use std::collections::BTreeMap;

/// The most time between two waits that may be one: a look or two, while the thread was awake.
const APART_US: u64 = 30_000;
/// An answer that tells whether two waits are one comes within this time, or not at all.
const DECIDED_US: u64 = 300_000;

#[derive(Debug, Clone, Copy)]
struct Piece {
    wait: Wait,
    /// Whether the thread was seen at rest right after it: its statement is over.
    is_answered: bool,
}

impl Piece {
    /// Whether this wait goes on in the next one. `None`: an answer may still come that tells it.
    fn goes_on(&self, next: &Wait, known: &Known) -> Option<bool> {
        let apart = next.from_us.checked_sub(self.wait.to_us);
        let touches = next.way == Way::Blocked && !self.is_answered && apart.is_some_and(|us| us <= APART_US);
        if touches { known.is_one(&self.wait, next) } else { Some(false) }
    }
}

/// Waits for other threads that have ended, until it is known whether they are parts of longer ones. Of each thread, in the order of their begins.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    of: BTreeMap<u32, Vec<Piece>>,
}

impl Pieces {
    pub(super) fn add(&mut self, wait: Wait, is_answered: bool) {
        self.of.entry(wait.thread).or_default().push(Piece { wait, is_answered });
    }

    /// The wait that goes on, with those before it of which it may be the rest: from the begin of the first one.
    pub(super) fn with(&self, open: Wait) -> Wait {
        let mut whole = open;
        for piece in self.of.get(&open.thread).into_iter().flatten().rev() {
            let apart = whole.from_us.checked_sub(piece.wait.to_us);
            if open.way != Way::Blocked || piece.is_answered || apart.is_none_or(|us| us > APART_US) {
                break;
            }
            whole = piece.wait.and(&whole);
        }
        whole
    }

    pub(super) fn begins(&self) -> impl Iterator<Item = u64> {
        self.of.values().flatten().map(|piece| piece.wait.from_us)
    }

    /// Puts those together that the server knows as one, the last of them also with the wait that goes on. Takes those that are over.
    pub(super) fn over(&mut self, now_us: u64, trackers: &mut BTreeMap<u32, Tracker>, known: &Known) -> Vec<Wait> {
        let mut over = Vec::new();
        for (thread, pieces) in &mut self.of {
            join(pieces, known);
            let mut tracker = trackers.get_mut(thread);
            let open = tracker.as_ref().and_then(|it| it.open());
            let last = pieces.last().filter(|last| open.is_some_and(|open| last.goes_on(&open, known) == Some(true)));
            if let Some((last, tracker)) = last.zip(tracker.as_mut()) {
                tracker.began_with(&last.wait);
                pieces.pop();
            }
            let count = (0..pieces.len()).take_while(|nth| is_over(pieces, *nth, open, now_us, known)).count();
            over.extend(pieces.drain(..count).map(|piece| piece.wait));
        }
        self.of.retain(|_, pieces| !pieces.is_empty());
        over
    }
}

fn join(pieces: &mut Vec<Piece>, known: &Known) {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces.drain(..) {
        match joined.last_mut().filter(|last| last.goes_on(&piece.wait, known) == Some(true)) {
            Some(last) => *last = Piece { wait: last.wait.and(&piece.wait), ..piece },
            None => joined.push(piece),
        }
    }
    *pieces = joined;
}

/// Whether it is known where this wait ends.
fn is_over(pieces: &[Piece], nth: usize, open: Option<Wait>, now_us: u64, known: &Known) -> bool {
    let Some(piece) = pieces.get(nth) else { return false };
    let since = |us: u64| now_us.saturating_sub(us);
    match pieces.get(nth + 1).map(|next| next.wait) {
        Some(next) => piece.goes_on(&next, known).is_some() || since(next.to_us) > DECIDED_US,
        None if piece.is_answered => true,
        // a look or two may be awake
        None => match open {
            Some(open) => piece.goes_on(&open, known) == Some(false) || since(piece.wait.to_us) > 2 * DECIDED_US,
            None => since(piece.wait.to_us) > 2 * APART_US,
        },
    }
}

#[cfg(test)]
#[path = "joining_tests.rs"]
mod tests;
