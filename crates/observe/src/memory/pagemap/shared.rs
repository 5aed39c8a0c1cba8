// SPDX-License-Identifier: Apache-2.0
//! Memory that many processes of one server share, like PostgreSQL's shared buffers: each of them maps the same pages. The counts of a page are read
//! in the first process that has it; of the others only which pages they have, by the ioctl PAGEMAP_SCAN. It answers with ranges instead of a word
//! for each page, and holds a process for a small part of the time.

use super::{PRESENT, Resident, SHARE, SLICE, SLICE_PAGES, counted_frames, exact_count, scan, slice};
use crate::memory::page_counts::OfShared;
use crate::memory::reading::Reading;
use ledger::Mapping;
use std::fs::File;

/// Adds up the pages of a mapping. `None`: it is not such memory, or this kernel or user has no way to read it so, or the budget is used up.
pub(super) fn resident(file: &File, mapping: &Mapping, reading: &mut Reading) -> Option<Resident> {
    let is_shared = mapping.permissions.ends_with('s') && mapping.inode != 0;
    (is_shared && reading.counts.is_readable()).then_some(())?;
    let ranges = scan::ranges(file, mapping.start, mapping.end, reading)?;
    let key = (mapping.device.clone(), mapping.inode);
    let mut known = reading.counts.of_shared.remove(&key).unwrap_or_default();
    let mut sum = Sum::default();
    let parts = ranges.into_iter().flat_map(|range| parts(mapping, range));
    let whole = parts.map(|part| sum.add(file, &part, &mut known, reading)).all(|added| added.is_some());
    reading.counts.of_shared.insert(key, known);
    whole.then(|| sum.resident())
}

/// A part of a mapping that lies in one slice of the memory that it maps.
struct Part {
    start: u64,
    end: u64,
    slice: u64,
    /// The number of its first page in the slice.
    first: usize,
}

fn parts(mapping: &Mapping, (start, end): (u64, u64)) -> impl Iterator<Item = Part> {
    let page = crate::memory::page_bytes();
    let offset = (mapping.offset + (start - mapping.start)) / page;
    let (from, to) = (offset, offset + (end - start) / page);
    (from / SLICE_PAGES..to.div_ceil(SLICE_PAGES)).map(move |slice| {
        let first = from.max(slice * SLICE_PAGES);
        let last = to.min((slice + 1) * SLICE_PAGES);
        let at = |number: u64| start + (number - from) * page;
        Part { start: at(first), end: at(last), slice, first: usize::try_from(first % SLICE_PAGES).unwrap_or(0) }
    })
}

#[derive(Default)]
struct Sum {
    pages: u64,
    exclusive: u64,
    shares: u64,
}

impl Sum {
    fn add(&mut self, file: &File, part: &Part, known: &mut OfShared, reading: &mut Reading) -> Option<()> {
        let counts = known.entry(part.slice).or_insert_with(|| vec![None; SLICE].into_boxed_slice());
        let length = usize::try_from((part.end - part.start) / crate::memory::page_bytes()).ok()?;
        let counts = counts.get_mut(part.first..part.first + length)?;
        if counts.contains(&None) {
            reading.admits(0).then_some(())?;
            look(file, part, counts, reading)?;
        }
        // a page that is still not known left the process after the scan
        for count in counts.iter().flatten().filter(|count| **count > 0) {
            self.pages += 1;
            self.exclusive += u64::from(*count == 1);
            self.shares += crate::memory::page_bytes() * SHARE / u64::from(*count);
        }
        Some(())
    }

    fn resident(&self) -> Resident {
        let page = crate::memory::page_bytes();
        Resident {
            rss: self.pages * page,
            pss: self.shares / SHARE,
            exclusive: self.exclusive * page,
            ..Resident::default()
        }
    }
}

