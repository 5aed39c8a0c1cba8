// SPDX-License-Identifier: Apache-2.0
//! The memory that a function has not asked for itself, but that functions below it have.

use crate::frame::Label;
use crate::tree::Tree;
use crate::wrappers::is_wrapper;
use std::collections::BTreeMap;

/// What is charged to other functions, although this function is on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedBelow {
    pub bytes: u64,
    /// The function that is charged with most of these bytes. `None`: the function that was looked for only passes allocations on.
    pub charged_to: Option<String>,
}

impl Tree {
    /// The bytes of all paths on which a function with such a name stands. `None`: there is no such path.
    pub fn asked_below(&self, is_named: &dyn Fn(&str) -> bool) -> Option<AskedBelow> {
        let mut sums: BTreeMap<Option<&str>, u64> = BTreeMap::new();
        let (mut charged, mut counted): (Option<(usize, &str)>, Option<usize>) = (None, None);
        for node in &self.nodes {
            charged = charged.filter(|(depth, _)| node.depth > *depth);
            counted = counted.filter(|depth| node.depth > *depth);
            let Label::Frame(frame) = &node.label else { continue };
            if charged.is_none() && !is_wrapper(frame) {
                charged = Some((node.depth, &frame.function));
            }
            // a function that calls itself is counted once
            if counted.is_none() && is_named(&frame.function) {
                counted = Some(node.depth);
                let sum = sums.entry(charged.map(|(_, function)| function)).or_default();
                *sum = sum.saturating_add(node.bytes);
            }
        }
        let bytes = sums.values().fold(0_u64, |sum, it| sum.saturating_add(*it));
        let (charged_to, _) = sums.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        Some(AskedBelow { bytes, charged_to: charged_to.map(str::to_owned) })
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
    fn a_caller_of_what_is_charged() {
        let frame = |name: &str| Label::Frame(Arc::new(Frame { function: name.to_owned(), place: None }));
        let node = |depth, bytes, label| TreeNode { depth, bytes, variance: 0, label };
        let nodes = vec![
            node(0, 100, Label::Root("(heap allocation functions)".to_owned())),
            node(1, 90, frame("my_malloc")),
            node(2, 60, frame("copy_text")),
            node(3, 40, frame("read")),
            node(4, 40, frame("read")),
            node(3, 20, frame("write")),
            node(2, 30, frame("grow")),
            node(3, 30, frame("read")),
            node(1, 10, Label::Hidden { places: 3 }),
        ];
        let tree = Tree { snapshot: Snapshot::with_tree(0, 0, 100, Kind::Detailed), nodes, sampled_every_bytes: None };
        let of = |name: &str| tree.asked_below(&|it| it == name);
        assert_eq!(of("read"), Some(AskedBelow { bytes: 70, charged_to: Some("copy_text".to_owned()) }));
        assert_eq!(of("my_malloc"), Some(AskedBelow { bytes: 90, charged_to: None }));
        assert_eq!(of("never"), None);
    }
}
