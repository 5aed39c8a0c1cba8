// SPDX-License-Identifier: Apache-2.0
//! How much memory each function holds, and how much that grew from one tree to another.

use crate::frame::{Frame, Label};
use crate::subsystem::Family;
use crate::tree::{Tree, TreeNode};
use crate::wrappers::is_wrapper;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

/// The memory that one function holds at one time: memory that it allocated itself, or through functions that only pass an allocation on
/// ([`crate::Holdings`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// With its arguments; `???` without a symbol.
    pub function: String,
    /// The largest path to it: from the function to its callers, with their places.
    pub path: Vec<String>,
    /// The part of the server that the function belongs to: the first name of the path that tells a part decides.
    pub subsystem: Option<&'static str>,
    pub bytes: u64,
}

/// The functions that hold the heap at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Holdings {
    pub functions: Vec<Held>,
    /// Bytes that the profiler has summed into lines below its threshold: any function may hold a part of them.
    pub hidden_bytes: u64,
    pub total_bytes: u64,
}

/// By how much a function's part of the heap changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growth {
    pub function: String,
    pub path: Vec<String>,
    pub subsystem: Option<&'static str>,
    pub growth_bytes: i128,
    /// The least growth that is possible, whichever function holds the bytes that the profiler hides below its threshold; `high_bytes` is the largest.
    pub low_bytes: i128,
    pub high_bytes: i128,
    pub before_bytes: u64,
    pub after_bytes: u64,
}

impl Holdings {
    /// Walks the tree from the allocation functions outwards: each branch is charged to its first function that does more than pass an
    /// allocation on.
    pub fn of(tree: &Tree) -> Self {
        let mut holdings = Self { total_bytes: tree.nodes.first().map_or(0, |root| root.bytes), ..Self::default() };
        let mut found: BTreeMap<String, (Held, u64)> = BTreeMap::new();
        let (ends, family) = (ends(tree), Family::of(tree));
        // above this depth all callers only pass an allocation on; nodes below a charged node are its path
        let mut charged_at: Option<usize> = None;
        for (place, node) in tree.nodes.iter().enumerate() {
            if charged_at.is_some_and(|depth| node.depth > depth) {
                continue;
            }
            charged_at = None;
            match &node.label {
                Label::Root(_) => {
                    holdings.hidden_bytes = holdings.hidden_bytes.saturating_add(of_nobody(tree, &ends, place));
                }
                Label::Hidden { .. } => holdings.hidden_bytes = holdings.hidden_bytes.saturating_add(node.bytes),
                Label::Frame(frame) if is_wrapper(frame) && has_callers(tree, place) => {
                    holdings.hidden_bytes = holdings.hidden_bytes.saturating_add(of_nobody(tree, &ends, place));
                }
                Label::Frame(frame) => {
                    charged_at = Some(node.depth);
                    charge(&mut found, family, (frame, node), &largest_path(tree, &ends, place));
                }
            }
        }
        holdings.functions = found.into_values().map(|(held, _)| held).collect();
        holdings.functions.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.function.cmp(&b.function)));
        holdings
    }

    /// The bytes of each part of the server, the largest first; `None`: functions whose names tell no part.
    pub fn subsystems(&self) -> Vec<(Option<&'static str>, u64)> {
        let mut sums: BTreeMap<Option<&'static str>, u64> = BTreeMap::new();
        for held in &self.functions {
            *sums.entry(held.subsystem).or_default() += held.bytes;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        sums
    }

    fn held(&self) -> BTreeMap<&str, &Held> {
        self.functions.iter().map(|held| (held.function.as_str(), held)).collect()
    }
}

fn has_callers(tree: &Tree, place: usize) -> bool {
    let depth = |place: usize| tree.nodes.get(place).map(|node| node.depth);
    depth(place + 1) > depth(place)
}

/// The bytes of a node that only passes allocations on, minus the bytes of all its callers. In Massif's own files this is 0; in files of Massif's format
/// that heaptrack exports, a node may have a sum and no callers.
fn of_nobody(tree: &Tree, ends: &[usize], place: usize) -> u64 {
    let callers = callers(tree, ends, place).map(|(_, node)| node.bytes);
    let sum = callers.fold(0_u64, u64::saturating_add);
    tree.nodes.get(place).map_or(0, |node| node.bytes.saturating_sub(sum))
}

