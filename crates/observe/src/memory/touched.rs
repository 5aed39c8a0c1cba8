// SPDX-License-Identifier: Apache-2.0
//! Which pages of a piece of shared memory at least one process has touched: one bit for each page, whoever has it.

/// Addresses are divided into parts of this size, or of one page if that is larger.
const SLICE: u64 = 2 << 20;
/// A range that is to be looked at is at most this long.
const LONGEST: u64 = 256 << 20;

/// All addresses are those of one process: forks have the memory at the same addresses.
#[derive(Clone)]
pub(super) struct Touched {
    start: u64,
    end: u64,
    page_bytes: u64,
    words: Vec<u64>,
}

impl Touched {
    pub(super) fn nothing_of(start: u64, end: u64, page_bytes: u64) -> Self {
        let pages = end.saturating_sub(start).div_ceil(page_bytes);
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(0);
        Self { start, end, page_bytes, words: vec![0; words] }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Notes the pages from one address to another.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        let (first, last) = (self.page(from), to.saturating_sub(self.start).div_ceil(self.page_bytes));
        for (word, mask) in masks(first, last) {
            if let Some(word) = self.words.get_mut(word) {
                *word |= mask;
            }
        }
    }

    /// The ranges in which not all pages are noted. Nothing new is to be learned of the others.
    pub(super) fn unknown(&self) -> Vec<(u64, u64)> {
        let slice = SLICE.max(self.page_bytes);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut at = self.start;
        while at < self.end {
            let until = self.end.min(at + slice);
            if !self.is_full(at, until) {
                match ranges.last_mut().filter(|last| last.1 == at && until - last.0 <= LONGEST) {
                    Some(last) => last.1 = until,
                    None => ranges.push((at, until)),
                }
            }
            at = until;
        }
        ranges
    }

    /// Bytes of noted pages in a part of the memory.
    pub(super) fn bytes(&self, offset: u64, length: u64) -> u64 {
        let from = self.start.saturating_add(offset).min(self.end);
        let to = from.saturating_add(length).min(self.end);
        let (first, last) = (self.page(from), to.saturating_sub(self.start).div_ceil(self.page_bytes));
        let whole = self.count(first, last) * self.page_bytes;
        // of the first and of the last page, only a part may belong to it
        let before = from - (self.start + first * self.page_bytes);
        let after = (self.start + last * self.page_bytes).saturating_sub(to);
        let part = |page: u64, bytes: u64| if self.count(page, page + 1) > 0 { bytes } else { 0 };
        if from >= to { 0 } else { whole - part(first, before) - part(last - 1, after) }
    }

    /// Bytes of all noted pages.
    pub(super) fn sum(&self) -> u64 {
        self.bytes(0, self.end - self.start)
    }

    fn page(&self, address: u64) -> u64 {
        address.saturating_sub(self.start) / self.page_bytes
    }

    fn is_full(&self, from: u64, to: u64) -> bool {
        let (first, last) = (self.page(from), (to - self.start).div_ceil(self.page_bytes));
        masks(first, last).all(|(word, mask)| self.words.get(word).is_some_and(|word| word & mask == mask))
    }

    fn count(&self, first: u64, last: u64) -> u64 {
        let ones = |(word, mask): (usize, u64)| self.words.get(word).map_or(0, |it| (it & mask).count_ones());
        masks(first, last).map(|it| u64::from(ones(it))).sum()
    }
}

/// The words that have the bits from `first` to before `last`, each with those bits.
fn masks(first: u64, last: u64) -> impl Iterator<Item = (usize, u64)> {
    let words = if first < last { first / 64..last.div_ceil(64) } else { 0..0 };
    words.map(move |word| {
        let (low, high) = (first.max(word * 64) - word * 64, last.min(word * 64 + 64) - word * 64);
        let below = |bit: u64| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
        (usize::try_from(word).unwrap_or(usize::MAX), below(high) & !below(low))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const START: u64 = 0x7000_0000_0000;

    #[test]
    fn pages_count_once_and_for_each_part_with_the_bytes_that_are_in_it() {
        let mut touched = Touched::nothing_of(START, START + 1000 * PAGE, PAGE);
        touched.add(START + 60 * PAGE, START + 70 * PAGE);
        touched.add(START + 65 * PAGE, START + 200 * PAGE);
        touched.add(START + 999 * PAGE, START + 2000 * PAGE);
        assert_eq!(touched.sum(), 141 * PAGE);
        assert_eq!(touched.bytes(0, 60 * PAGE), 0);
        assert_eq!(touched.bytes(60 * PAGE + 100, 50), 50);
        assert_eq!(touched.bytes(59 * PAGE + 100, PAGE), 100);
        assert_eq!(touched.bytes(199 * PAGE + 96, 5 * PAGE), PAGE - 96);
        assert_eq!(
            (touched.bytes(999 * PAGE, 1 << 60), touched.bytes(1 << 60, PAGE), touched.bytes(0, 0)),
            (PAGE, 0, 0)
        );
        let parts = [0, 61 * PAGE + 7, 150 * PAGE, 199 * PAGE + 1, 1000 * PAGE];
        let sum: u64 = parts.windows(2).map(|it| touched.bytes(it[0], it[1] - it[0])).sum();
        assert_eq!(sum, touched.sum(), "each byte belongs to one part");
    }

    #[test]
    fn what_is_known_is_not_looked_at_again() {
        let slices = 200;
        let mut touched = Touched::nothing_of(START, START + slices * SLICE, PAGE);
        assert_eq!(touched.unknown(), [(START, START + LONGEST), (START + LONGEST, START + slices * SLICE)]);
        touched.add(START + SLICE, START + slices * SLICE - PAGE);
        let last = START + slices * SLICE;
        assert_eq!(touched.unknown(), [(START, START + SLICE), (last - SLICE, last)]);
        touched.add(START, last);
        assert!(touched.unknown().is_empty());
        let mut huge = Touched::nothing_of(START, START + 5 * SLICE, SLICE);
        huge.add(START + SLICE, START + 3 * SLICE);
        assert_eq!(huge.unknown(), [(START, START + SLICE), (START + 3 * SLICE, START + 5 * SLICE)]);
        assert_eq!(huge.bytes(SLICE / 2, SLICE), SLICE / 2, "half of a huge page");
    }
}
