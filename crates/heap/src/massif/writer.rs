// SPDX-License-Identifier: Apache-2.0
//! A tree of any profiler's, written as Massif writes a snapshot: so that one file holds moments of another profiler, each with its time.

use super::{Header, Kind};
use crate::frame::Label;
use crate::tree::{Tree, TreeNode};
use std::fmt::Write as _;

/// A whole file with one snapshot, as `vgdb detailed_snapshot` makes one. Callers with less than `threshold` percent of the heap are one line, as
/// Massif has it. Addresses are not told: each is 0.
pub fn text(header: &Header, tree: &Tree, threshold: f64) -> String {
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\n', " ");
    let desc: Vec<String> = header.arguments.iter().map(|it| plain(it)).collect();
    let (time, heap) = (tree.snapshot.time, tree.snapshot.heap_bytes);
    let (extra, stacks) = (tree.snapshot.extra_bytes, tree.snapshot.stacks_bytes);
    let kind = if tree.snapshot.kind == Kind::Peak { "peak" } else { "detailed" };
    let mut text = format!(
        "desc: {}\ncmd: {}\ntime_unit: {}\n#-----------\nsnapshot={}\n#-----------\ntime={time}\nmem_heap_B={heap}\n\
         mem_heap_extra_B={extra}\nmem_stacks_B={stacks}\nheap_tree={kind}\n",
        desc.join(" "),
        plain(&header.command),
        header.time_unit.symbol(),
        tree.snapshot.number
    );
    let children = children(&tree.nodes);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` keeps to what u64 holds
    let least = (heap as f64 * threshold / 100.0) as u64;
    let mut writer = Writer { nodes: &tree.nodes, children: &children, least, threshold, text: &mut text };
    writer.write(0);
    text
}

/// Of each node the places of its children.
fn children(nodes: &[TreeNode]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); nodes.len()];
    let mut way: Vec<usize> = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        way.truncate(node.depth);
        if let Some(above) = way.last().and_then(|above| children.get_mut(*above)) {
            above.push(place);
        }
        way.push(place);
    }
    children
}

struct Writer<'a> {
    nodes: &'a [TreeNode],
    children: &'a [Vec<usize>],
    least: u64,
    threshold: f64,
    text: &'a mut String,
}

impl Writer<'_> {
    fn write(&mut self, place: usize) {
        let Some(node) = self.nodes.get(place) else { return };
        let own = self.children.get(place).map(Vec::as_slice).unwrap_or_default();
        let is_shown = |child: &&usize| {
            let child = self.nodes.get(**child);
            child.is_some_and(|it| it.bytes >= self.least && !matches!(it.label, Label::Hidden { .. }))
        };
        let (mut shown, small): (Vec<usize>, Vec<usize>) = own.iter().partition(is_shown);
        // as Massif: the largest first
        shown.sort_by_key(|it| std::cmp::Reverse(self.nodes.get(*it).map_or(0, |it| it.bytes)));
        let lines = shown.len() + usize::from(!small.is_empty());
        let indent = " ".repeat(node.depth);
        let _ = writeln!(self.text, "{indent}n{lines}: {} {}", node.bytes, label(&node.label));
        let is_none_shown = shown.is_empty();
        shown.into_iter().for_each(|it| self.write(it));
        if !small.is_empty() {
            let (mut places, mut bytes) = (0_u64, 0_u64);
            for node in small.iter().filter_map(|it| self.nodes.get(*it)) {
                places += if let Label::Hidden { places } = node.label { places } else { 1 };
                bytes = bytes.saturating_add(node.bytes);
            }
            let (s, all) = (if places == 1 { "" } else { "s" }, if is_none_shown { "all " } else { "" });
            let _ = writeln!(
                self.text,
                "{indent} n0: {bytes} in {places} place{s}, {all}below massif's threshold ({:.2}%)",
                self.threshold
            );
        }
    }
}

fn label(label: &Label) -> String {
    let text = match label {
        Label::Root(text) => text.clone(),
        Label::Hidden { places } => format!("in {places} places, below massif's threshold"),
        Label::Frame(frame) => match frame.place.as_deref() {
            Some(place) => format!("0x0: {} ({place})", frame.function),
            // the end of a name like `sort(int, bool (*)(int))` would be read as a place
            None if frame.function.contains(" (") => format!("0x0: {} (in ???)", frame.function),
            None => format!("0x0: {}", frame.function),
        },
    };
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::massif::{Snapshot, TimeUnit};
    use std::sync::Arc;

    /// What is written is read again as it was, but for what lies below the threshold.
    #[test]
    fn read_again_it_is_the_same() {
        let frame = |function: &str, place: Option<&str>| {
            Label::Frame(Arc::new(Frame { function: function.into(), place: place.map(str::to_owned) }))
        };
        let node = |depth, bytes, label| TreeNode { depth, bytes, variance: 0, label };
        let snapshot = Snapshot::with_tree(0, 1234, 1000, Kind::Detailed);
        let nodes = vec![
            node(0, 1000, Label::Root("(heap allocation functions)".into())),
            node(1, 300, frame("sort(int, bool (*)(int))", None)),
            node(1, 690, frame("my_malloc", Some("my_malloc.c:88"))),
            node(2, 690, frame("grow", Some("in /usr/sbin/a b"))),
            node(3, 690, frame("operator new(unsigned long)", None)),
            node(1, 6, frame("small", None)),
            node(1, 4, Label::Hidden { places: 3 }),
        ];
        let header = Header {
            arguments: vec![b"tcmalloc".to_vec()],
            command: b"./a".to_vec(),
            time_unit: TimeUnit::Milliseconds,
        };
        let text = text(&header, &Tree { snapshot, nodes: nodes.clone(), sampled_every_bytes: None }, 1.0);
        let outline = crate::Outline::read(text.as_bytes()).unwrap();
        assert_eq!((&outline.damage, outline.snapshots.as_slice()), (&None, [snapshot].as_slice()), "{text}");
        let trees = crate::trees(text.as_bytes(), &outline, &[0], &mut crate::NoSymbols).unwrap();
        let in_question = frame("sort(int, bool (*)(int))", Some("in ???"));
        let expected = vec![
            nodes[0].clone(),
            nodes[2].clone(),
            nodes[3].clone(),
            nodes[4].clone(),
            node(1, 300, in_question),
            node(1, 10, Label::Hidden { places: 4 }),
        ];
        assert_eq!(trees[0].nodes, expected, "{text}");
    }
}
