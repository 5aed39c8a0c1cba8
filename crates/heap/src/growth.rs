// SPDX-License-Identifier: Apache-2.0
//! How much memory each function holds, and how much that grew from one tree to another.

use crate::frame::{Frame, Label};
use crate::subsystem::Family;
use crate::tree::{Tree, TreeNode};
use crate::wrappers::is_wrapper;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;

/// A function with a smaller share of its bytes in each part of the server belongs to [`SEVERAL`] parts. In percent.
const NEARLY_ALL: u128 = 90;
const SEVERAL: &str = "several parts";

/// The memory that one function holds at one time: memory that it allocated itself, or through functions that only pass an allocation on
/// ([`crate::Holdings`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// With its arguments; `???` without a symbol.
    pub function: String,
    /// The largest path to it: from the function to its callers, with their places.
    pub path: Vec<String>,
    /// The part of the server that has nearly all of `bytes`, or `several parts`. `None`: for nearly all bytes no name on the path tells a part.
    pub subsystem: Option<&'static str>,
    pub bytes: u64,
    /// `bytes`, by the part of the server: on each path, the first name that tells a part decides. The largest first.
    pub parts: Vec<PartHeld>,
}

/// Bytes of one part of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartHeld {
    /// `None`: the names of the functions do not tell the part.
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
    /// `None`: at one of the two times the function is below the profiler's threshold, and it may have grown, shrunk, or stayed as it was.
    pub growth_bytes: Option<i128>,
    /// The least growth that is possible, whichever function holds the bytes that the profiler hides below its threshold; `high_bytes` is the largest.
    pub low_bytes: i128,
    pub high_bytes: i128,
    /// `None`: below the profiler's threshold, which does not name the function.
    pub before_bytes: Option<u64>,
    pub after_bytes: Option<u64>,
}

impl Holdings {
    /// Walks the tree from the allocation functions outwards: each branch is charged to its first function that does more than pass an
    /// allocation on.
    pub fn of(tree: &Tree) -> Self {
        let mut holdings = Self { total_bytes: tree.nodes.first().map_or(0, |root| root.bytes), ..Self::default() };
        let mut found: BTreeMap<&str, Charged> = BTreeMap::new();
        let (ends, mut names) = (ends(tree), Names::of(tree));
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
                    let charged = found.entry(&frame.function).or_default();
                    charged.add(node.bytes, place);
                    names.parts(tree, &ends, place, &mut charged.parts);
                }
            }
        }
        let held = |(function, charged): (&str, Charged)| {
            let path = largest_path(tree, &ends, charged.largest.1);
            charged.held(function, &path)
        };
        holdings.functions = found.into_iter().map(held).collect();
        holdings.functions.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.function.cmp(&b.function)));
        holdings
    }

    /// The bytes of each part of the server, the largest first; `None`: functions whose names tell no part.
    pub fn subsystems(&self) -> Vec<PartHeld> {
        let mut sums = Parts::new();
        for part in self.functions.iter().flat_map(|it| &it.parts) {
            add(&mut sums, part.subsystem, part.bytes);
        }
        largest_first(sums)
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

type Parts = BTreeMap<Option<&'static str>, u64>;

fn add(sums: &mut Parts, part: Option<&'static str>, bytes: u64) {
    let sum = sums.entry(part).or_default();
    *sum = sum.saturating_add(bytes);
}

fn largest_first(sums: Parts) -> Vec<PartHeld> {
    let mut parts: Vec<PartHeld> = sums.into_iter().map(|(subsystem, bytes)| PartHeld { subsystem, bytes }).collect();
    parts.retain(|it| it.bytes > 0);
    parts.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    parts
}

/// What one function is charged with.
#[derive(Default)]
struct Charged {
    bytes: u64,
    /// The bytes and the place of the largest node; of equal ones the last.
    largest: (u64, usize),
    parts: Parts,
}

impl Charged {
    fn add(&mut self, bytes: u64, place: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes >= self.largest.0 {
            self.largest = (bytes, place);
        }
    }

    fn held(self, function: &str, path: &[&Frame]) -> Held {
        let parts = largest_first(self.parts);
        let is_nearly_all = |it: &&PartHeld| u128::from(it.bytes) * 100 >= u128::from(self.bytes) * NEARLY_ALL;
        let subsystem = match parts.first() {
            None => None,
            largest => largest.filter(is_nearly_all).map_or(Some(SEVERAL), |it| it.subsystem),
        };
        let path = path.iter().map(|it| written(it)).collect();
        Held { function: function.to_owned(), path, subsystem, bytes: self.bytes, parts }
    }
}

/// The parts that names tell. A name stands in many nodes, and is looked up once.
struct Names<'a> {
    family: Family,
    known: HashMap<&'a str, Option<&'static str>>,
}

