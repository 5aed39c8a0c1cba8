// SPDX-License-Identifier: Apache-2.0
//! `/proc/PID/pagemap` (kernel, admin-guide/mm/pagemap.rst), 2 MiB at a time: for each such slice the kernel locks the address space, and unlocks it
//! after the slice.

mod scan;
mod shared;

use super::page_counts::PageCounts;
use super::reading::Reading;
use ledger::Mapping;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const SLICE: usize = 512;
const SLICE_PAGES: u64 = SLICE as u64;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;
/// The bits of the frame's number; zero for a reader without CAP_SYS_ADMIN.
const FRAME: u64 = (1 << 55) - 1;

/// The resident memory of a mapping, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resident {
    pub(super) rss: u64,
    pub(super) pss: u64,
    /// Memory that is neither of a file nor shared memory.
    pub(super) anonymous: u64,
    pub(super) swap: u64,
    /// Memory that only this process maps.
    pub(super) exclusive: u64,
    pub(super) huge: u64,
    /// Shared memory for which the number of sharing processes is not known.
    pub(super) of_unknown_share: u64,
}

/// How the pages of a mapping are added up.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// Most of the mapping is not resident: first ask the kernel where resident pages are.
    pub(super) sparse: bool,
    /// Transparent huge pages may be in it.
    pub(super) may_be_huge: bool,
    /// The assumed number of processes that share a shared page, if the kernel does not show the number to this user.
    pub(super) sharers: u64,
}

/// Of a page of this process: whether this kernel has the ioctl PAGEMAP_SCAN, and whether it shows the page's frame to this user.
pub(super) fn of_own_page(file: &File, page: u64, reading: &mut Reading) -> (bool, bool) {
    let page_bytes = super::page_bytes();
    let has_ranges = scan::ranges(file, page, page + page_bytes, reading).is_some();
    let mut word = [0; 8];
    let shows_frame = file.read_exact_at(&mut word, page / page_bytes * 8).is_ok();
    (has_ranges, shows_frame && u64::from_ne_bytes(word) & FRAME != 0)
}

/// Adds up the pages of a mapping. `None`: they cannot be read, or the budget is used up.
pub(super) fn of_mapping(file: &File, mapping: &Mapping, way: Way, reading: &mut Reading) -> Option<Resident> {
    let shared = if mapping.end - mapping.start > LARGE { shared::resident(file, mapping, reading) } else { None };
    shared.or_else(|| resident(file, mapping.start, mapping.end, way, reading))
}

/// From this size on, memory that several processes share is read only once.
const LARGE: u64 = 8 << 20;

/// Adds up the pages from `start` to `end`. `None`: as above.
pub(super) fn resident(file: &File, start: u64, end: u64, way: Way, reading: &mut Reading) -> Option<Resident> {
    let mut sum = Resident::default();
    let mut pss = 0;
    each_slice(file, start, end, way.sparse, reading, &mut |entries, at, reading| {
        reading.counts.keep(counted_frames(entries));
        entries.iter().for_each(|entry| pss += add(*entry, way.sharers, &mut sum, &reading.counts));
        let is_full = entries.len() as u64 == SLICE_PAGES && entries.iter().all(|entry| entry & PRESENT != 0);
        if way.may_be_huge && is_full {
            let end = at + SLICE_PAGES * super::page_bytes();
            sum.huge += scan::pages(file, at, end, scan::HUGE, reading) * super::page_bytes();
        }
    })?;
    sum.pss = pss / SHARE;
    if sum.of_unknown_share > 0 && sum.anonymous > 0 {
        without_zeros(file, start, end, way.sharers, &mut sum, reading);
    }
    Some(sum)
}

/// The fractions of a byte in which shares of pages are added up.
const SHARE: u64 = 4096;

/// Adds one page to the sums. Returns the page's share, in fractions of a byte.
fn add(entry: u64, sharers: u64, sum: &mut Resident, counts: &PageCounts) -> u64 {
    let page = super::page_bytes();
    if entry & PRESENT == 0 {
        sum.swap += if entry & SWAPPED == 0 { 0 } else { page };
        return 0;
    }
    let sharers = exact_count(entry, |frame| counts.of(frame)).map_or_else(
        || {
            sum.of_unknown_share += page;
            sharers.max(1)
        },
        u64::from,
    );
    if sharers == 0 {
        return 0;
    }
    sum.rss += page;
    sum.exclusive += if entry & EXCLUSIVE == 0 { 0 } else { page };
    sum.anonymous += if entry & OF_FILE == 0 { page } else { 0 };
    page * SHARE / sharers
}

/// The number of processes that map a resident page; 0 for a page that is not counted for any. `None`: not known to this user.
fn exact_count(entry: u64, count: impl Fn(u64) -> Option<u16>) -> Option<u16> {
    if entry & EXCLUSIVE == 0 { count(entry & FRAME) } else { Some(1) }
}

/// The frames of resident pages whose counts the entries do not tell.
fn counted_frames(entries: &[u64]) -> impl Iterator<Item = u64> {
    let is_counted = |entry: &&u64| *entry & PRESENT != 0 && *entry & EXCLUSIVE == 0;
    entries.iter().filter(is_counted).map(|entry| entry & FRAME)
}

/// Removes the page of zeros, which pagemap shows as resident, and which the kernel does not count.
fn without_zeros(file: &File, start: u64, end: u64, sharers: u64, sum: &mut Resident, reading: &mut Reading) {
    let zeros = scan::pages(file, start, end, scan::ZEROS, reading) * super::page_bytes();
    let zeros = zeros.min(sum.of_unknown_share).min(sum.anonymous);
    sum.rss -= zeros;
    sum.anonymous -= zeros;
    sum.of_unknown_share -= zeros;
    sum.pss = sum.pss.saturating_sub(zeros / sharers.max(1));
}

