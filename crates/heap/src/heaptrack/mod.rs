// SPDX-License-Identifier: Apache-2.0
//! The file that `heaptrack` writes through `heaptrack_interpret` (heaptrack 1.4, src/analyze/accumulatedtracedata.cpp; formats 1 to 3):
//! tables and events in the order in which they came, numbers in hexadecimal.
//!
//! ```text
//! v 10400 3              version of heaptrack and of the format
//! X ./program            the command
//! s 4 main               a string with its length (format 3); strings, and all other tables, count from 1
//! i 7f3d 1 4 5 12        an address: module, then function, file and line of each function in it, the inlined ones first
//! t 1 0                  a call: the address, and the call that it came from (0: none)
//! a 10000 1              an allocation of so many bytes by this call; counts from 0
//! + 0                    one such allocation
//! - 0                    one was freed
//! c 12c                  milliseconds since the start
//! A                      heaptrack was attached to a program that ran already; a program without this line was launched, and held nothing at its start
//! ```

mod events;
mod tables;

use crate::damage::Error;
use crate::format::Format;
use crate::outline::Outline;
use crate::paths::Paths;
use crate::snapshot::{Kind, Snapshot, TimeUnit};
use crate::tree::Tree;
use events::{Event, Events};
use std::collections::HashMap;
use std::io::Read;
use tables::Tables;

/// The most moments for which the heap is shown.
const MOST_SNAPSHOTS: usize = 100;

/// # Errors
/// [`Error::Damage`]: the input is not a file of heaptrack.
pub(crate) fn outline(input: impl Read) -> Result<Outline, Error> {
    let mut events = Events::new(input, Tables::sizes_only())?;
    let mut outline = Outline::of(Format::Heaptrack);
    let (mut times, mut held, mut is_attached) = (Thinned::default(), Held::default(), false);
    let (mut peak, mut now) = (Moment::default(), Moment::default());
    outline.damage = loop {
        match events.next_event() {
            Ok(Some(event)) => {
                match event {
                    Event::Allocated(place) => held.add(place, events.tables()),
                    Event::Freed(place) => held.take(place, events.tables()),
                    Event::Attached => (held, is_attached) = (Held::default(), true),
                    Event::Time(ms) => {
                        times.push(now);
                        now.time_ms = ms;
                    }
                }
                now = Moment { line: events.line(), bytes: held.bytes, ..now };
                if now.bytes > peak.bytes {
                    peak = now;
                }
            }
            Ok(None) => break None,
            Err(Error::Damage(damage)) => break Some(damage),
            Err(error) => return Err(error),
        }
    };
    outline.command = Some(events.command().to_vec());
    outline.time_unit = Some(TimeUnit::Milliseconds);
    if now.line > 0 {
        let moments = times.with(peak, now);
        let start = (!is_attached).then_some(Moment::START);
        for (number, moment) in (0..).zip(start.into_iter().chain(moments)) {
            let kind = if moment == peak { Kind::Peak } else { Kind::Detailed };
            outline.snapshots.push(Snapshot::with_tree(number, moment.time_ms, moment.bytes, kind));
            outline.lines.push(moment.line);
        }
    }
    Ok(outline)
}

/// The trees of the snapshots at these places.
///
/// # Errors
/// Errors of the input.
pub(crate) fn trees(
    input: impl Read,
    outline: &Outline,
    places: &[usize],
    each: &mut dyn FnMut(usize, Tree),
) -> Result<(), Error> {
    let mut events = Events::new(input, Tables::default())?;
    let mut held = Held::default();
    let lines = outline.lines.iter().enumerate().filter(|(place, _)| places.contains(place));
    let mut wanted = lines.map(|(place, line)| (place, *line)).peekable();
    loop {
        while let Some((place, _)) = wanted.next_if(|(_, line)| *line <= events.line()) {
            let Some(snapshot) = outline.snapshots.get(place) else { continue };
            each(place, tree(*snapshot, &held, events.tables()));
        }
        if wanted.peek().is_none() {
            return Ok(());
        }
        let event = match events.next_event() {
            Ok(event) => event,
            Err(Error::Damage(_)) => None,
            Err(error) => return Err(error),
        };
        match event {
            Some(Event::Allocated(place)) => held.add(place, events.tables()),
            Some(Event::Freed(place)) => held.take(place, events.tables()),
            Some(Event::Attached) => held = Held::default(),
            Some(Event::Time(_)) => {}
            None => return Ok(()),
        }
    }
}

