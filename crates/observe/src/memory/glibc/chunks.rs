// SPDX-License-Identifier: Apache-2.0
//! The walk through one heap, chunk by chunk. A chunk contains its size, and whether the chunk before it is held; a free chunk contains its size a
//! second time, at its end.

use super::layout::{ALIGNMENT, BEFORE_HELD, FAST_MAX, FLAGS, IS_MAPPED};
use crate::memory::resident_words::Words;

/// The place of a heap's chunks, and their last element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) ends: Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The last chunk is the arena's top, at this address.
    Top(u64),
    /// The last chunk is the top, at any address.
    SomeTop,
    /// The last element is a fence: the arena has a later heap.
    Fence,
}

/// The result of the walk through a heap.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) used: u64,
    /// The begin and the end of free chunks, with the top.
    pub(super) free: Vec<(u64, u64)>,
    pub(super) top: Option<u64>,
    /// Chunks that are marked as held and may be in a fast bin, by their address.
    pub(super) small: Vec<Small>,
}

/// `link`: the next chunk, if this one is in a fast bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Small {
    pub(super) at: u64,
    pub(super) size: u64,
    pub(super) link: u64,
}

impl Tally {
    pub(super) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|(start, end)| end - start).sum()
    }
}

struct Chunk {
    at: u64,
    size: u64,
    before_held: bool,
}

/// Fast bins hold few chunks. This many chunks are remembered as possible members, with 24 bytes each here; further ones count as held.
const MOST_SMALL: usize = 1 << 18;

/// `None`: the heap does not verify.
pub(super) fn walk(words: &mut dyn Words, shape: Shape, mixes_links: bool) -> Option<Tally> {
    let mut tally = Tally::default();
    let mut chunk = chunk(words, shape.first, shape.end)?;
    chunk.before_held.then_some(())?;
    loop {
        let end = chunk.at + chunk.size;
        if is_last(&chunk, shape) {
            return last(chunk, shape, tally);
        }
        if end >= shape.end || shape.ends == Ends::Top(chunk.at) {
            return None;
        }
        let small = small(words, &chunk, mixes_links);
        let size_before = words.word(end)?;
        let next = self::chunk(words, end, shape.end)?;
        if next.before_held {
            let has_room = tally.small.len() < MOST_SMALL;
            tally.used += chunk.size;
            tally.small.extend(small.filter(|_| has_room));
        } else {
            (size_before == chunk.size).then_some(())?;
            tally.free.push((chunk.at, end));
        }
        chunk = next;
    }
}

fn chunk(words: &mut dyn Words, at: u64, end: u64) -> Option<Chunk> {
    let word = words.word(at + 8)?;
    let size = word & !FLAGS;
    let is_sane = word & IS_MAPPED == 0 && size.is_multiple_of(ALIGNMENT) && size <= end.checked_sub(at)?;
    // a fence has no size
    let is_fence = size == 0 && end - at == ALIGNMENT;
    (is_sane && (size > 0 || is_fence)).then_some(Chunk { at, size, before_held: word & BEFORE_HELD != 0 })
}

fn is_last(chunk: &Chunk, shape: Shape) -> bool {
    chunk.size == 0 || chunk.at + chunk.size == shape.end
}

fn last(chunk: Chunk, shape: Shape, mut tally: Tally) -> Option<Tally> {
    let is_right = match shape.ends {
        Ends::Top(top) => chunk.at == top,
        Ends::SomeTop => chunk.size > 0,
        Ends::Fence => chunk.size == 0,
    };
    // no free chunk is before the top: it would be merged with the top
    (is_right && chunk.before_held).then_some(())?;
    if chunk.size == 0 {
        tally.used += ALIGNMENT;
    } else {
        tally.top = Some(chunk.at);
        tally.free.push((chunk.at, shape.end));
    }
    Some(tally)
}

fn small(words: &mut dyn Words, chunk: &Chunk, mixes_links: bool) -> Option<Small> {
    ((2 * ALIGNMENT..=FAST_MAX).contains(&chunk.size)).then_some(())?;
    let at = chunk.at + 16;
    let word = words.word(at)?;
    let link = if mixes_links { word ^ (at >> 12) } else { word };
    link.is_multiple_of(ALIGNMENT).then_some(Small { at: chunk.at, size: chunk.size, link })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Made(BTreeMap<u64, u64>);

    impl Words for Made {
        fn word(&mut self, at: u64) -> Option<u64> {
            Some(self.0.get(&at).copied().unwrap_or(0))
        }
    }

    /// A heap of chunks from address 4096 on, given by their sizes with flags. Each chunk's size is also written at its end, as after a free chunk.
    fn made(chunks: &[u64]) -> Made {
        let (mut at, mut words) = (4096, BTreeMap::new());
        for chunk in chunks {
            words.insert(at + 8, *chunk);
            let size = chunk & !FLAGS;
            words.insert(at + size, size);
            at += size;
        }
        Made(words)
    }

    fn walked(chunks: &[u64], end: u64, ends: Ends) -> Option<(u64, u64)> {
        let tally = walk(&mut made(chunks), Shape { first: 4096, end, ends }, true)?;
        Some((tally.used, tally.free_bytes()))
    }

    #[test]
    fn held_and_free_chunks_are_told_by_the_next_one() {
        let chunks = [0x291, 0x101, 0x40, 0xc31];
        assert_eq!(walked(&chunks, 4096 + 0x1000, Ends::SomeTop), Some((0x290 + 0x40, 0x100 + 0xc30)));
        assert_eq!(walked(&chunks, 4096 + 0x1000, Ends::Top(4096 + 0x3d0)), Some((0x2d0, 0xd30)));
        assert_eq!(walked(&chunks, 4096 + 0x1000, Ends::Top(4096 + 0x390)), None, "another top");
        assert_eq!(walked(&chunks, 4096 + 0xff0, Ends::SomeTop), None, "beyond its end");
        assert_eq!(walked(&chunks, 4096 + 0x1010, Ends::SomeTop), None, "before its end");
        assert_eq!(walked(&[0x291, 0x108, 0x31], 4096 + 0x3c0, Ends::SomeTop), None, "no size");
    }

    #[test]
    fn an_earlier_heap_ends_with_a_fence() {
        let chunks = [0x41, 0xfa1, 0x10, 0x1];
        assert_eq!(walked(&chunks, 4096 + 0x1000, Ends::Fence), Some((0x40 + 0x10 + 0x10, 0xfa0)));
        assert_eq!(walked(&chunks, 4096 + 0x1000, Ends::SomeTop), None);
    }

    #[test]
    fn a_free_chunk_must_say_its_size_twice() {
        let mut words = made(&[0x291, 0x101, 0x40, 0xc31]);
        words.0.insert(4096 + 0x390, 0x90);
        assert_eq!(walk(&mut words, Shape { first: 4096, end: 8192, ends: Ends::SomeTop }, true), None);
    }
}
