// SPDX-License-Identifier: Apache-2.0
//! Who holds the heap at one time: the tree of callers.

use crate::damage::{Damage, Error};
use crate::frame::Label;
use crate::massif::{Event, Header, Reader, Remarks, Snapshot};
use std::io::Read;

/// A snapshot with its tree. Nodes stand before their children.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    pub snapshot: Snapshot,
    pub nodes: Vec<TreeNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// The root, which is the allocation functions, is 0; its callers are 1.
    pub depth: usize,
    pub bytes: u64,
    pub label: Label,
}

/// What a file says of all times, without the trees.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub header: Header,
    pub snapshots: Vec<Snapshot>,
    /// Where the file cannot be read any more.
    pub damage: Option<Damage>,
}

impl Outline {
    /// # Errors
    /// [`Error::Damage`]: it is no output of Massif. Damage behind the header is in `damage`.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = Reader::new(input, Remarks::Lines)?;
        let mut snapshots: Vec<Snapshot> = Vec::new();
        let damage = loop {
            match reader.next_event() {
                Ok(Some(Event::Snapshot(snapshot))) => snapshots.push(snapshot),
                Ok(Some(Event::Node(_))) => {}
                Ok(None) => break None,
                Err(Error::Damage(damage)) => break Some(damage),
                Err(error) => return Err(error),
            }
        };
        // the tree that the damage is in has not all its nodes
        if damage.is_some() && reader.is_in_tree() {
            snapshots.pop();
        }
        Ok(Self { header: reader.header().clone(), snapshots, damage })
    }

    /// The places in `snapshots` of those that have a tree.
    pub fn with_trees(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.snapshots.iter().enumerate().filter(|(_, it)| it.has_tree()).map(|(place, _)| place)
    }
}

/// The trees of the snapshots at these places of the file, in the file's order; the others are passed over.
///
/// # Errors
/// As [`Outline::read`]. Of a damaged file, only what is before the damage.
pub fn trees(input: impl Read, places: &[usize]) -> Result<Vec<Tree>, Error> {
    let mut reader = Reader::new(input, Remarks::Lines)?;
    let (mut found, mut place, mut is_wanted): (Vec<Tree>, _, _) = (Vec::new(), 0, false);
    loop {
        match reader.next_event() {
            Ok(Some(Event::Snapshot(snapshot))) => {
                is_wanted = places.contains(&place) && snapshot.has_tree();
                found.extend(is_wanted.then(|| Tree { snapshot, nodes: Vec::new() }));
                place += 1;
            }
            Ok(Some(Event::Node(node))) if is_wanted => {
                let label = Label::of_massif(node.label);
                let nodes = found.last_mut().map(|tree| &mut tree.nodes);
                nodes
                    .into_iter()
                    .for_each(|it| it.push(TreeNode { depth: node.depth, bytes: node.bytes, label: label.clone() }));
            }
            Ok(Some(Event::Node(_))) => {}
            Ok(None) | Err(Error::Damage(_)) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
}