impl<'a> Names<'a> {
    fn of(tree: &Tree) -> Self {
        Self { family: Family::of(tree), known: HashMap::new() }
    }

    fn part(&mut self, node: &'a TreeNode) -> Option<&'static str> {
        let frame = frame_of(node)?;
        *self.known.entry(&frame.function).or_insert_with(|| self.family.part(frame.name()))
    }

    /// Adds the bytes of the branch that begins here. On each way through it, the first name that tells a part decides.
    fn parts(&mut self, tree: &'a Tree, ends: &[usize], place: usize, sums: &mut Parts) {
        let end = |place: usize| ends.get(place).copied().unwrap_or(usize::MAX);
        let mut at = place;
        while let Some(node) = tree.nodes.get(at).filter(|_| at < end(place)) {
            let part = self.part(node);
            let (bytes, next) = match part {
                Some(_) => (node.bytes, end(at)),
                None => (of_nobody(tree, ends, at), at + 1),
            };
            add(sums, part, bytes);
            at = next;
        }
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

/// The functions that grew or shrank, and those of which it is not known. The others hold as many bytes as before.
pub fn changed(growth: &[Growth]) -> Vec<&Growth> {
    growth.iter().filter(|it| it.growth_bytes != Some(0)).collect()
}

/// The growth of each function that either tree names. The function that grew most stands first; of functions that grew equally, the one that holds more.
/// Last stand those of which it is not known whether they grew. Functions with the same name are one function, whatever their addresses.
pub fn growth(before: &Holdings, after: &Holdings) -> Vec<Growth> {
    let (first, last) = (before.held(), after.held());
    let names: BTreeSet<&str> = first.keys().chain(last.keys()).copied().collect();
    let mut grown: Vec<Growth> = names
        .into_iter()
        .filter_map(|name| {
            let (from, to) = (first.get(name), last.get(name));
            let told = to.or(from)?;
            let (before_bytes, after_bytes) = (bytes_of(from, before), bytes_of(to, after));
            let growth_bytes = i128::from(after_bytes.unwrap_or(0)) - i128::from(before_bytes.unwrap_or(0));
            let low_bytes = growth_bytes - i128::from(before.hidden_bytes);
            let high_bytes = growth_bytes + i128::from(after.hidden_bytes);
            let is_named = before_bytes.is_some() && after_bytes.is_some();
            let is_known = is_named || low_bytes > 0 || high_bytes < 0;
            Some(Growth {
                function: name.to_owned(),
                path: told.path.clone(),
                subsystem: told.subsystem,
                growth_bytes: is_known.then_some(growth_bytes),
                low_bytes,
                high_bytes,
                before_bytes,
                after_bytes,
            })
        })
        .collect();
    let held = |it: &Growth| std::cmp::Reverse((it.after_bytes, it.before_bytes));
    grown.sort_by(|a, b| {
        let grew = b.growth_bytes.cmp(&a.growth_bytes);
        grew.then_with(|| held(a).cmp(&held(b))).then_with(|| a.function.cmp(&b.function))
    });
    grown
}

/// `None`: the function has no name in this tree, and the profiler hides bytes that may be the function's.
fn bytes_of(held: Option<&&Held>, of: &Holdings) -> Option<u64> {
    held.map(|it| it.bytes).or((of.hidden_bytes == 0).then_some(0))
}
