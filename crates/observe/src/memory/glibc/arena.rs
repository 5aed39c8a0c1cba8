// SPDX-License-Identifier: Apache-2.0
//! One arena: its heaps, and its fast bins. Chunks in a fast bin are free, but their neighbours describe them as held.

use super::chunks::{self, Ends, Shape, Small, Tally};
use super::layout::{FAST_BIN_COUNT, FAST_BINS, HeapInfo, Layout, SYSTEM_BYTES, TOP};
use crate::memory::pagemap::Presence;
use crate::memory::reading::Reading;
use crate::memory::resident_words::{Window, Words as _};
use crate::memory::target::Target;

pub(super) enum Arena {
    /// `data`: libc's own data, which contain the arena's structure.
    Main {
        start: u64,
        end: u64,
        data: Vec<(u64, u64)>,
    },
    OfThreads {
        at: u64,
        heaps: Vec<HeapInfo>,
    },
}

/// The bytes of an arena.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) used: u64,
    pub(super) free: u64,
    pub(super) free_resident: u64,
    pub(super) resident: u64,
    /// The begin and the end of each heap.
    pub(super) heaps: Vec<(u64, u64)>,
}

/// The used fields of an arena's structure.
struct State {
    top: u64,
    system_bytes: u64,
    fast: Vec<u64>,
}

/// A heap that was walked.
struct Heap {
    start: u64,
    end: u64,
    presence: Presence,
    tally: Tally,
}

impl Arena {
    /// `None`: the arena does not verify.
    pub(super) fn walk(&self, target: &Target, layout: &Layout, reading: &mut Reading) -> Option<Walked> {
        let (heaps, state) = match self {
            Self::Main { start, end, data } => main(target, (*start, *end), data, layout, reading)?,
            Self::OfThreads { at, heaps } => of_threads(target, *at, heaps, layout, reading)?,
        };
        Some(sum(heaps, state.map(|state| state.fast).unwrap_or_default()))
    }
}

type Found = (Vec<Heap>, Option<State>);

/// Walks through the main heap to its top chunk. The structure of the main arena is the place in the data segments that holds the address of that chunk.
fn main(
    target: &Target,
    (start, end): (u64, u64),
    data: &[(u64, u64)],
    layout: &Layout,
    reading: &mut Reading,
) -> Option<Found> {
    let shape = Shape { first: start, end, ends: Ends::SomeTop };
    let heap = heap(target, start, shape, layout, reading)?;
    let top = heap.tally.top?;
    let state = data.iter().find_map(|data| find_state(target, *data, top, end - start, reading));
    Some((vec![heap], state))
}

/// Finds, in libc's data, the structure that names this top, and at least this many bytes from the system.
fn find_state(
    target: &Target,
    (start, end): (u64, u64),
    top: u64,
    system_bytes: u64,
    reading: &mut Reading,
) -> Option<State> {
    let mut at = start;
    while at + SYSTEM_BYTES < end {
        let mut window = Window::of(target, at, end, reading)?;
        let names_top = |at: &u64| window.word(at + TOP) == Some(top);
        at = (at..end - SYSTEM_BYTES).step_by(8).find(names_top)?;
        let found = state(target, at, reading);
        if found.as_ref().is_some_and(|it| it.system_bytes >= system_bytes && it.top == top) {
            return found;
        }
        at += 8;
    }
    None
}

fn of_threads(target: &Target, at: u64, infos: &[HeapInfo], layout: &Layout, reading: &mut Reading) -> Option<Found> {
    let state = state(target, at, reading)?;
    // the sizes may have changed since the heaps were found
    let infos: Option<Vec<HeapInfo>> = infos
        .iter()
        .map(|info| super::heap(target, info.start, layout, reading).filter(|now| now.arena == at))
        .collect();
    let infos = infos?;
    let system_bytes: u64 = infos.iter().map(|info| info.size).sum();
    (system_bytes == state.system_bytes).then_some(())?;
    let heaps: Option<Vec<Heap>> =
        infos.iter().map(|info| heap(target, info.start, shape(info, &state, layout), layout, reading)).collect();
    Some((heaps?, Some(state)))
}

fn shape(info: &HeapInfo, state: &State, layout: &Layout) -> Shape {
    let first = if info.previous == 0 { layout.first_chunk(info.arena) } else { info.start + layout.info_bytes };
    let has_top = (info.start..info.end()).contains(&state.top);
    let ends = if has_top { Ends::Top(state.top) } else { Ends::Fence };
    Shape { first, end: info.end(), ends }
}

fn heap(target: &Target, start: u64, shape: Shape, layout: &Layout, reading: &mut Reading) -> Option<Heap> {
    let mut window = Window::of(target, start, shape.end, reading)?;
    let mut tally = chunks::walk(&mut window, shape, layout.mixes_links)?;
    // the heads of heap and arena count as used
    tally.used += shape.first - start;
    Some(Heap { start, end: shape.end, presence: window.into_presence(), tally })
}

fn state(target: &Target, at: u64, reading: &mut Reading) -> Option<State> {
    let mut window = Window::of(target, at, at + SYSTEM_BYTES + 8, reading)?;
    let mut word = |offset: u64| window.word(at + offset);
    let fast: Option<Vec<u64>> = (0..FAST_BIN_COUNT).map(|nth| word(FAST_BINS + nth * 8)).collect();
    Some(State { top: word(TOP)?, system_bytes: word(SYSTEM_BYTES)?, fast: fast? })
}

fn sum(mut heaps: Vec<Heap>, fast: Vec<u64>) -> Walked {
    let in_bins = in_fast_bins(&mut heaps, &fast);
    let mut walked = Walked::default();
    for heap in &mut heaps {
        let (start, end) = (heap.start, heap.end);
        for small in in_bins.iter().filter(|it| (start..end).contains(&it.at)) {
            heap.tally.used -= small.size;
            heap.tally.free.push((small.at, small.at + small.size));
        }
        let ranges = heap.tally.free.iter();
        walked.free_resident += ranges.map(|(start, end)| heap.presence.resident(*start, *end)).sum::<u64>();
        walked.used += heap.tally.used;
        walked.free += heap.tally.free_bytes();
        walked.resident += heap.presence.resident(heap.start, heap.end);
        walked.heaps.push((heap.start, heap.end));
    }
    walked
}

/// Finds the chunks in fast bins: follows each bin through the chunks that may be in one. Each chunk of a bin has the bin's size.
fn in_fast_bins(heaps: &mut [Heap], fast: &[u64]) -> Vec<Small> {
    let mut small: Vec<Small> = heaps.iter_mut().flat_map(|heap| std::mem::take(&mut heap.tally.small)).collect();
    small.sort_unstable_by_key(|it| it.at);
    let mut found = Vec::new();
    for (nth, head) in (0_u64..).zip(fast) {
        let mut next = *head;
        while let Ok(at) = small.binary_search_by_key(&next, |it| it.at)
            && small[at].size == (nth + 2) * 16
        {
            found.push(small[at]);
            // no chunk is counted twice, even if the links form a ring
            small[at].size = 0;
            next = small[at].link;
        }
    }
    found
}
