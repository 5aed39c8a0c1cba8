// SPDX-License-Identifier: Apache-2.0
//! The page heap of gperftools' tcmalloc (src/page_heap.h and src/span.h of 2.10 to 2.18, the same in all of them), on 64-bit machines.
//!
//! Free memory is kept as spans, runs of pages: those of up to 1 MiB in one list for each length, longer ones in a set. Each length has two lists, for
//! memory that is kept and for memory that was given back to the kernel; and there are two sets. The statistics follow the lists.

use crate::memory::resident_words::Words;
use std::ops::RangeInclusive;

/// Offsets in a span: its first page, its number of pages, its neighbours in the list.
const LENGTH: u64 = 8;
const NEXT: u64 = 16;
const PREVIOUS: u64 = 24;
const SPAN_BYTES: u64 = 48;

/// Offsets in a set (libstdc++'s `std::set`), and in one of its nodes.
const SET_BYTES: u64 = 48;
const ROOT: u64 = 16;
const COUNT: u64 = 40;
const LEFT: u64 = 16;
const RIGHT: u64 = 24;
const MEMBER: u64 = 32;

/// A list for each length is there up to 1 MiB, in pages of 4 to 256 KiB (`kMaxPages`, `kPageShift`).
const LISTED_SHIFT: u32 = 20;
const PAGE_SHIFTS: RangeInclusive<u32> = 12..=18;
/// The most spans that are followed, so that links which form a ring come to an end.
const MOST_SPANS: usize = 1 << 20;

/// `PageHeap::Stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Statistics {
    pub(super) free: u64,
    pub(super) committed: u64,
}

impl Statistics {
    /// `None`: there are no such statistics. Four figures are there twice, as a sum or a difference of others: what only happens to look alike has not
    /// that.
    pub(super) fn read(words: &mut dyn Words, at: u64) -> Option<Self> {
        let system = words.word(at)?;
        (system != 0 && system.is_multiple_of(4096)).then_some(())?;
        let mut word = |nth: u64| words.word(at + 8 * nth);
        let (free, unmapped, committed) = (word(1)?, word(2)?, word(3)?);
        let (commits, committed_ever, decommitted_ever, reserves, reserved_ever) =
            (word(5)?, word(6)?, word(8)?, word(9)?, word(10)?);
        let is_sum = system.checked_sub(unmapped) == Some(committed)
            && committed_ever.checked_sub(decommitted_ever) == Some(committed)
            && reserved_ever == system
            && free <= committed
            && (1..=commits).contains(&reserves);
        is_sum.then_some(Self { free, committed })
    }

    pub(super) const WORDS: u64 = 11;
}

/// Memory from one address to another.
pub(super) type Range = (u64, u64);

/// The free spans that were not given back to the kernel. `at`: the statistics. `None`: what lies before the statistics is not the lists of a page heap.
pub(super) fn free_spans(words: &mut dyn Words, at: u64) -> Option<Vec<Range>> {
    let mut count = 0;
    while count < 2 << (LISTED_SHIFT - PAGE_SHIFTS.start()) && is_list(words, at - (count + 1) * SPAN_BYTES) {
        count += 1;
    }
    let shift = PAGE_SHIFTS.into_iter().find(|shift| 2 << (LISTED_SHIFT - shift) == count)?;
    let first = at.checked_sub(count * SPAN_BYTES)?;
    let mut spans = Vec::new();
    // the lists of memory that is kept and of memory that was given back lie side by side
    for list in (0..count).step_by(2) {
        follow(words, first + list * SPAN_BYTES, &mut spans)?;
    }
    collect(words, first.checked_sub(2 * SET_BYTES)?, &mut spans)?;
    spans.into_iter().map(|(start, pages)| range(start, pages, shift)).collect()
}

fn range(start: u64, pages: u64, shift: u32) -> Option<Range> {
    let bytes = |pages: u64| pages.checked_mul(1 << shift);
    Some((bytes(start)?, bytes(start.checked_add(pages)?)?))
}

/// The head of a list is a span of no length, and the neighbour of its neighbours.
fn is_list(words: &mut dyn Words, at: u64) -> bool {
    let mut is = || {
        let is_nothing = words.word(at)? == 0 && words.word(at + LENGTH)? == 0;
        let (next, previous) = (words.word(at + NEXT)?, words.word(at + PREVIOUS)?);
        let is_linked =
            words.word(next.checked_add(PREVIOUS)?)? == at && words.word(previous.checked_add(NEXT)?)? == at;
        Some(is_nothing && is_linked)
    };
    is() == Some(true)
}

