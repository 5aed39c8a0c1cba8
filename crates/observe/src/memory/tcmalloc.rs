// SPDX-License-Identifier: Apache-2.0
//! Free memory that gperftools' tcmalloc keeps in its page heap, read from outside, without stopping any thread.
//!
//! | module | what it has |
//! | --- | --- |
//! | `page_heap` | the places of tcmalloc's fields, and the free spans |
//!
//! No version is asked for: the page heap is found in the library's data by its statistics, whose figures must agree, and its free spans must add up to
//! what the statistics say. It changes while it is read, so it is read again when they do not. Free blocks in the caches of threads and of
//! sizes lie in spans that are in use, and count as held.

mod page_heap;

use super::reading::Reading;
use super::resident_words::{Scattered, Window, Words as _};
use super::target::Target;
use ledger::{HeapWalk, Mapping};
use page_heap::{Range, Statistics, free_spans};

const WHAT: &str = "free memory of malloc";
const TRIES: u32 = 3;

/// `at`: where the page heap's statistics were the last time. `None`: an entry in `reading` has the reason.
pub(super) fn walk(
    target: &Target,
    mappings: &[Mapping],
    at: &mut Option<u64>,
    reading: &mut Reading,
) -> Option<HeapWalk> {
    if !target.has_memory(WHAT, reading) {
        return None;
    }
    *at = at.filter(|at| statistics(target, *at, reading).is_some()).or_else(|| find(target, mappings, reading));
    let most = mapped(mappings);
    let once = |at: u64, reading: &mut Reading| once(target, at, most, reading).filter(|_| target.is_alive());
    let walked = at.and_then(|at| (0..TRIES).find_map(|_| once(at, reading)));
    if walked.is_none() {
        let why = match (reading.admits(0), at) {
            (false, _) => "to read it would hold the server longer than the budget admits",
            (true, None) => "the page heap of tcmalloc was not found in the library's data",
            (true, Some(_)) => "the page heap of tcmalloc does not verify: it is in swap, or changed while it was read",
        };
        let remedy = (!reading.admits(0)).then(|| reading.remedy());
        reading.missing(WHAT, why, remedy);
    }
    walked
}

/// All memory that malloc may have: more cannot be free.
fn mapped(mappings: &[Mapping]) -> u64 {
    let anonymous = mappings.iter().filter(|it| it.permissions == "rw-p" && it.inode == 0);
    anonymous.map(|it| it.end - it.start).sum()
}

fn once(target: &Target, at: u64, most: u64, reading: &mut Reading) -> Option<HeapWalk> {
    let before = statistics(target, at, reading)?;
    let mut spans = free_spans(&mut Scattered::of(target, reading), at)?;
    let now = statistics(target, at, reading)?;
    let free = spans.iter().try_fold(0_u64, |sum, (start, end)| sum.checked_add(end - start))?;
    let is_told = (before.free.min(now.free)..=before.free.max(now.free)).contains(&free);
    (is_told && free <= most).then_some(())?;
    spans.sort_unstable();
    let resident: Option<Vec<u64>> = spans.iter().map(|span| resident(target, *span, reading)).collect();
    let used = now.committed.saturating_sub(free);
    let free_resident: u64 = resident?.into_iter().sum();
    Some(HeapWalk {
        layout: HeapWalk::PAGE_HEAP.to_owned(),
        arenas: 1,
        used,
        free,
        free_resident,
        ..HeapWalk::default()
    })
}

fn resident(target: &Target, (start, end): Range, reading: &mut Reading) -> Option<u64> {
    Some(target.presence(start, end, reading)?.resident(start, end))
}

fn statistics(target: &Target, at: u64, reading: &mut Reading) -> Option<Statistics> {
    Statistics::read(&mut Scattered::of(target, reading), at)
}

/// Searches the library's data, and the zeroed data that follow them, for the statistics.
fn find(target: &Target, mappings: &[Mapping], reading: &mut Reading) -> Option<u64> {
    let is_data = |it: &Mapping| it.permissions.starts_with("rw");
    let of_library = mappings.windows(2).filter(|pair| is_library(&pair[0]) && is_data(&pair[0]));
    let with_zeroed = of_library.map(|pair| {
        let goes_on = pair[1].start == pair[0].end && pair[1].path.is_empty() && is_data(&pair[1]);
        (pair[0].start, if goes_on { pair[1].end } else { pair[0].end })
    });
    let parts: Vec<Range> = with_zeroed.collect();
    parts.into_iter().find_map(|part| find_in(target, part, reading))
}

fn find_in(target: &Target, (start, end): Range, reading: &mut Reading) -> Option<u64> {
    let mut window = Window::of(target, start, end, reading)?;
    let page = super::page_bytes();
    let last = end.checked_sub(8 * Statistics::WORDS)?;
    let mut at = start;
    while at <= last {
        match window.word(at) {
            // no word of this page is there
            None => at = (at / page + 1) * page,
            Some(_) => match Statistics::read(&mut window, at) {
                Some(_) => return Some(at),
                None => at += 8,
            },
        }
    }
    None
}

/// `libtcmalloc.so.4`, `libtcmalloc_minimal.so.4`, and those with a profiler.
fn is_library(mapping: &Mapping) -> bool {
    super::elf::file_name(&mapping.path).starts_with("libtcmalloc")
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests;
