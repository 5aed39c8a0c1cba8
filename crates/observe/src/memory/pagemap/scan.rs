// SPDX-License-Identifier: Apache-2.0
//! The ioctl PAGEMAP_SCAN, of Linux 6.7 and later: it skips pages that were never touched.

use crate::memory::reading::Reading;
use std::fs::File;
use std::os::fd::AsRawFd as _;

const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
pub(super) const ZEROS: u64 = 1 << 5;
pub(super) const HUGE: u64 = 1 << 6;
/// `_IOWR('f', 16, struct pm_scan_arg)`
const REQUEST: u32 = 0xc060_6610;
/// A call ends after this many matching pages, and after this many bytes.
const MOST_PAGES: u64 = super::SLICE_PAGES;
/// The same for a call that asks only which pages are resident: this takes some nanoseconds a page.
const MOST_IN_RANGES: u64 = 32 * MOST_PAGES;
const MOST_BYTES: u64 = 1 << 30;

/// `struct pm_scan_arg` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Argument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    into: u64,
    into_length: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The first address at or after `start` with a page that is resident or in swap; `end` if there is none. `None`: this kernel does not have the call.
pub(super) fn next_resident(file: &File, start: u64, end: u64, reading: &mut Reading) -> Option<u64> {
    let mut at = start;
    while at < end {
        let mut found = [Region::default(); 1];
        let (count, walked) = call(file, (at, end), 1, PRESENT | SWAPPED, &mut found, reading)?;
        if count > 0 {
            return Some(found[0].start);
        }
        at = walked.max(at + 1);
    }
    Some(end)
}

/// The ranges of resident pages; `None`: this kernel does not have the call, or the budget is used up.
pub(super) fn ranges(file: &File, start: u64, end: u64, reading: &mut Reading) -> Option<Vec<(u64, u64)>> {
    let (mut at, mut ranges) = (start, Vec::new());
    while at < end {
        reading.admits(0).then_some(())?;
        let mut found = [Region::default(); 64];
        let (count, walked) = call(file, (at, end), MOST_IN_RANGES, PRESENT, &mut found, reading)?;
        ranges.extend(found.iter().take(count).map(|it| (it.start, it.end)));
        at = walked.max(at + 1);
    }
    Some(ranges)
}

/// Whether more than `bytes` are resident; `None`: as above.
pub(super) fn has_more_than(file: &File, (start, end): (u64, u64), bytes: u64, reading: &mut Reading) -> Option<bool> {
    let (mut at, mut sum) = (start, 0);
    while at < end && sum <= bytes {
        reading.admits(0).then_some(())?;
        let mut found = [Region::default(); 64];
        let (count, walked) = call(file, (at, end), MOST_IN_RANGES, PRESENT, &mut found, reading)?;
        sum += found.iter().take(count).map(|it| it.end - it.start).sum::<u64>();
        at = walked.max(at + 1);
    }
    Some(sum > bytes)
}

/// The number of pages of this category; 0 also when this kernel does not have the call.
pub(super) fn pages(file: &File, start: u64, end: u64, category: u64, reading: &mut Reading) -> u64 {
    let (mut at, mut sum, page) = (start, 0, crate::memory::page_bytes());
    while at < end && reading.admits(0) {
        let mut found = [Region::default(); 64];
        let Some((count, walked)) = call(file, (at, end), MOST_PAGES, category, &mut found, reading) else {
            break;
        };
        sum += found.iter().take(count).map(|it| (it.end - it.start) / page).sum::<u64>();
        at = walked.max(at + 1);
    }
    sum
}

/// The number of found regions, and the address at which the walk ended.
fn call(
    file: &File,
    (start, end): (u64, u64),
    max_pages: u64,
    any_of: u64,
    into: &mut [Region],
    reading: &mut Reading,
) -> Option<(usize, u64)> {
    let mut argument = Argument {
        size: size_of::<Argument>() as u64,
        start,
        end: end.min(start.saturating_add(MOST_BYTES)),
        into: into.as_mut_ptr() as u64,
        into_length: into.len() as u64,
        max_pages,
        any_of,
        told: any_of,
        ..Argument::default()
    };
    // SAFETY: the kernel reads and writes the argument, and writes at most `into_length` regions to `into`; both live until the call returns.
    let count = reading.hold("pagemap", || unsafe { libc::ioctl(file.as_raw_fd(), REQUEST as _, &raw mut argument) });
    Some((usize::try_from(count).ok()?, argument.walk_end))
}
