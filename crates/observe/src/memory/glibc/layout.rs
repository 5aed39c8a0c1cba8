// SPDX-License-Identifier: Apache-2.0
//! Where glibc keeps what (malloc/malloc.c and malloc/arena.c), on machines of 64 bit.

/// A heap of an arena of threads begins at a multiple of this, and is no longer.
pub(super) const HEAP_MAX: u64 = 64 << 20;
/// In a chunk's size: the chunk before it is held.
pub(super) const BEFORE_HELD: u64 = 1;
/// In a chunk's size: it is a mapping of its own.
pub(super) const IS_MAPPED: u64 = 2;
pub(super) const FLAGS: u64 = 7;
/// Chunks lie at multiples of this.
pub(super) const ALIGNMENT: u64 = 16;
/// The largest chunk that a fast bin takes.
pub(super) const FAST_MAX: u64 = 176;

/// Offsets in the arena's structure, `malloc_state`.
pub(super) const FAST_BINS: u64 = 16;
pub(super) const FAST_BIN_COUNT: u64 = 10;
pub(super) const TOP: u64 = 96;
pub(super) const SYSTEM_BYTES: u64 = 2184;
const ARENA_BYTES: u64 = 2200;

/// What differs between versions, from and to which minor number of glibc 2 it is so.
pub(super) struct Layout {
    since: u32,
    until: u32,
    /// `sizeof(heap_info)`
    pub(super) info_bytes: u64,
    /// A free chunk's link is mixed with its own address.
    pub(super) mixes_links: bool,
}

const LAYOUTS: [Layout; 3] = [
    Layout { since: 27, until: 31, info_bytes: 32, mixes_links: false },
    Layout { since: 32, until: 34, info_bytes: 32, mixes_links: true },
    Layout { since: 35, until: 41, info_bytes: 48, mixes_links: true },
];

impl Layout {
    /// By `glibc 2.36`. `None`: of this version it is not known.
    pub(super) fn of(allocator: &str) -> Option<&'static Self> {
        let minor: u32 = allocator.strip_prefix("glibc 2.")?.parse().ok()?;
        LAYOUTS.iter().find(|layout| (layout.since..=layout.until).contains(&minor))
    }

    /// The first chunk of an arena, which lies in its first heap, behind its structure; a chunk's memory begins 16 bytes after it, aligned.
    pub(super) fn first_chunk(&self, arena: u64) -> u64 {
        (arena + ARENA_BYTES).next_multiple_of(ALIGNMENT)
    }
}

/// The head of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeapInfo {
    pub(super) start: u64,
    pub(super) arena: u64,
    /// 0 for the arena's first one.
    pub(super) previous: u64,
    pub(super) size: u64,
}

impl HeapInfo {
    /// `None`: no heap begins here, it only happens to be aligned.
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
