// SPDX-License-Identifier: Apache-2.0
//! Memory that MariaDB allocates once and keeps until it ends: the tables of its collations and character sets. No meter of the server counts it. It
//! comes from `my_once_alloc`, which keeps its blocks in a list that begins at the exported `my_once_root_block` (mysys/my_once.c). Each block begins
//! with `USED_MEM` (include/my_alloc.h): the next block, how much of this one is left, and its size, each of 8 bytes from 10.1 to 11.4.
//!
//! The list is read from outside. A list that does not verify is not reported at all: MariaDB 5.5 has shorter fields, which never verify as longer
//! ones.

use super::elf::Program;
use super::pages::Pages;
use super::reading::Reading;
use super::target::Target;
use ledger::{Collations, Mapping};
use std::collections::BTreeSet;

const ROOT: &str = "my_once_root_block";
const WHAT: &str = "tables of collations";
/// The head of a block, `USED_MEM`.
const HEAD: u64 = 24;
/// Larger than any table of a collation: the tables of Unicode 14 have 0.9 MiB.
const LARGEST: u64 = 64 << 20;
const MOST: usize = 100_000;
const TRIES: u32 = 3;

/// `None`: an entry in `reading` has the reason.
pub(super) fn read(
    target: &Target,
    mappings: &[Mapping],
    program: Option<&Program>,
    reading: &mut Reading,
) -> Option<Collations> {
    if !target.has_memory(WHAT, reading) {
        return None;
    }
    let Some(root) = program.and_then(|it| it.address(ROOT, mappings)) else {
        reading.missing(WHAT, format!("the program does not export {ROOT}"), None);
        return None;
    };
    // a block may be added during the walk
    let found = (0..TRIES).find_map(|_| walk(target, mappings, root, reading).filter(|_| target.is_alive()));
    if found.is_none() {
        let remedy = (!reading.admits(0)).then(|| reading.remedy());
        reading.missing(WHAT, why(reading), remedy);
    }
    found
}

fn why(reading: &Reading) -> String {
    if reading.admits(0) {
        format!("what is read at {ROOT} does not verify: MariaDB 10.1 to 11.4 have the list of blocks there")
    } else {
        "to read them would hold the server longer than the budget admits".to_owned()
    }
}

fn walk(target: &Target, mappings: &[Mapping], root: u64, reading: &mut Reading) -> Option<Collations> {
    let mut pages = Pages::of("collations");
    let mut words = |at: u64, into: &mut [u8], reading: &mut Reading| pages.read(target, at, into, reading);
    let mut first = [0; 8];
    words(root, &mut first, reading)?;
    let mut seen = BTreeSet::new();
    let mut sum = Collations::default();
    let mut at = u64::from_ne_bytes(first);
    while at != 0 {
        let mut head = [0; 24];
        (is_block_at(at, mappings) && seen.insert(at) && seen.len() <= MOST && reading.admits(0)).then_some(())?;
        words(at, &mut head, reading)?;
        let block = Block::of(&head)?;
        sum.blocks += 1;
        sum.allocated += block.size;
        sum.resident += target.presence(at, at + block.size, reading)?.resident(at, at + block.size);
        at = block.next;
    }
    Some(sum)
}

/// Whether malloc could have returned this address: it is aligned, and in private memory without a file.
fn is_block_at(at: u64, mappings: &[Mapping]) -> bool {
    let holds = |it: &&Mapping| (it.start..it.end).contains(&at) && it.permissions == "rw-p" && it.inode == 0;
    at.is_multiple_of(8) && mappings.iter().any(|it| holds(&it))
}

#[derive(Debug, PartialEq, Eq)]
struct Block {
    next: u64,
    size: u64,
}

impl Block {
    fn of(head: &[u8; 24]) -> Option<Self> {
        let word = |nth: usize| head.as_chunks::<8>().0.get(nth).map_or(0, |word| u64::from_ne_bytes(*word));
        let (next, left, size) = (word(0), word(1), word(2));
        let is_size = size.is_multiple_of(8) && (HEAD..=LARGEST).contains(&size);
        (is_size && left.is_multiple_of(8) && left <= size - HEAD).then_some(Self { next, size })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, target};
    use super::*;

    fn head(words: [u64; 3]) -> [u8; 24] {
        let mut head = [0; 24];
        for (part, word) in head.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_ne_bytes());
        }
        head
    }

    /// The head of a table of a collation of Unicode 14 in MariaDB 11.4.5, and of a common block.
    #[test]
    fn heads_of_blocks_as_they_were_seen() {
        assert_eq!(Block::of(&head([0, 0, 917_528])), Some(Block { next: 0, size: 917_528 }));
        assert_eq!(Block::of(&head([0x5616_89bc_d8f0, 8, 4096])).map(|it| it.size), Some(4096));
    }

    #[test]
    fn what_is_no_head_does_not_verify() {
        // fields of 4 bytes, as in MariaDB 5.5: 16 bytes left of 4,096
        assert_eq!(Block::of(&head([0, 16 | 4096 << 32, 0])), None);
        for words in [[0, 0, 0], [0, 4096, 4096], [0, 0, 4097], [0, 4, 4096], [0, 0, u64::MAX - 7]] {
            assert_eq!(Block::of(&head(words)), None, "{words:?}");
        }
    }

    /// A list in this process, like MariaDB's: two blocks, of which the second is large and not touched after its head.
    #[test]
    fn a_list_of_this_process_is_walked_and_one_that_goes_round_is_not() {
        let mut blocks = [vec![0_u64; 512], vec![0_u64; 1 << 18]];
        let at = |block: &[u64]| block.as_ptr() as u64;
        let (first, second) = (at(&blocks[0]), at(&blocks[1]));
        blocks[0][..3].copy_from_slice(&[second, 8, 4096]);
        blocks[1][2] = 2 << 20;
        let root = Box::new(first);
        let mut reading = Reading::begin(Options::default());
        let mut own = target::own(&mut reading);
        let mappings = own.maps(&mut reading).unwrap();
        let root_at = &raw const *root as u64;
        let found = walk(&own, &mappings, root_at, &mut reading).unwrap();
        assert_eq!((found.blocks, found.allocated), (2, 4096 + (2 << 20)));
        assert!((4096..64 << 10).contains(&found.resident), "{found:?}");
        blocks[1][0] = first;
        assert_eq!(walk(&own, &mappings, root_at, &mut reading), None, "a list without an end");
        blocks[1][0] = 0;
        blocks[1][1] = 1;
        assert_eq!(walk(&own, &mappings, root_at, &mut reading), None, "a head that does not verify");
        assert!(std::hint::black_box(&blocks)[1][1] == 1);
    }
}