/// Reads the counts of the pages that the process has.
fn look(file: &File, part: &Part, counts: &mut [Option<u16>], reading: &mut Reading) -> Option<()> {
    let mut entries = [0; SLICE];
    let entries = slice(file, part.start, part.end, &mut entries, reading)?;
    let read = reading.counts.read(counted_frames(entries).collect());
    for (entry, count) in entries.iter().zip(counts).filter(|(entry, _)| **entry & PRESENT != 0) {
        *count = Some(exact_count(*entry, |frame| read.get(&frame).copied())?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Options;
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    const LENGTH: usize = 12 << 20;

    /// Maps a part of the shared memory, and touches every page but each seventh.
    fn touched(memory: &File, offset: u64) -> u64 {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, which nothing else uses; it stays until the test ends.
        let start = unsafe { mmap(std::ptr::null_mut(), LENGTH, protection, flags, memory, offset) }.unwrap();
        for at in (0..LENGTH).step_by(4096).filter(|at| at / 4096 % 7 != 0) {
            // SAFETY: within the mapping.
            unsafe { *start.cast::<u8>().add(at) = 1 };
        }
        start as u64
    }

    #[test]
    fn the_same_memory_in_two_mappings_is_as_smaps_tells() {
        let mut reading = Reading::begin(Options::default());
        if !reading.counts.is_readable() {
            testkit::skip!("needs root");
        }
        let memory = File::from(rustix::fs::memfd_create("shared", rustix::fs::MemfdFlags::empty()).unwrap());
        memory.set_len(LENGTH as u64 + (4 << 20)).unwrap();
        let starts = [touched(&memory, 0), touched(&memory, 4 << 20)];
        let smaps = ledger::mapping::mappings(&std::fs::read_to_string("/proc/self/smaps").unwrap());
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        for start in starts {
            let told = smaps.iter().find(|it| it.start == start).unwrap();
            assert!(told.rss > told.pss && told.pss > 0, "{told:?}");
            let Some(seen) = resident(&pagemap, told, &mut reading) else {
                testkit::skip!("PAGEMAP_SCAN needs Linux 6.7");
            };
            assert!(seen.rss == told.rss && seen.pss.abs_diff(told.pss) < 1024, "{seen:?} {told:?}");
        }
        let calls = |times: usize| {
            let mut reading = Reading::begin(Options::default());
            let told = smaps.iter().find(|it| it.start == starts[0]).unwrap();
            (0..times).for_each(|_| assert!(resident(&pagemap, told, &mut reading).is_some()));
            reading.end().1[0].count
        };
        assert!(calls(2) < 2 * calls(1), "the second time the counts are known, and only the ranges are read");
    }

    /// As on kernels without the ioctl.
    #[test]
    fn words_tell_the_same_pages_as_the_ioctl() {
        const HUGE: u64 = 2 << 20;
        let mut reading = Reading::begin(Options::default());
        let memory = File::from(rustix::fs::memfd_create("words", rustix::fs::MemfdFlags::empty()).unwrap());
        memory.set_len(LENGTH as u64).unwrap();
        let start = touched(&memory, 0);
        let (range, page) = ((start, start + LENGTH as u64), crate::memory::page_bytes());
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let words = super::super::words(&pagemap, range, page, &mut reading).unwrap();
        let expected: Vec<u64> = (0..LENGTH as u64 / page).filter(|nth| nth % 7 != 0).collect();
        assert_eq!(words.iter().map(|it| (it.0 - start) / page).collect::<Vec<_>>(), expected);
        let told = super::super::present(&pagemap, range, page, &mut reading).unwrap();
        assert_eq!(told.iter().map(|it| it.1 - it.0).sum::<u64>(), expected.len() as u64 * page);
        let huge = super::super::words(&pagemap, range, HUGE, &mut reading).unwrap();
        let firsts: Vec<u64> = (0..LENGTH as u64 / HUGE).filter(|nth| nth * 512 % 7 != 0).collect();
        assert_eq!(huge.iter().map(|it| (it.0 - start) / HUGE).collect::<Vec<_>>(), firsts, "only the first of each");
    }

    #[test]
    fn parts_lie_in_one_slice_each() {
        let page = crate::memory::page_bytes();
        let mapping = Mapping { start: 100 * page, end: 2000 * page, offset: 500 * page, ..Mapping::default() };
        let seen: Vec<_> = parts(&mapping, (110 * page, 1200 * page))
            .map(|it| (it.start / page, it.end / page, it.slice, it.first))
            .collect();
        assert_eq!(seen, [(110, 112, 0, 510), (112, 624, 1, 0), (624, 1136, 2, 0), (1136, 1200, 3, 0)]);
    }
}