/// At these times, in milliseconds since the start, in rising order: each with all that was told up to heaptrack's next note of the time. Times behind
/// the end, or behind a damage, are as the end.
///
/// # Errors
/// Those of the input; [`Error::Damage`]: it is no file of heaptrack.
pub fn at_times(input: impl Read, times_ms: &[u64]) -> Result<Vec<Tree>, Error> {
    let mut events = Events::new(input, Tables::default())?;
    let (mut held, mut trees) = (Held::default(), Vec::new());
    let moment =
        |number: usize, time: u64, held: &Held| Snapshot::with_tree(number as u64, time, held.bytes, Kind::Detailed);
    loop {
        match events.next_event() {
            Ok(Some(Event::Allocated(place))) => held.add(place, events.tables()),
            Ok(Some(Event::Freed(place))) => held.take(place, events.tables()),
            Ok(Some(Event::Attached)) => held = Held::default(),
            Ok(Some(Event::Time(now))) => {
                while let Some(time) = times_ms.get(trees.len()).filter(|time| **time <= now) {
                    trees.push(tree(moment(trees.len(), *time, &held), &held, events.tables()));
                }
            }
            Ok(None) | Err(Error::Damage(_)) => break,
            Err(error) => return Err(error),
        }
    }
    while let Some(time) = times_ms.get(trees.len()) {
        trees.push(tree(moment(trees.len(), *time, &held), &held, events.tables()));
    }
    Ok(trees)
}

fn tree(snapshot: Snapshot, held: &Held, tables: &Tables) -> Tree {
    let mut by_call: HashMap<u32, u64> = HashMap::new();
    for (place, count) in held.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (bytes, call) = tables.allocation(place);
        let sum = by_call.entry(call).or_default();
        *sum = sum.saturating_add(bytes.saturating_mul(*count));
    }
    let mut by_call: Vec<(u32, u64)> = by_call.into_iter().collect();
    by_call.sort_by_key(|(call, bytes)| (std::cmp::Reverse(*bytes), *call));
    let mut paths = Paths::new(tables.frames());
    for (call, bytes) in by_call {
        paths.add(tables.path(call), bytes.into());
    }
    paths.tree(snapshot, 0, None)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moment {
    line: u64,
    time_ms: u64,
    bytes: u64,
}

impl Moment {
    /// Of a program that was launched: ahead of all events, which follow the line with the version.
    const START: Self = Self { line: 1, time_ms: 0, bytes: 0 };
}

/// The memory that is allocated now.
#[derive(Default)]
struct Held {
    /// How many allocations of each kind there are.
    counts: Vec<u64>,
    bytes: u64,
}

impl Held {
    fn add(&mut self, place: usize, tables: &Tables) {
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts.get_mut(place).into_iter().for_each(|count| *count = count.saturating_add(1));
        self.bytes = self.bytes.saturating_add(tables.allocation(place).0);
    }

    /// Subtracts one allocation. Memory that was allocated before heaptrack was attached has no count to subtract from.
    fn take(&mut self, place: usize, tables: &Tables) {
        if let Some(count) = self.counts.get_mut(place).filter(|count| **count > 0) {
            *count -= 1;
            self.bytes = self.bytes.saturating_sub(tables.allocation(place).0);
        }
    }
}

/// The moments that are shown. When they become too many, every second one is dropped, so that at the end they are spread about evenly over the run.
#[derive(Default)]
struct Thinned {
    kept: Vec<Moment>,
    /// One moment of 2 to this power is kept.
    thinned: u32,
    seen: u64,
}

impl Thinned {
    fn push(&mut self, moment: Moment) {
        if moment.line > 0 {
            if self.seen.is_multiple_of(1_u64.checked_shl(self.thinned).unwrap_or(u64::MAX)) {
                self.kept.push(moment);
            }
            self.seen += 1;
        }
        if self.kept.len() > MOST_SNAPSHOTS {
            let mut nth = 0;
            self.kept.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.thinned += 1;
        }
    }

    fn with(self, peak: Moment, last: Moment) -> Vec<Moment> {
        let mut moments = self.kept;
        moments.push(last);
        if peak.line > 0 {
            moments.push(peak);
        }
        moments.sort_by_key(|it| it.line);
        moments.dedup_by_key(|it| it.line);
        moments
    }
}
