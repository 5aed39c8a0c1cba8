// SPDX-License-Identifier: Apache-2.0
//! Makes a tree from paths with their bytes: paths that begin with the same functions share nodes.

use crate::estimate::Estimate;
use crate::frame::{Frame, Label};
use crate::snapshot::Snapshot;
use crate::tree::{Tree, TreeNode};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// The most nodes of a tree; a server's profile has some hundred thousand. The bytes of further paths are summed as hidden.
const MOST_NODES: usize = 1 << 21;
/// The most callers of a path that are read: profilers record at most some hundred.
pub(crate) const MOST_CALLERS: usize = 512;

/// A tree that is being made. The largest path must be added first, because the last ones may be hidden.
pub(crate) struct Paths<'a> {
    frames: &'a [Arc<Frame>],
    nodes: Vec<Node>,
    /// By a node and the frame of a caller of it: the caller's node.
    found: HashMap<(u32, u32), u32>,
    hidden_places: u64,
    hidden: Estimate,
}

#[derive(Default)]
struct Node {
    frame: u32,
    held: Estimate,
    callers: Vec<u32>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(frames: &'a [Arc<Frame>]) -> Self {
        Self {
            frames,
            nodes: vec![Node::default()],
            found: HashMap::new(),
            hidden_places: 0,
            hidden: Estimate::default(),
        }
    }

    /// `path`: places of frames, from the function that allocated to `main`.
    pub(crate) fn add(&mut self, path: impl Iterator<Item = u32>, held: Estimate) {
        let more = |node: Option<&mut Node>| node.into_iter().for_each(|it| it.held.add(held));
        more(self.nodes.first_mut());
        if self.nodes.len() >= MOST_NODES {
            self.hidden_places += 1;
            self.hidden.add(held);
            return;
        }
        let mut at = 0_u32;
        for frame in path.take(MOST_CALLERS) {
            at = self.caller(at, frame);
            more(self.nodes.get_mut(at as usize));
        }
    }

    fn caller(&mut self, of: u32, frame: u32) -> u32 {
        let Ok(next) = u32::try_from(self.nodes.len()) else { return of };
        let place = *self.found.entry((of, frame)).or_insert(next);
        if place == next {
            self.nodes.push(Node { frame, ..Node::default() });
            self.nodes.get_mut(of as usize).into_iter().for_each(|it| it.callers.push(next));
        }
        place
    }

    /// `at_least`: the size of the heap that the file states. It is used where it is more than all paths have together.
    pub(crate) fn tree(mut self, snapshot: Snapshot, at_least: u64, sampled_every_bytes: Option<u64>) -> Tree {
        let root = self.nodes.first().map(|it| it.held).unwrap_or_default();
        let label = Label::Root("(heap allocation functions)".to_owned());
        let mut nodes = vec![node_of(0, Estimate { bytes: root.bytes.max(at_least), ..root }, label)];
        let mut open: Vec<(usize, u32)> = self.callers_of(0).into_iter().map(|it| (1, it)).collect();
        while let Some((depth, place)) = open.pop() {
            let node = self.nodes.get(place as usize);
            let Some((node, frame)) = node.and_then(|it| Some((it, self.frames.get(it.frame as usize)?))) else {
                continue;
            };
            nodes.push(node_of(depth, node.held, Label::Frame(Arc::clone(frame))));
            open.extend(self.callers_of(place).into_iter().map(|it| (depth + 1, it)));
        }
        if self.hidden_places > 0 {
            nodes.push(node_of(1, self.hidden, Label::Hidden { places: self.hidden_places }));
        }
        Tree { snapshot, nodes, sampled_every_bytes }
    }

    /// The callers of a node, the smallest first: the caller of this function takes them from the end.
    fn callers_of(&mut self, place: u32) -> Vec<u32> {
        let mut callers =
            self.nodes.get_mut(place as usize).map(|it| std::mem::take(&mut it.callers)).unwrap_or_default();
        let size = |it: &u32| self.nodes.get(*it as usize).map_or(0, |node| node.held.bytes);
        callers.sort_by_key(|it| (size(it), Reverse(*it)));
        callers
    }
}

fn node_of(depth: usize, held: Estimate, label: Label) -> TreeNode {
    TreeNode { depth, bytes: held.bytes, variance: held.variance, label }
}
