// SPDX-License-Identifier: Apache-2.0
//! Large blocks, each in a mapping of its own (malloc/malloc.c, `sysmalloc_mmap`). The head of such a block stands at the begin of a page: 0, and then the
//! length in whole pages, with one flag. The kernel joins neighbouring mappings to one. A block that was asked of `memalign` begins elsewhere, and is not seen.

use super::layout::{FLAGS, IS_MAPPED};
use crate::memory::resident_words::Words;

/// The bytes of these blocks, with their heads. `ranges`: memory that may have such blocks.
pub(super) fn bytes(words: &mut dyn Words, ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|range| in_range(words, *range)).sum()
}

fn in_range(words: &mut dyn Words, (start, end): (u64, u64)) -> u64 {
    let (mut at, mut sum) = (start, 0);
    while at < end {
        match block(words, at, end) {
            Some(length) => {
                sum += length;
                at += length;
            }
            None => at += page(),
        }
    }
    sum
}

/// The length of the block that begins here.
fn block(words: &mut dyn Words, at: u64, end: u64) -> Option<u64> {
    let (before, word) = (words.word(at)?, words.word(at + 8)?);
    let length = word & !FLAGS;
    let is_block = before == 0 && word & FLAGS == IS_MAPPED && length > 0 && length.is_multiple_of(page());
    (is_block && length <= end - at).then_some(length)
}

fn page() -> u64 {
    crate::memory::page_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Made(BTreeMap<u64, u64>);

    impl Words for Made {
        fn word(&mut self, at: u64) -> Option<u64> {
            (at < 90 * page()).then(|| self.0.get(&at).copied().unwrap_or(0))
        }
    }

    #[test]
    fn neighbours_are_blocks_of_their_own_and_other_memory_is_none() {
        let page = page();
        let mut words = Made(BTreeMap::new());
        // other memory, two neighbours, a page of other memory, and one more
        for (at, pages) in [(3, 4), (7, 2), (10, 5)] {
            words.0.insert(at * page + 8, (pages * page) | IS_MAPPED);
        }
        // what a block has in it is not looked at
        words.0.insert(11 * page + 8, page | IS_MAPPED);
        assert_eq!(bytes(&mut words, &[(0, 20 * page)]), 11 * page);
        assert_eq!(bytes(&mut words, &[(0, 4 * page), (10 * page, 20 * page)]), 5 * page, "longer than its mapping");
        for (before, head) in
            [(8, page | IS_MAPPED), (0, page | 3), (0, page), (0, IS_MAPPED), (0, page + 16 + IS_MAPPED)]
        {
            let mut words = Made([(0, before), (8, head)].into());
            assert_eq!(bytes(&mut words, &[(0, 2 * page)]), 0, "{before} {head}");
        }
        assert_eq!(bytes(&mut words, &[(90 * page, 99 * page)]), 0, "what is not resident is not read");
    }
}
