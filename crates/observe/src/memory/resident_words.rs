// SPDX-License-Identifier: Apache-2.0
//! Words of a process, from resident pages only: a page that is not resident is never read, because reading would make it resident.

use super::pagemap::Presence;
use super::reading::Reading;
use super::target::Target;
use std::collections::HashMap;

/// Memory, word by word.
pub(super) trait Words {
    /// `None`: the word is not resident.
    fn word(&mut self, at: u64) -> Option<u64>;
}

/// The number of pages that are read at once, when memory is read sequentially.
const MOST_PAGES: u64 = 64;

/// Words of a range of a process, for one that is read from its begin to its end.
pub(super) struct Window<'a> {
    target: &'a Target,
    reading: &'a mut Reading,
    presence: Presence,
    end: u64,
    at: u64,
    bytes: Vec<u8>,
    pages: u64,
}

impl<'a> Window<'a> {
    pub(super) fn of(target: &'a Target, start: u64, end: u64, reading: &'a mut Reading) -> Option<Self> {
        let page = super::page_bytes();
        let (start, end) = (start / page * page, end.next_multiple_of(page));
        let presence = target.presence(start, end, reading)?;
        Some(Self { target, reading, presence, end, at: 0, bytes: Vec::new(), pages: 1 })
    }

    pub(super) fn into_presence(self) -> Presence {
        self.presence
    }

    fn load(&mut self, at: u64) -> Option<()> {
        let page = super::page_bytes();
        let start = at / page * page;
        let goes_on = start == self.at + self.bytes.len() as u64;
        let most = if goes_on { (self.pages * 2).min(MOST_PAGES) } else { 1 };
        let is_there = |nth: &u64| start + nth * page < self.end && self.presence.has(start + nth * page);
        self.pages = (0..most).take_while(is_there).count() as u64;
        (self.pages > 0 && self.reading.admits(0)).then_some(())?;
        self.bytes.resize(usize::try_from(self.pages * page).ok()?, 0);
        self.at = start;
        self.target.memory("heap", start, &mut self.bytes, self.reading)
    }
}

impl Words for Window<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        let is_inside = at >= self.at && at + 8 <= self.at + self.bytes.len() as u64;
        if !is_inside {
            self.load(at)?;
        }
        let offset = usize::try_from(at - self.at).ok()?;
        let word = self.bytes.get(offset..)?.first_chunk::<8>()?;
        Some(u64::from_ne_bytes(*word))
    }
}

/// Words that lie far from each other. Each page is read once.
pub(super) struct Scattered<'a> {
    target: &'a Target,
    reading: &'a mut Reading,
    pages: HashMap<u64, Option<Vec<u8>>>,
}

impl<'a> Scattered<'a> {
    pub(super) fn of(target: &'a Target, reading: &'a mut Reading) -> Self {
        Self { target, reading, pages: HashMap::new() }
    }

    fn load(&mut self, start: u64, page: u64) -> Option<Vec<u8>> {
        let is_there = self.target.presence(start, start + page, self.reading)?.has(start);
        (is_there && self.reading.admits(0)).then_some(())?;
        let mut bytes = vec![0; usize::try_from(page).ok()?];
        self.target.memory("heap", start, &mut bytes, self.reading)?;
        Some(bytes)
    }
}

impl Words for Scattered<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        let page = super::page_bytes();
        let start = at / page * page;
        if !self.pages.contains_key(&start) {
            let bytes = self.load(start, page);
            self.pages.insert(start, bytes);
        }
        let bytes = self.pages.get(&start)?.as_ref()?;
        let word = bytes.get(usize::try_from(at - start).ok()?..)?.first_chunk::<8>()?;
        Some(u64::from_ne_bytes(*word))
    }
}
