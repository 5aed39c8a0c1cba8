// SPDX-License-Identifier: Apache-2.0
//! The number of mappings of each page of the machine: `/proc/kpagecount` (kernel, admin-guide/mm/pagemap.rst). Only root may read it. Reading it
//! holds no process.
//!
//! Pages that are neighbours in a process lie anywhere in the machine. The kernel takes some 50 ns for each count, and half a microsecond for each
//! call: so counts are read of the wanted pages, and of those between two wanted ones only where the gap is small.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A call for the next frame takes as long as so many counts.
const GAP: u64 = 10;
/// The number of frames whose counts are read at once, at most.
const MOST: usize = 512;
/// So many counts are kept at most.
const MOST_KNOWN: usize = 1 << 20;

/// The counts of frames, by the frames' numbers in the machine.
pub(super) type Counts = HashMap<u64, u16>;

/// Counts that were read are kept during the whole reading of a server: its processes share most of their shared pages.
pub(super) struct PageCounts {
    file: Option<File>,
    known: Counts,
    /// The counts of memory that several processes share, by the device and the inode of that memory.
    pub(super) of_shared: HashMap<(String, u64), OfShared>,
}

/// The counts of the pages of one file or shared memory, by the number of a slice in it; `None`: the page was not seen yet.
pub(super) type OfShared = HashMap<u64, Box<[Option<u16>]>>;

impl PageCounts {
    pub(super) fn open() -> Self {
        Self { file: File::open("/proc/kpagecount").ok(), known: Counts::new(), of_shared: HashMap::new() }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.file.is_some()
    }

    /// `frame`: one that was passed to [`Self::keep`]. 0: the page is not counted for any process, like the page of zeros. `None`: not known.
    pub(super) fn of(&self, frame: u64) -> Option<u16> {
        self.known.get(&frame).copied()
    }

    /// Reads the counts of these frames, and keeps them.
    pub(super) fn keep(&mut self, frames: impl Iterator<Item = u64>) {
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        let unknown = frames.filter(|frame| !self.known.contains_key(frame)).collect();
        let read = self.read(unknown);
        self.known.extend(read);
    }

    /// Reads the counts of these frames. Frame 0 is what a user without the right to see frames gets.
    pub(super) fn read(&self, mut frames: Vec<u64>) -> Counts {
        let mut counts = Counts::new();
        let Some(file) = &self.file else { return counts };
        frames.retain(|frame| *frame > 0);
        frames.sort_unstable();
        let mut rest = &frames[..];
        while let Some((run, after)) = first_run(rest) {
            read_run(file, run, &mut counts);
            rest = after;
        }
        counts
    }
}

/// The first frames that are read in one call, and the others.
fn first_run(frames: &[u64]) -> Option<(&[u64], &[u64])> {
    let first = *frames.first()?;
    let is_next = |pair: &&[u64]| pair[1] - pair[0] <= GAP && pair[1] - first < MOST as u64;
    let more = frames.windows(2).take_while(is_next).count();
    frames.split_at_checked(more + 1)
}

/// The counts of a run, which ends earlier at the end of memory.
fn read_run(file: &File, run: &[u64], into: &mut Counts) {
    let ([first, .., last] | [first @ last]) = run else { return };
    let mut bytes = [0; MOST * 8];
    let Some(bytes) = usize::try_from(last - first).ok().and_then(|more| bytes.get_mut(..(more + 1) * 8)) else {
        return;
    };
    let read = file.read_at(bytes, first * 8).unwrap_or(0);
    let (words, _) = bytes[..read].as_chunks::<8>();
    let count = |frame: &u64| words.get(usize::try_from(frame - first).ok()?).map(|word| u64::from_ne_bytes(*word));
    let capped = |count| u16::try_from(count).unwrap_or(u16::MAX);
    into.extend(run.iter().filter_map(|frame| Some((*frame, capped(count(frame)?)))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_together_where_they_lie_close() {
        let runs = |frames: &[u64]| {
            let (mut rest, mut lengths) = (frames, Vec::new());
            while let Some((run, after)) = first_run(rest) {
                lengths.push(run.len());
                rest = after;
            }
            lengths
        };
        assert_eq!(runs(&[7, 8, 8 + GAP, 9 + 2 * GAP, 9 + 2 * GAP]), [3, 2]);
        assert_eq!(
            runs(&(0..MOST as u64 + 1).collect::<Vec<_>>()),
            [MOST, 1],
            "one call is not longer than the buffer"
        );
        assert!(runs(&[]).is_empty());
    }

    #[test]
    fn the_counts_are_those_of_the_file_and_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let words: Vec<u8> = (0..100_u64).flat_map(|nth| (nth * 1000).to_ne_bytes()).collect();
        let path = folder.path().join("kpagecount");
        #[allow(clippy::disallowed_methods)] // a file of the test's own
        std::fs::write(&path, words).unwrap();
        let mut counts = PageCounts { file: File::open(path).ok(), ..PageCounts::open() };
        let read = counts.read(vec![99, 3, 0, 5, 5, 100, 70]);
        assert_eq!(read, Counts::from([(3, 3000), (5, 5000), (70, u16::MAX), (99, u16::MAX)]));
        counts.keep([4, 4000].into_iter());
        assert_eq!((counts.of(4), counts.of(4000), counts.of(3)), (Some(4000), None, None));
        let unreadable = PageCounts { file: None, ..PageCounts::open() };
        assert!(unreadable.read(vec![1]).is_empty() && !unreadable.is_readable());
    }
}