fn follow(words: &mut dyn Words, list: u64, spans: &mut Vec<(u64, u64)>) -> Option<()> {
    let mut span = words.word(list + NEXT)?;
    while span != list {
        (spans.len() < MOST_SPANS).then_some(())?;
        spans.push((words.word(span)?, words.word(span.checked_add(LENGTH)?)?));
        span = words.word(span.checked_add(NEXT)?)?;
    }
    Some(())
}

/// The members of a set. Its count says when they are all there.
fn collect(words: &mut dyn Words, set: u64, spans: &mut Vec<(u64, u64)>) -> Option<()> {
    let count = words.word(set + COUNT)?;
    let before = spans.len();
    let mut nodes = vec![words.word(set + ROOT)?];
    while let Some(node) = nodes.pop() {
        if node == 0 {
            continue;
        }
        (spans.len() < MOST_SPANS).then_some(())?;
        let mut word = |offset: u64| words.word(node.checked_add(offset)?);
        let (left, right, span) = (word(LEFT)?, word(RIGHT)?, word(MEMBER)?);
        nodes.extend([left, right]);
        spans.push((words.word(span)?, words.word(span.checked_add(LENGTH)?)?));
    }
    ((spans.len() - before) as u64 == count).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Memory in which only some words are there.
    #[derive(Default)]
    struct Memory(HashMap<u64, u64>);

    impl Words for Memory {
        fn word(&mut self, at: u64) -> Option<u64> {
            self.0.get(&at).copied()
        }
    }

    impl Memory {
        fn put(&mut self, at: u64, words: &[u64]) {
            for (nth, word) in (0..).zip(words) {
                self.0.insert(at + 8 * nth, *word);
            }
        }

        fn is_of(words: &[u64]) -> bool {
            let mut memory = Self::default();
            memory.put(0, words);
            Statistics::read(&mut memory, 0).is_some()
        }
    }

    const AT: u64 = 0x10_0000;
    const LISTS: u64 = 256;

    /// Pages of 8 KiB. Two spans of three pages in their list, and one of a thousand in the set.
    fn page_heap() -> Memory {
        let mut memory = Memory::default();
        let first = AT - LISTS * SPAN_BYTES;
        for list in (0..LISTS).map(|nth| first + nth * SPAN_BYTES) {
            memory.put(list, &[0, 0, list, list]);
        }
        let (list, one, other) = (first + 2 * 2 * SPAN_BYTES, 0x100, 0x200);
        memory.put(list, &[0, 0, one, other]);
        memory.put(one, &[10, 3, other, list]);
        memory.put(other, &[20, 3, list, one]);
        memory.put(first - 2 * SET_BYTES, &[0, 0, 0x300, 0x300, 0x300, 1]);
        memory.put(0x300, &[1, first - 2 * SET_BYTES + 8, 0, 0, 0x400, 1000]);
        memory.put(0x400, &[5000, 1000, 0, 0]);
        memory
    }

    #[test]
    fn the_statistics_are_those_whose_figures_agree() {
        let mib = 1 << 20;
        let it = [8 * mib, 2 * mib, mib, 7 * mib, 0, 9, 9 * mib, 1, 2 * mib, 8, 8 * mib];
        assert_eq!(it.len() as u64, Statistics::WORDS);
        assert!(Memory::is_of(&it) && !Memory::is_of(&it[..10]) && !Memory::is_of(&[0; 11]));
        for (nth, other) in [(0, 9), (1, 9), (2, 2), (3, 8), (6, 8), (8, 1), (10, 9)] {
            let mut it = it;
            it[nth] = other * mib;
            assert!(!Memory::is_of(&it), "figure {nth}");
        }
    }

    #[test]
    fn spans_of_lists_and_of_the_set() {
        let spans = free_spans(&mut page_heap(), AT);
        assert_eq!(spans, Some(vec![(10 << 13, 13 << 13), (20 << 13, 23 << 13), (5000 << 13, 6000 << 13)]));
    }

    #[test]
    fn what_does_not_verify_gives_nothing_and_a_ring_ends() {
        let changed = |at: u64, word: u64| {
            let mut memory = page_heap();
            memory.put(at, &[word]);
            free_spans(&mut memory, AT)
        };
        let first = AT - LISTS * SPAN_BYTES;
        assert_eq!(changed(first - 2 * SET_BYTES + COUNT, 2), None, "the set says that it has two");
        assert_eq!(changed(AT - SPAN_BYTES, 1), None, "no list is there");
        assert_eq!(changed(0x100 + NEXT, 0x100), None, "a span that follows itself");
        assert_eq!(changed(0x200, u64::MAX), None, "an address beyond all");
        assert_eq!(changed(0x300 + LEFT, 0x300), None, "a node below itself");
    }
}
