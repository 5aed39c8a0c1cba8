// SPDX-License-Identifier: Apache-2.0
//! Profiles that hold addresses, and at their end the profiled process's `/proc/PID/maps`, which tells the file of each address. [`Symbols`] tells the
//! function at an address of a file.

use crate::estimate::Estimate;
use crate::frame::Frame;
use crate::paths::Paths;
use crate::snapshot::Snapshot;
use crate::tree::Tree;
use std::collections::HashMap;
use std::sync::Arc;
use units::MapsLine;

/// Memory of a process into which a part of a file was mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses of the process.
    pub start: u64,
    pub end: u64,
    /// The place in the file at which the mapped part begins.
    pub offset: u64,
    pub path: String,
}

/// A source of the names of functions in files.
pub trait Symbols {
    /// The functions at this address of the process; inlined functions stand first. Empty: no function is known.
    fn functions(&mut self, mapping: &Mapping, address: u64) -> Vec<Frame>;
}

/// Knows no names: all functions are `???`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn functions(&mut self, _: &Mapping, _: u64) -> Vec<Frame> {
        Vec::new()
    }
}

/// The memory that was allocated and not freed at one moment, for each path of callers.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// Return addresses, from the function that allocated to `main`; and bytes.
    pub(crate) paths: Vec<(Box<[u64]>, Estimate)>,
    /// Sorted by their addresses.
    pub(crate) mappings: Vec<Mapping>,
    /// The size of the heap that the file states.
    pub(crate) total_bytes: u64,
    /// `None`: the profiler looked at all allocations.
    pub(crate) sampled_every_bytes: Option<u64>,
}

impl Moment {
    pub(crate) fn bytes(&self) -> u64 {
        let sum = self.paths.iter().fold(0_u64, |sum, (_, held)| sum.saturating_add(held.bytes));
        sum.max(self.total_bytes)
    }

    pub(crate) fn tree(&mut self, snapshot: Snapshot, symbols: &mut dyn Symbols) -> Tree {
        self.paths.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
        self.mappings.sort_by_key(|it| it.start);
        let mut names = Names {
            mappings: &self.mappings,
            symbols,
            frames: Vec::new(),
            known: HashMap::new(),
            by_frame: HashMap::new(),
        };
        let paths: Vec<Vec<u32>> =
            self.paths.iter().map(|(path, _)| path.iter().flat_map(|it| names.of(*it)).collect()).collect();
        let mut tree = Paths::new(&names.frames);
        for (path, (_, held)) in paths.iter().zip(&self.paths) {
            tree.add(path.iter().copied(), *held);
        }
        tree.tree(snapshot, self.total_bytes, self.sampled_every_bytes)
    }
}

struct Names<'a> {
    mappings: &'a [Mapping],
    symbols: &'a mut dyn Symbols,
    frames: Vec<Arc<Frame>>,
    known: HashMap<u64, Vec<u32>>,
    by_frame: HashMap<Arc<Frame>, u32>,
}

impl Names<'_> {
    fn of(&mut self, address: u64) -> Vec<u32> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        // the call itself is at the address before the one to which it returns
        let at = address.saturating_sub(1);
        let mapping = mapping(self.mappings, at);
        let mut functions = mapping.map_or_else(Vec::new, |it| self.symbols.functions(it, at));
        if functions.is_empty() {
            functions.push(Frame { function: "???".to_owned(), place: mapping.map(|it| format!("in {}", it.path)) });
        }
        let places: Vec<u32> = functions.into_iter().map(|it| self.place(Arc::new(it))).collect();
        self.known.insert(address, places.clone());
        places
    }

    fn place(&mut self, frame: Arc<Frame>) -> u32 {
        let next = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        let place = *self.by_frame.entry(Arc::clone(&frame)).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
    }
}

fn mapping(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let behind = mappings.partition_point(|it| it.start <= address);
    mappings.get(behind.checked_sub(1)?).filter(|it| address < it.end)
}

impl Mapping {
    /// A line of `/proc/PID/maps`. `None`: the line is not one of `maps`, or no file is mapped.
    pub(crate) fn of_line(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let line = MapsLine::parse(line.trim())?;
        Some(Self { start: line.start, end: line.end, offset: line.offset, path: line.path()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let of = |line: &str| Mapping::of_line(line.as_bytes());
        let found =
            of("7f7d712bb000-7f7d712e1000 r-xp 00001000 fe:00 325835                     /usr/lib/ld linux.so.2\n")
                .unwrap();
        assert_eq!((found.start, found.end, found.offset), (0x7f7d_712b_b000, 0x7f7d_712e_1000, 0x1000));
        assert_eq!(found.path, "/usr/lib/ld linux.so.2");
        assert_eq!(of("7ffcf0cf9000-7ffcf0d1a000 rw-p 00000000 00:00 0                          [stack]"), None);
        assert_eq!(of("7f1c671cc000-7f1c671d0000 rw-p 00000000 00:00 0           "), None);
        for other in ["", "build=/a", "2-1 r-xp 0 00:00 0 /a", "x-y r-xp 0 00:00 0 /a"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_mapping_of_an_address() {
        let of = |start, end| Mapping { start, end, offset: 0, path: "/a".to_owned() };
        let all = [of(10, 20), of(30, 40)];
        for (address, expected) in [(9, None), (10, Some(10)), (19, Some(10)), (20, None), (39, Some(30)), (40, None)] {
            assert_eq!(mapping(&all, address).map(|it| it.start), expected, "{address}");
        }
    }
}
