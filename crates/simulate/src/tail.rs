// SPDX-License-Identifier: Apache-2.0
//! The end of the LRU list. Each page that comes there is dirty with the same chance; whether a page is dirty is drawn at the first look at it.

use crate::draws::Draws;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Tail {
    draws: Draws,
    dirty_share: f64,
    /// Pages that were looked at, the oldest first: `true` is a dirty page.
    seen: VecDeque<bool>,
}

impl Tail {
    pub(crate) fn new(draws: Draws, dirty_share: f64) -> Self {
        Self { draws, dirty_share, seen: VecDeque::new() }
    }

    /// Every page is clean: nothing is drawn.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty_share <= 0.0
    }

    /// Whether the page at `place`, counted from the oldest, is dirty.
    pub(crate) fn is_dirty(&mut self, place: usize) -> bool {
        if self.is_clean() {
            return false;
        }
        while self.seen.len() <= place {
            let is_dirty = self.draws.share() < self.dirty_share;
            self.seen.push_back(is_dirty);
        }
        self.seen.get(place).copied().unwrap_or(false)
    }

    /// The first place within `depth` whose page is dirty (`wants_dirty`) or clean.
    pub(crate) fn find(&mut self, wants_dirty: bool, depth: u64) -> Option<usize> {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        if self.is_clean() {
            return (!wants_dirty && depth > 0).then_some(0);
        }
        (0..depth).find(|place| self.is_dirty(*place) == wants_dirty)
    }

    /// The page at `place` leaves the list.
    pub(crate) fn take(&mut self, place: usize) {
        self.seen.remove(place);
    }

    /// The page at `place` was written and stays.
    pub(crate) fn clean(&mut self, place: usize) {
        if let Some(is_dirty) = self.seen.get_mut(place) {
            *is_dirty = false;
        }
    }
}
