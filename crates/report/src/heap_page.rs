// SPDX-License-Identifier: Apache-2.0
//! Heap profiles, as they are on one page.

use crate::show;
use heap::flame::Flame;
use heap::{Growth, Holdings, TimeUnit};
use std::collections::{BTreeMap, BTreeSet};

/// Layers with a colour of their own; the smaller layers are joined to one.
const MOST_LAYERS: usize = 6;

/// One page.
#[derive(Debug)]
pub struct HeapPage {
    /// Wringer's version.
    pub version: String,
    pub profiles: Vec<HeapProfile>,
}

/// One profile.
#[derive(Debug)]
pub struct HeapProfile {
    /// The file's name.
    pub name: String,
    /// `massif`, `heaptrack`, ...
    pub format: &'static str,
    pub command: Option<String>,
    /// `None`: snapshots are only numbered.
    pub time_unit: Option<TimeUnit>,
    /// For all snapshots: time or number, and bytes.
    pub totals: Vec<(u64, u64)>,
    /// The snapshots that tell who held the heap.
    pub held: Vec<HeapTimes>,
    /// The growth from the first of `held` to the last.
    pub growth: Vec<Growth>,
    /// The flame graph of the moment that `flames_of` names.
    pub flames: Vec<Flame>,
    pub flames_of: String,
    /// Facts that a reader must know: damage, missing names, sampling.
    pub notes: Vec<String>,
}

/// The functions that held the heap at one time, or at the snapshot of this number.
#[derive(Debug)]
pub struct HeapTimes {
    pub at: u64,
    pub holdings: Holdings,
}

pub(crate) struct HeapLayer {
    pub(crate) label: String,
    /// Colour 7 is for memory that no function is charged with.
    pub(crate) colour: usize,
    pub(crate) bytes: Vec<u64>,
}

impl HeapProfile {
    /// The layers, for each of `held`: the largest functions at any time and those that grew most, then all others together, then the hidden ones.
    pub(crate) fn layers(&self) -> Vec<HeapLayer> {
        let mut most: BTreeMap<&str, u64> = BTreeMap::new();
        for function in self.held.iter().flat_map(|it| &it.holdings.functions) {
            let largest = most.entry(&function.function).or_default();
            *largest = (*largest).max(function.bytes);
        }
        let mut names: Vec<(&str, u64)> = most.into_iter().collect();
        names.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
        // a function whose growth the page reports must be visible, even if others hold more; but not if its layer is too thin to be seen
        let most_bytes = self.held.iter().map(|it| it.holdings.total_bytes).max().unwrap_or(0);
        let least = i128::from(most_bytes / 100).max(1);
        let growing = self.growth.iter().take(2).filter(|it| it.growth_bytes.is_some_and(|it| it >= least));
        let grown: Vec<&str> = growing.map(|it| it.function.as_str()).collect();
        names.sort_by_key(|(name, _)| !grown.contains(name));
        names.truncate(MOST_LAYERS);
        let own: BTreeSet<&str> = names.iter().map(|(name, _)| *name).collect();
        let each =
            |bytes: &dyn Fn(&Holdings) -> u64| self.held.iter().map(|it| bytes(&it.holdings)).collect::<Vec<_>>();
        let sum = |holdings: &Holdings, is_in: &dyn Fn(&str) -> bool| {
            let functions = holdings.functions.iter().filter(|it| is_in(&it.function));
            functions.fold(0_u64, |sum, it| sum.saturating_add(it.bytes))
        };
        let mut layers: Vec<HeapLayer> = (0..)
            .zip(&names)
            .map(|(colour, (name, _))| HeapLayer {
                label: shortened(name),
                colour,
                bytes: each(&|it| sum(it, &|function| function == *name)),
            })
            .collect();
        let others = each(&|it| sum(it, &|function| !own.contains(function)));
        layers.push(HeapLayer { label: "other functions".to_owned(), colour: MOST_LAYERS, bytes: others });
        let hidden = each(&|it| it.hidden_bytes);
        layers.push(HeapLayer { label: "of nobody who is named".to_owned(), colour: 7, bytes: hidden });
        layers.retain(|it| it.bytes.iter().any(|bytes| *bytes > 0));
        layers
    }

    pub(crate) fn time(&self, at: u64) -> String {
        Self::time_of(self.time_unit, at)
    }

    /// A time, or the number of a snapshot, as text.
    pub fn time_of(unit: Option<TimeUnit>, at: u64) -> String {
        match unit {
            None => format!("snapshot {at}"),
            Some(TimeUnit::Milliseconds) => show::micros(at as f64 * 1000.0),
            Some(TimeUnit::Instructions) => format!("{} instructions", show::count(at)),
            Some(TimeUnit::Bytes) => format!("{} allocated and freed", show::bytes(at as f64)),
        }
    }

    /// The first sentence of the page.
    pub(crate) fn headline(&self) -> String {
        let largest = self.largest();
        let least = i128::from(largest.map_or(0, |it| it.holdings.total_bytes) / 100).max(1);
        let most = self.growth.first().filter(|_| self.held.len() > 1);
        let grown = most.and_then(|it| Some((it, it.growth_bytes.filter(|bytes| *bytes >= least)?)));
        if let Some((most, bytes)) = grown {
            return format!("{} grew most: by {}", shortened(&most.function), show::bytes(bytes as f64));
        }
        match largest.and_then(|it| it.holdings.functions.first()) {
            None => "No snapshot says who held the heap".to_owned(),
            Some(most) => {
                let (name, bytes) = (shortened(&most.function), show::bytes(most.bytes as f64));
                let when = if self.held.len() > 1 { " when the heap was largest" } else { "" };
                format!("{name} held most{when}: {bytes}")
            }
        }
    }

    /// The snapshot with the most bytes, of those that tell who held the heap.
    pub(crate) fn largest(&self) -> Option<&HeapTimes> {
        self.held.iter().rev().max_by_key(|it| it.holdings.total_bytes)
    }
}

/// The sentence about the functions of `growth` that neither grew nor shrank: a table of growth leaves them out. `None`: each of them changed.
pub fn heap_without_growth(growth: &[Growth]) -> Option<String> {
    let changed = heap::changed(growth).len();
    let functions = units::counted((growth.len() - changed) as u64, "function");
    match changed {
        0 if growth.is_empty() => Some("No function has a name".to_owned()),
        0 => Some(format!("No function grew or shrank ({functions})")),
        _ if changed == growth.len() => None,
        _ => Some(format!("{functions} neither grew nor shrank")),
    }
}

/// Cuts a name: the names of C++ templates can be longer than a page.
pub(crate) fn shortened(name: &str) -> String {
    const MOST: usize = 120;
    match name.char_indices().nth(MOST) {
        None => name.to_owned(),
        Some((at, _)) => format!("{}…", name.split_at(at).0),
    }
}
