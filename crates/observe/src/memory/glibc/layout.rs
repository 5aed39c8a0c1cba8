// SPDX-License-Identifier: Apache-2.0
//! The places of glibc's fields (malloc/malloc.c and malloc/arena.c), on 64-bit machines.

/// A heap of a thread's arena begins at a multiple of this, and is no longer than this.
pub(super) const HEAP_MAX: u64 = 64 << 20;
/// The flag in a chunk's size that the chunk before it is held.
pub(super) const BEFORE_HELD: u64 = 1;
/// The flag in a chunk's size that the chunk is a mapping of its own.
pub(super) const IS_MAPPED: u64 = 2;
pub(super) const FLAGS: u64 = 7;
/// The addresses of chunks are multiples of this.
pub(super) const ALIGNMENT: u64 = 16;
/// The largest chunk that a fast bin takes.
pub(super) const FAST_MAX: u64 = 176;

/// Offsets in the arena's structure, `malloc_state`.
pub(super) const FAST_BINS: u64 = 16;
pub(super) const FAST_BIN_COUNT: u64 = 10;
pub(super) const TOP: u64 = 96;
pub(super) const SYSTEM_BYTES: u64 = 2184;
const ARENA_BYTES: u64 = 2200;

/// The fields that differ between versions, with the first and the last minor number of glibc 2 for which they hold.
pub(super) struct Layout {
    since: u32,
    until: u32,
    /// `sizeof(heap_info)`
    pub(super) info_bytes: u64,
    /// Whether a free chunk's link is mixed with the chunk's own address.
    pub(super) mixes_links: bool,
}

const LAYOUTS: [Layout; 3] = [
    Layout { since: 27, until: 31, info_bytes: 32, mixes_links: false },
    Layout { since: 32, until: 34, info_bytes: 32, mixes_links: true },
    Layout { since: 35, until: 41, info_bytes: 48, mixes_links: true },
];

impl Layout {
    /// The layout of `glibc 2.36` and others. `None`: it is not known for this version.
    pub(super) fn of(allocator: &str) -> Option<&'static Self> {
        let minor: u32 = allocator.strip_prefix("glibc 2.")?.parse().ok()?;
        LAYOUTS.iter().find(|layout| (layout.since..=layout.until).contains(&minor))
    }

    /// The first chunk of an arena. It is in the arena's first heap, after the arena's structure, at an address so that the chunk's memory, 16 bytes
    /// later, is aligned.
    pub(super) fn first_chunk(&self, arena: u64) -> u64 {
        (arena + ARENA_BYTES).next_multiple_of(ALIGNMENT)
    }
}

/// The head of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeapInfo {
    pub(super) start: u64,
    pub(super) arena: u64,
    /// The arena's previous heap; 0 for the first one.
    pub(super) previous: u64,
    pub(super) size: u64,
}

impl HeapInfo {
    /// `None`: no heap begins here; the address is only aligned like one.
    pub(super) fn read(word: &mut dyn FnMut(u64) -> Option<u64>, start: u64, layout: &Layout) -> Option<Self> {
        let (arena, previous, size, writable) = (word(start)?, word(start + 8)?, word(start + 16)?, word(start + 24)?);
        let is_size = |size: u64| size.is_multiple_of(4096) && (4096..=HEAP_MAX).contains(&size);
        let is_first = previous == 0 && arena == start + layout.info_bytes;
        let is_later = previous != 0 && previous.is_multiple_of(HEAP_MAX) && arena % HEAP_MAX == layout.info_bytes;
        let is_heap = is_size(size) && is_size(writable) && size <= writable && (is_first || is_later);
        is_heap.then_some(Self { start, arena, previous, size })
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_have_a_layout() {
        let known = |name| Layout::of(name).map(|it| it.info_bytes);
        assert_eq!((known("glibc 2.31"), known("glibc 2.36"), known("glibc 2.41")), (Some(32), Some(48), Some(48)));
        assert_eq!((known("glibc 2.43"), known("glibc"), known("jemalloc")), (None, None, None));
        assert_eq!(Layout::of("glibc 2.36").unwrap().first_chunk(0x30), 0x8d0);
        assert_eq!(Layout::of("glibc 2.31").unwrap().first_chunk(0x20), 0x8c0);
    }

    #[test]
    fn what_only_happens_to_be_aligned_is_no_heap() {
        let layout = Layout::of("glibc 2.36").unwrap();
        let read = |words: [u64; 4]| {
            HeapInfo::read(
                &mut |at| words.get(usize::try_from((at - HEAP_MAX) / 8).unwrap()).copied(),
                HEAP_MAX,
                layout,
            )
        };
        let arena = HEAP_MAX + 48;
        let heap = HeapInfo { start: HEAP_MAX, arena, previous: 0, size: 8192 };
        assert_eq!(read([arena, 0, 8192, 12288]), Some(heap));
        assert_eq!(
            (read([0, 0, 8192, 8192]), read([arena, 0, 8191, 8192]), read([arena, 0, 8192, 4096])),
            (None, None, None)
        );
    }
}
