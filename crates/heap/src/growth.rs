// SPDX-License-Identifier: Apache-2.0
//! How much memory each function holds, and how much that grew from one tree to another.

use crate::estimate::{Spread, multiple};
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
    /// The standard error of `bytes`, which is an estimate where the profiler saw a sample; else 0.
    pub error_bytes: u64,
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
    /// The profiler saw one allocation in so many bytes, so that all sizes are estimates; `None`: all of them.
    pub sampled_every_bytes: Option<u64>,
}

/// By how much a function's part of the heap changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growth {
    pub function: String,
    pub path: Vec<String>,
    pub subsystem: Option<&'static str>,
    /// `None`: it may have grown, shrunk, or stayed as it was, because at one of the two times the function is below the profiler's threshold, or because
    /// the sizes are estimates that differ by no more than their errors.
    pub growth_bytes: Option<i128>,
    /// The least growth that is possible, whichever function holds the bytes that the profiler hides below its threshold; `high_bytes` is the largest.
    /// Where a size is an estimate, the bounds of all functions hold together in 95 of 100 cases.
    pub low_bytes: i128,
    pub high_bytes: i128,
    /// `None`: the profile does not name the function, see [`Growth::absent`].
    pub before_bytes: Option<u64>,
    pub after_bytes: Option<u64>,
    /// One of the two sizes is an estimate.
    #[serde(skip)]
    pub is_sampled: bool,
}

impl Growth {
    /// In place of a size: why the profile has none.
    pub fn absent(&self) -> &'static str {
        if self.is_sampled { "not in the sample" } else { "below the threshold" }
    }
}

/// What functions hold at one time: as measured, and the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub bytes: i128,
    pub at_least_bytes: i128,
    pub at_most_bytes: i128,
}

impl Holdings {
    /// Walks the tree from the allocation functions outwards: each branch is charged to its first function that does more than pass an
    /// allocation on.
    pub fn of(tree: &Tree) -> Self {
        let total_bytes = tree.nodes.first().map_or(0, |root| root.bytes);
        let mut holdings = Self { total_bytes, sampled_every_bytes: tree.sampled_every_bytes, ..Self::default() };
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
                    charged.add(node, place);
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

    /// What the functions of these names hold together, whichever function holds the hidden bytes. Of a sample, in 95 of 100 cases.
    pub fn bounds(&self, is_named: &dyn Fn(&str) -> bool) -> Bounds {
        let named = || self.functions.iter().filter(|it| is_named(&it.function));
        let bytes = named().fold(0_u64, |sum, it| sum.saturating_add(it.bytes));
        let variance = named().map(|it| (it.error_bytes as f64).powi(2)).sum();
        let spread = Spread::of(bytes, variance, self.sampled_every_bytes, multiple(1));
        let (bytes, hidden) = (i128::from(bytes), i128::from(self.hidden_bytes));
        let (at_least_bytes, at_most_bytes) = (bytes - whole(spread.below), bytes + whole(spread.above) + hidden);
        Bounds { bytes, at_least_bytes, at_most_bytes }
    }

    /// The most that a function can hold that is named neither here nor in the other one of two times, which together name `count` functions.
    pub fn most_unnamed_bytes(&self, count: usize) -> i128 {
        whole(self.spread(None, multiple(count)).above) + i128::from(self.hidden_bytes)
    }

    fn spread(&self, held: Option<&Held>, multiple: f64) -> Spread {
        let (bytes, error) = held.map_or((0, 0), |it| (it.bytes, it.error_bytes));
        Spread::of(bytes, (error as f64).powi(2), self.sampled_every_bytes, multiple)
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
    variance: u128,
    /// The bytes and the place of the largest node; of equal ones the last.
    largest: (u64, usize),
    parts: Parts,
}

impl Charged {
    fn add(&mut self, node: &TreeNode, place: usize) {
        self.bytes = self.bytes.saturating_add(node.bytes);
        self.variance = self.variance.saturating_add(node.variance);
        if node.bytes >= self.largest.0 {
            self.largest = (node.bytes, place);
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
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the root of a u128
        let error_bytes = (self.variance as f64).sqrt().round() as u64;
        Held { function: function.to_owned(), path, subsystem, bytes: self.bytes, error_bytes, parts }
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
    let multiple = multiple(names.len());
    let is_sampled = before.sampled_every_bytes.is_some() || after.sampled_every_bytes.is_some();
    let mut grown: Vec<Growth> = names
        .into_iter()
        .filter_map(|name| {
            let (from, to) = (first.get(name), last.get(name));
            let told = to.or(from)?;
            let (before_bytes, after_bytes) = (bytes_of(from, before), bytes_of(to, after));
            let growth_bytes = i128::from(after_bytes.unwrap_or(0)) - i128::from(before_bytes.unwrap_or(0));
            let (error_before, error_after) =
                (before.spread(from.copied(), multiple), after.spread(to.copied(), multiple));
            let low_bytes =
                growth_bytes - whole(error_after.below.hypot(error_before.above)) - i128::from(before.hidden_bytes);
            let high_bytes =
                growth_bytes + whole(error_after.above.hypot(error_before.below)) + i128::from(after.hidden_bytes);
            let is_named = before_bytes.is_some() && after_bytes.is_some();
            // equal estimates: the same sample
            let is_told = is_named && (!is_sampled || growth_bytes == 0);
            let is_known = is_told || low_bytes > 0 || high_bytes < 0;
            Some(Growth {
                function: name.to_owned(),
                path: told.path.clone(),
                subsystem: told.subsystem,
                growth_bytes: is_known.then_some(growth_bytes),
                low_bytes,
                high_bytes,
                before_bytes,
                after_bytes,
                is_sampled,
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

/// `None`: the function has no name in this tree, and bytes that the profiler hides or has not seen may be the function's.
fn bytes_of(held: Option<&&Held>, of: &Holdings) -> Option<u64> {
    held.map(|it| it.bytes).or((of.hidden_bytes == 0 && of.sampled_every_bytes.is_none()).then_some(0))
}

#[allow(clippy::cast_possible_truncation)] // bytes of a program
fn whole(bytes: f64) -> i128 {
    bytes.ceil() as i128
}
