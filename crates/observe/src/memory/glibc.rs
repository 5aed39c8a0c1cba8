// SPDX-License-Identifier: Apache-2.0
//! Walks the chunks of glibc's malloc from outside, without stopping any thread: how much of each arena the program holds, and how much is free.
//!
//! | module | what it has |
//! | --- | --- |
//! | `layout` | the places of glibc's fields, by its version |
//! | `chunks` | the walk through one heap |
//! | `arena` | the heaps of one arena, and its fast bins |
//! | `mapped` | large blocks, outside of all arenas |
//!
//! An arena changes while it is read. So each heap must verify (sizes, the sizes before free chunks, its end), and is read again when it does not.
//! Chunks in the threads' caches are counted as held: a few KiB for each thread.

mod arena;
mod chunks;
mod layout;
mod mapped;

use super::process_files::lossy;
use super::reading::Reading;
use super::resident_words::{Scattered, Window, Words as _};
use super::target::Target;
use arena::{Arena, Walked};
use layout::{HEAP_MAX, HeapInfo, Layout};
use ledger::{HeapWalk, Mapping};
use std::collections::BTreeMap;

const TRIES: u32 = 3;

/// `None`: an entry in `reading` has the reason.
pub(super) fn walk(target: &Target, mappings: &[Mapping], allocator: &str, reading: &mut Reading) -> Option<HeapWalk> {
    let layout = readable(target, "free memory of malloc", allocator, reading)?;
    let arenas = arenas(target, mappings, layout, reading);
    if !reading.admits(0) {
        reading.missing("free memory in some arenas of malloc", why(reading), remedy(reading));
    }
    let count = arenas.len();
    let walked: Vec<Walked> = arenas.iter().filter_map(|arena| again(target, arena, layout, reading)).collect();
    let failed = count - walked.len();
    if failed > 0 {
        reading.missing(format!("free memory in {failed} of {count} arenas of malloc"), why(reading), remedy(reading));
    }
    (!walked.is_empty()).then(|| sum(&walked, mappings, allocator))
}

/// The number of arenas. `None`: an entry in `reading` has the reason.
pub(super) fn count(target: &mut Target, allocator: &str, reading: &mut Reading) -> Option<usize> {
    const WHAT: &str = "the number of arenas of malloc";
    let layout = readable(target, WHAT, allocator, reading)?;
    let Ok(mappings) = target.maps(reading) else {
        reading.missing(WHAT, "its mappings cannot be read", None);
        return None;
    };
    let arenas = arenas(target, &mappings, layout, reading);
    if !reading.admits(0) {
        reading.missing(WHAT, why(reading), None);
        return None;
    }
    Some(arenas.len())
}

/// The bytes that the program holds of malloc, with the heads of the blocks: in all arenas, and in mappings of their own. `None`: an entry in `reading`
/// has the reason.
pub(super) fn held(target: &mut Target, allocator: &str, reading: &mut Reading) -> Option<u64> {
    const WHAT: &str = "the bytes that are held of malloc";
    let layout = readable(target, WHAT, allocator, reading)?;
    let Ok(mappings) = target.maps(reading) else {
        reading.missing(WHAT, "its mappings cannot be read", None);
        return None;
    };
    if let Some(why) = why_not_whole(target, &mappings) {
        reading.missing(WHAT, why, None);
        return None;
    }
    let arenas = arenas(target, &mappings, layout, reading);
    let walked: Option<Vec<Walked>> = arenas.iter().map(|arena| again(target, arena, layout, reading)).collect();
    let Some(walked) = walked.filter(|_| reading.admits(0)) else {
        reading.missing(WHAT, why(reading), None);
        return None;
    };
    let heaps: Vec<(u64, u64)> = walked.iter().flat_map(|arena| arena.heaps.iter().copied()).collect();
    let large = mapped::bytes(&mut Scattered::of(target, reading), &outside(&mappings, heaps));
    if !reading.admits(0) {
        reading.missing(WHAT, why(reading), None);
        return None;
    }
    Some(walked.iter().map(|arena| arena.used).sum::<u64>() + large)
}

/// Why some of what is held would not be seen. A block in swap is not read, because reading would bring it back.
fn why_not_whole(target: &Target, mappings: &[Mapping]) -> Option<&'static str> {
    let status = lossy(&format!("/proc/{}/status", target.pid())).unwrap_or_default();
    if ledger::mapping::sizes(&status).get("VmSwap").is_some_and(|swap| *swap > 0) {
        return Some("some of the process's memory is in swap");
    }
    main(mappings).is_none().then_some("its main arena is not in one piece")
}

