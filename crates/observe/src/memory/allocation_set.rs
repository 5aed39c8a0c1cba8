// SPDX-License-Identifier: Apache-2.0
//! How much of a memory context of PostgreSQL is resident: an allocation set counts its blocks in full, and nobody may have touched their ends. The
//! list of blocks begins after the fields that every context has (`AllocSetContext`, src/backend/utils/mmgr/aset.c), at the same place from version 13
//! to 18. A list whose blocks do not sum to the allocated bytes is not used: the context is of another kind, or it changed meanwhile.

/// The place of the pointer to the first block: `blocks` of `AllocSetContext`.
const BLOCKS_AT: u64 = 80;
/// The block with which the set began lies behind the set's own fields, in the same piece of memory: at most so far.
const FIRST_WITHIN: u64 = 512;
const MOST: u32 = 10_000;

/// The memory of a backend.
pub(super) trait Memory {
    /// Eight bytes at an address.
    fn word(&mut self, at: u64) -> Option<u64>;
    /// The resident bytes from one address to another.
    fn resident(&mut self, start: u64, end: u64) -> Option<u64>;
}

/// `AllocBlockData`, as far as it is used.
struct Block {
    next: u64,
    end: u64,
}

/// `set`: the address of the context. `allocated`: its own count.
pub(super) fn resident(memory: &mut dyn Memory, set: u64, allocated: u64) -> Option<u64> {
    let (mut sum, mut resident) = (0_u64, 0);
    let mut at = memory.word(set.checked_add(BLOCKS_AT)?)?;
    for _ in 0..MOST {
        let block = block(memory, at, set)?;
        let is_first = (set..set.saturating_add(FIRST_WITHIN)).contains(&at);
        let start = if is_first { set } else { at };
        sum = sum.checked_add(block.end.checked_sub(start)?).filter(|sum| *sum <= allocated)?;
        resident += memory.resident(start, block.end)?;
        if block.next == 0 {
            return (sum == allocated).then_some(resident);
        }
        at = block.next;
    }
    None
}

/// Its words: the set, the previous and the next block, the first free byte, the end.
fn block(memory: &mut dyn Memory, at: u64, set: u64) -> Option<Block> {
    let mut word = |nth: u64| memory.word(at.checked_add(nth * 8)?);
    let (owner, next, free, end) = (word(0)?, word(2)?, word(3)?, word(4)?);
    (owner == set && at < free && free <= end).then_some(Block { next, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SET: u64 = 0x5555_0000_1000;
    const FIRST: u64 = SET + 200;
    const SECOND: u64 = 0x5555_0001_0000;
    const LARGE: u64 = 0x7fff_0000_0010;

    /// Words by their address; of each piece of memory the first 5000 bytes are resident.
    struct Fake(BTreeMap<u64, u64>);

    impl Memory for Fake {
        fn word(&mut self, at: u64) -> Option<u64> {
            self.0.get(&at).copied()
        }

        fn resident(&mut self, start: u64, end: u64) -> Option<u64> {
            Some((end - start).min(5000))
        }
    }

    impl Fake {
        fn put_block(&mut self, at: u64, next: u64, free: u64, end: u64) {
            let words = [SET, 0, next, free, end].into_iter().zip(0..);
            self.0.extend(words.map(|(word, nth)| (at + nth * 8, word)));
        }
    }

    /// The set's fields and first block have 8192 bytes, the second block 65536, one for a single large chunk 1,000,016.
    fn set() -> Fake {
        let mut memory = Fake([(SET + BLOCKS_AT, LARGE)].into());
        memory.put_block(LARGE, SECOND, LARGE + 1_000_016, LARGE + 1_000_016);
        memory.put_block(SECOND, FIRST, SECOND + 48, SECOND + 65_536);
        memory.put_block(FIRST, 0, SET + 8192, SET + 8192);
        memory
    }

    const ALLOCATED: u64 = 8192 + 65_536 + 1_000_016;

    #[test]
    fn what_is_resident_of_all_blocks_is_summed() {
        assert_eq!(resident(&mut set(), SET, ALLOCATED), Some(15_000));
    }

    #[test]
    fn what_does_not_verify_is_not_used() {
        assert_eq!(resident(&mut set(), SET, ALLOCATED - 8), None, "its count is another");
        assert_eq!(resident(&mut set(), SET, ALLOCATED + 8), None);
        let mut round = set();
        round.put_block(FIRST, SECOND, SET + 8192, SET + 8192);
        assert_eq!(resident(&mut round, SET, u64::MAX), None, "the list goes round");
        let mut of_another = set();
        of_another.0.insert(SECOND, SET + 8);
        assert_eq!(resident(&mut of_another, SET, ALLOCATED), None);
        assert_eq!(resident(&mut Fake(BTreeMap::new()), SET, ALLOCATED), None);
    }
}