type Each<'a> = &'a mut dyn FnMut(&[u64], u64, &mut Reading);

/// Passes the entries of each slice to `each`, with the slice's address.
fn each_slice(file: &File, start: u64, end: u64, sparse: bool, reading: &mut Reading, each: Each) -> Option<()> {
    let mut at = start;
    while at < end {
        if sparse && let Some(next) = scan::next_resident(file, at, end, reading) {
            at = next;
        }
        let until = end.min((at / SLICE_BYTES + 1) * SLICE_BYTES);
        if at < until {
            let mut entries = [0; SLICE];
            each(slice(file, at, until, &mut entries, reading)?, at, reading);
        }
        at = until;
        reading.admits(0).then_some(())?;
    }
    Some(())
}

const SLICE_BYTES: u64 = 2 << 20;

/// The ranges of resident pages; of huge pages, only the first word of each is read. `None`: as above.
pub(super) fn present(
    file: &File,
    (start, end): (u64, u64),
    page_bytes: u64,
    reading: &mut Reading,
) -> Option<Vec<(u64, u64)>> {
    scan::ranges(file, start, end, reading).or_else(|| words(file, (start, end), page_bytes, reading))
}

/// The ranges of resident pages of any mapping; `None`: as above, or without the ioctl it is longer than `most_in_words`.
pub(super) fn present_of_any_length(
    file: &File,
    (start, end): (u64, u64),
    most_in_words: u64,
    reading: &mut Reading,
) -> Option<Vec<(u64, u64)>> {
    let by_words = |reading: &mut Reading| words(file, (start, end), super::page_bytes(), reading);
    let ranges = scan::ranges(file, start, end, reading);
    ranges.or_else(|| if end - start <= most_in_words { by_words(reading) } else { None })
}

/// Whether more than `bytes` of a mapping are resident. `None`: this kernel does not have the ioctl, or the budget is used up.
pub(super) fn has_more_than(file: &File, mapping: &Mapping, bytes: u64, reading: &mut Reading) -> Option<bool> {
    scan::has_more_than(file, (mapping.start, mapping.end), bytes, reading)
}

/// Without the ioctl.
fn words(file: &File, (start, end): (u64, u64), page_bytes: u64, reading: &mut Reading) -> Option<Vec<(u64, u64)>> {
    let (mut ranges, page) = (Vec::new(), super::page_bytes());
    if page_bytes >= SLICE_BYTES {
        for at in (start..end).step_by(usize::try_from(page_bytes).ok()?) {
            let mut entry = [0; SLICE];
            let is_present = slice(file, at, at + page, &mut entry, reading)?[0] & PRESENT != 0;
            ranges.extend(is_present.then_some((at, at + page_bytes)));
        }
        return reading.admits(0).then_some(ranges);
    }
    each_slice(file, start, end, false, reading, &mut |entries, at, _| {
        let present = (0..).zip(entries).filter(|(_, entry)| **entry & PRESENT != 0);
        ranges.extend(present.map(|(nth, _)| (at + nth * page, at + (nth + 1) * page)));
    })?;
    Some(ranges)
}

fn slice<'a>(file: &File, at: u64, until: u64, into: &'a mut [u64], reading: &mut Reading) -> Option<&'a [u64]> {
    let page = super::page_bytes();
    let length = usize::try_from((until - at) / page).ok()?;
    let mut bytes = [0; SLICE * 8];
    let bytes = bytes.get_mut(..length * 8)?;
    reading.hold("pagemap", || file.read_exact_at(bytes, at / page * 8)).ok()?;
    let into = into.get_mut(..length)?;
    into.iter_mut().zip(bytes.as_chunks::<8>().0).for_each(|(into, word)| *into = u64::from_ne_bytes(*word));
    Some(into)
}

/// For each page of a range, whether it is resident.
pub(super) struct Presence {
    start: u64,
    pages: Vec<bool>,
}

impl Presence {
    /// Of all pages that the range touches. `None`: as for [`resident`].
    pub(super) fn read(file: &File, start: u64, end: u64, reading: &mut Reading) -> Option<Self> {
        let page = super::page_bytes();
        let (start, end) = (start / page * page, end.checked_next_multiple_of(page)?);
        let mut pages = Vec::new();
        each_slice(file, start, end, false, reading, &mut |entries, _, _| {
            pages.extend(entries.iter().map(|entry| entry & PRESENT != 0));
        })?;
        Some(Self { start, pages })
    }

    pub(super) fn has(&self, address: u64) -> bool {
        let page = address.checked_sub(self.start).map(|offset| offset / super::page_bytes());
        page.and_then(|page| self.pages.get(usize::try_from(page).ok()?)).copied().unwrap_or(false)
    }

    /// Bytes of resident pages from `start` to `end`.
    pub(super) fn resident(&self, start: u64, end: u64) -> u64 {
        let page = super::page_bytes();
        let (mut at, mut sum) = (start, 0);
        while at < end {
            let until = end.min((at / page + 1) * page);
            sum += if self.has(at) { until - at } else { 0 };
            at = until;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Options;

    /// Blocks of malloc begin and end anywhere in a page.
    #[test]
    fn a_range_within_pages_counts_to_its_last_byte() {
        let page = super::super::page_bytes();
        let memory = vec![7_u8; 40 * 4096];
        let start = memory.as_ptr() as u64 + 100;
        let file = File::open("/proc/self/pagemap").expect("opens");
        let mut reading = Reading::begin(Options::default());
        for length in [1, page - 1, page + 1, 20 * page + 77] {
            let presence = Presence::read(&file, start, start + length, &mut reading).expect("reads");
            assert_eq!(presence.resident(start, start + length), length);
        }
    }
}