/// Memory that may have blocks of malloc outside of all heaps.
fn outside(mappings: &[Mapping], mut heaps: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    heaps.sort_unstable();
    let mut ranges = Vec::new();
    for mapping in mappings.iter().filter(|it| may_hold_heaps(it)) {
        let mut at = mapping.start;
        for (start, end) in heaps.iter().filter(|(start, end)| *start < mapping.end && mapping.start < *end) {
            ranges.push((at, *start));
            at = *end;
        }
        ranges.push((at, mapping.end));
    }
    ranges.retain(|(start, end)| start < end);
    ranges
}

/// The layout of this malloc, in a process whose memory this user may read; else `what` is missing.
fn readable(target: &Target, what: &str, allocator: &str, reading: &mut Reading) -> Option<&'static Layout> {
    if !target.has_memory(what, reading) {
        return None;
    }
    let layout = Layout::of(allocator);
    if layout.is_none() {
        reading.missing(what, format!("the layout of {allocator} is not known"), None);
    }
    layout
}

fn why(reading: &Reading) -> &'static str {
    if reading.admits(0) {
        "they do not verify: they are in swap, or changed while they were read"
    } else {
        "to read them would hold the server longer than the budget admits"
    }
}

fn remedy(reading: &Reading) -> Option<&'static str> {
    (!reading.admits(0)).then(|| reading.remedy())
}

/// Walks an arena, and again when it does not verify.
fn again(target: &Target, arena: &Arena, layout: &Layout, reading: &mut Reading) -> Option<Walked> {
    (0..TRIES).find_map(|_| arena.walk(target, layout, reading).filter(|_| target.is_alive()))
}

fn sum(arenas: &[Walked], mappings: &[Mapping], allocator: &str) -> HeapWalk {
    let of = |part: fn(&Walked) -> u64| arenas.iter().map(part).sum::<u64>();
    let holds = |mapping: &&Mapping| {
        let mut heaps = arenas.iter().flat_map(|arena| &arena.heaps);
        heaps.any(|(start, end)| *start < mapping.end && mapping.start < *end)
    };
    HeapWalk {
        layout: allocator.to_owned(),
        arenas: u32::try_from(arenas.len()).unwrap_or(u32::MAX),
        used: of(|it| it.used),
        free: of(|it| it.free),
        free_resident: of(|it| it.free_resident),
        resident: of(|it| it.resident),
        walked: mappings.iter().filter(holds).map(|mapping| mapping.start).collect(),
    }
}

/// The main arena, in `[heap]`, and the others.
fn arenas(target: &Target, mappings: &[Mapping], layout: &Layout, reading: &mut Reading) -> Vec<Arena> {
    let mut of_threads: BTreeMap<u64, Vec<HeapInfo>> = BTreeMap::new();
    for heap in mappings.iter().filter(|it| may_hold_heaps(it)).flat_map(|it| heaps(target, it, layout, reading)) {
        of_threads.entry(heap.arena).or_default().push(heap);
    }
    let is_whole =
        |(arena, heaps): &(u64, Vec<HeapInfo>)| heaps.iter().any(|heap| heap.start == arena - layout.info_bytes);
    let of_threads = of_threads.into_iter().filter(is_whole).map(|(at, heaps)| Arena::OfThreads { at, heaps });
    main(mappings).into_iter().chain(of_threads).collect()
}

fn main(mappings: &[Mapping]) -> Option<Arena> {
    let mut parts = mappings.iter().filter(|mapping| mapping.path == "[heap]");
    let first = parts.next()?;
    let end = parts.try_fold(first.end, |end, part| (part.start == end).then_some(part.end))?;
    let of_libc = mappings.iter().filter(|it| is_libc(it) && it.permissions.starts_with("rw"));
    Some(Arena::Main { start: first.start, end, data: of_libc.map(|it| (it.start, it.end)).collect() })
}

fn may_hold_heaps(mapping: &Mapping) -> bool {
    mapping.permissions == "rw-p"
        && mapping.inode == 0
        && !mapping.path.starts_with("[heap]")
        && mapping.path != "[stack]"
}

/// The heaps that begin in a mapping, at multiples of 64 MiB. A mapping of a terabyte has 16,384 such places: the search ends when the budget is used
/// up.
fn heaps(target: &Target, mapping: &Mapping, layout: &Layout, reading: &mut Reading) -> Vec<HeapInfo> {
    let mut found = Vec::new();
    let mut start = mapping.start.next_multiple_of(HEAP_MAX);
    while start < mapping.end && reading.admits(0) {
        found.extend(heap(target, start, layout, reading));
        start += HEAP_MAX;
    }
    found
}

fn heap(target: &Target, start: u64, layout: &Layout, reading: &mut Reading) -> Option<HeapInfo> {
    let mut window = Window::of(target, start, start + super::page_bytes(), reading)?;
    HeapInfo::read(&mut |at| window.word(at), start, layout)
}

/// `libc.so.6`, or `libc-2.31.so` until 2.33.
fn is_libc(mapping: &Mapping) -> bool {
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    name.starts_with("libc.so.6") || name.starts_with("libc-2.")
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests;
