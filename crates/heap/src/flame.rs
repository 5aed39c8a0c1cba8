// SPDX-License-Identifier: Apache-2.0
//! A tree that begins with `main`, as a flame graph needs it. The trees of profilers begin with the function that allocated.

use crate::frame::Label;
use crate::tree::Tree;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Deeper calls are not shown.
pub(crate) const MOST_DEPTH: usize = 256;

/// A function, called by the one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flame {
    /// 0 for the outermost functions. A node stands before the functions that it calls.
    pub depth: usize,
    pub label: String,
    pub bytes: u64,
}

/// `least_bytes`: nodes with fewer bytes are left out.
pub fn flames(tree: &Tree, least_bytes: u64) -> Vec<Flame> {
    let mut calls = Calls::default();
    let mut path: Vec<(&Label, u64)> = Vec::new();
    for node in &tree.nodes {
        calls.close(&mut path, node.depth);
        if let Some((_, own)) = path.last_mut() {
            *own = own.saturating_sub(node.bytes);
        }
        path.push((&node.label, node.bytes));
    }
    calls.close(&mut path, 0);
    calls.in_order(least_bytes.max(1))
}

fn is_unnamed(label: &Label) -> bool {
    matches!(label, Label::Frame(frame) if frame.function == "???")
}

/// The word for a node.
pub(crate) fn word(label: &Label) -> String {
    match label {
        Label::Frame(frame) => frame.function.clone(),
        Label::Hidden { places } => format!("({places} places below the threshold)"),
        Label::Root(text) if text.starts_with("(page") => "mmap".to_owned(),
        Label::Root(_) => "malloc".to_owned(),
    }
}

#[derive(Default)]
struct Calls {
    nodes: Vec<Node>,
    words: Vec<String>,
    by_word: HashMap<String, usize>,
    /// Nodes by the addresses of the tree's labels, which do not move.
    by_label: HashMap<*const Label, usize>,
    found: HashMap<(Option<usize>, usize), usize>,
    outermost: Vec<usize>,
}

struct Node {
    word: usize,
    bytes: u64,
    callees: Vec<usize>,
}

impl Calls {
    /// Leaves nodes down to this depth. The bytes of a node that none of its callers has are one path from `main`.
    fn close(&mut self, path: &mut Vec<(&Label, u64)>, depth: usize) {
        while path.len() > depth {
            let own = path.last().map_or(0, |(_, own)| *own);
            if own > 0 {
                let labels: Vec<&Label> = path.iter().rev().map(|(label, _)| *label).take(MOST_DEPTH).collect();
                self.add(&labels, own);
            }
            path.pop();
        }
    }

    fn add(&mut self, labels: &[&Label], bytes: u64) {
        let (mut at, mut before) = (None, None);
        for label in labels {
            let word = self.word(label);
            // several functions without a name, one after the other, tell no more than one of them
            if before.replace(word) == Some(word) && is_unnamed(label) {
                continue;
            }
            let next = self.nodes.len();
            let place = *self.found.entry((at, word)).or_insert(next);
            if place == next {
                self.nodes.push(Node { word, bytes: 0, callees: Vec::new() });
                match at {
                    Some(caller) => {
                        self.nodes.get_mut(caller).into_iter().for_each(|it: &mut Node| it.callees.push(next))
                    }
                    None => self.outermost.push(next),
                }
            }
            self.nodes.get_mut(place).into_iter().for_each(|it| it.bytes = it.bytes.saturating_add(bytes));
            at = Some(place);
        }
    }

    fn word(&mut self, label: &Label) -> usize {
        if let Some(known) = self.by_label.get(&std::ptr::from_ref(label)) {
            return *known;
        }
        let text = word(label);
        let next = self.words.len();
        let place = *self.by_word.entry(text.clone()).or_insert(next);
        if place == next {
            self.words.push(text);
        }
        self.by_label.insert(std::ptr::from_ref(label), place);
        place
    }

    fn in_order(mut self, least_bytes: u64) -> Vec<Flame> {
        let mut flames = Vec::new();
        let outermost = std::mem::take(&mut self.outermost);
        let mut open: Vec<(usize, usize)> = self.smallest_first(outermost).into_iter().map(|it| (0, it)).collect();
        while let Some((depth, place)) = open.pop() {
            let Some(node) = self.nodes.get_mut(place).filter(|it| it.bytes >= least_bytes) else { continue };
            let (bytes, word, callees) = (node.bytes, node.word, std::mem::take(&mut node.callees));
            flames.push(Flame { depth, label: self.words.get(word).cloned().unwrap_or_default(), bytes });
            open.extend(self.smallest_first(callees).into_iter().map(|it| (depth + 1, it)));
        }
        flames
    }

    fn smallest_first(&self, mut places: Vec<usize>) -> Vec<usize> {
        places.sort_by_key(|it| (self.nodes.get(*it).map_or(0, |node| node.bytes), Reverse(*it)));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::snapshot::{Kind, Snapshot};
    use crate::tree::TreeNode;
    use std::sync::Arc;

    #[test]
    fn from_main_outwards() {
        let frame = |function: &str| Label::Frame(Arc::new(Frame { function: function.to_owned(), place: None }));
        let node = |depth, bytes, label| TreeNode { depth, bytes, variance: 0, label };
        let nodes = vec![
            node(0, 10, Label::Root("(heap allocation functions)".to_owned())),
            node(1, 7, frame("a")),
            node(2, 7, frame("???")),
            node(3, 7, frame("???")),
            node(4, 7, frame("main")),
            node(1, 2, frame("b")),
            node(2, 2, frame("main")),
        ];
        let tree = Tree { snapshot: Snapshot::with_tree(0, 0, 10, Kind::Detailed), nodes, sampled_every_bytes: None };
        let found = flames(&tree, 0);
        let found: Vec<(usize, &str, u64)> = found.iter().map(|it| (it.depth, it.label.as_str(), it.bytes)).collect();
        let expected = [
            (0, "main", 9),
            (1, "???", 7),
            (2, "a", 7),
            (3, "malloc", 7),
            (1, "b", 2),
            (2, "malloc", 2),
            (0, "malloc", 1),
        ];
        assert_eq!(found, expected, "of the root one byte has no caller");
        assert_eq!(flames(&tree, 3).len(), 4);
    }
}