/// The nodes directly below.
fn callers<'a>(tree: &'a Tree, ends: &'a [usize], place: usize) -> impl Iterator<Item = (usize, &'a TreeNode)> {
    let end = |place: usize| ends.get(place).copied().unwrap_or(usize::MAX);
    let siblings = iter::successors(Some(place + 1), move |it| Some(end(*it))).take_while(move |it| *it < end(place));
    siblings.filter_map(|it| Some((it, tree.nodes.get(it)?)))
}

fn charge(
    found: &mut BTreeMap<String, (Held, u64)>,
    family: Family,
    (frame, node): (&Frame, &TreeNode),
    path: &[&Frame],
) {
    let part = || path.iter().find_map(|it| family.part(it.name()));
    let written = || path.iter().map(|it| written(it)).collect();
    let (held, largest) = found
        .entry(frame.function.clone())
        .or_insert_with(|| (Held { function: frame.function.clone(), path: Vec::new(), subsystem: None, bytes: 0 }, 0));
    held.bytes = held.bytes.saturating_add(node.bytes);
    if node.bytes >= *largest {
        (*largest, held.path, held.subsystem) = (node.bytes, written(), part());
    }
}

fn written(frame: &Frame) -> String {
    match &frame.place {
        Some(place) => format!("{} ({place})", frame.function),
        None => frame.function.clone(),
    }
}

/// The path from this node on that always takes the caller with the most bytes. `ends`: where the branch of each node ends.
fn largest_path<'a>(tree: &'a Tree, ends: &[usize], place: usize) -> Vec<&'a Frame> {
    let mut path: Vec<&Frame> = Vec::new();
    let mut next = Some(place);
    while let Some(at) = next {
        path.extend(tree.nodes.get(at).and_then(frame_of));
        let named = callers(tree, ends, at).filter(|(_, node)| frame_of(node).is_some());
        // of several callers with equally many bytes, the first
        next = named
            .map(|(at, node)| (at, node.bytes))
            .reduce(|most, it| if it.1 > most.1 { it } else { most })
            .map(|(at, _)| at);
    }
    path
}

/// For each node, the place after the last node below it.
fn ends(tree: &Tree) -> Vec<usize> {
    let mut ends = vec![tree.nodes.len(); tree.nodes.len()];
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (place, node) in tree.nodes.iter().enumerate() {
        while let Some((before, _)) = open.pop_if(|(_, depth)| *depth >= node.depth) {
            ends.get_mut(before).into_iter().for_each(|end| *end = place);
        }
        open.push((place, node.depth));
    }
    ends
}

fn frame_of(node: &TreeNode) -> Option<&Frame> {
    match &node.label {
        Label::Frame(frame) => Some(frame),
        Label::Hidden { .. } | Label::Root(_) => None,
    }
}

/// The functions that grew or shrank. The others hold as many bytes as before.
pub fn changed(growth: &[Growth]) -> Vec<&Growth> {
    growth.iter().filter(|it| it.growth_bytes != 0).collect()
}

/// The growth of each function that either tree names. The function that grew most stands first; of functions that grew equally, the one that holds more.
/// Functions with the same name are one function, whatever their addresses.
pub fn growth(before: &Holdings, after: &Holdings) -> Vec<Growth> {
    let (first, last) = (before.held(), after.held());
    let names: BTreeSet<&str> = first.keys().chain(last.keys()).copied().collect();
    let mut grown: Vec<Growth> = names
        .into_iter()
        .filter_map(|name| {
            let (from, to) = (first.get(name), last.get(name));
            let told = to.or(from)?;
            let (before_bytes, after_bytes) = (from.map_or(0, |it| it.bytes), to.map_or(0, |it| it.bytes));
            let growth_bytes = i128::from(after_bytes) - i128::from(before_bytes);
            Some(Growth {
                function: name.to_owned(),
                path: told.path.clone(),
                subsystem: told.subsystem,
                growth_bytes,
                low_bytes: growth_bytes - i128::from(before.hidden_bytes),
                high_bytes: growth_bytes + i128::from(after.hidden_bytes),
                before_bytes,
                after_bytes,
            })
        })
        .collect();
    let order = |it: &Growth| (std::cmp::Reverse(it.growth_bytes), std::cmp::Reverse(it.after_bytes));
    grown.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.function.cmp(&b.function)));
    grown
}
