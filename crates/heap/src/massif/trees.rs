// SPDX-License-Identifier: Apache-2.0
//! From snapshots and nodes to the outline and to trees.

use super::{Event, Reader, Remarks};
use crate::damage::Error;
use crate::format::Format;
use crate::frame::Label;
use crate::outline::Outline;
use crate::tree::{Tree, TreeNode};
use std::io::Read;

/// # Errors
/// [`Error::Damage`]: the input is not an output of Massif. Damage after the header is in `damage` of the outline.
pub(crate) fn outline(input: impl Read) -> Result<Outline, Error> {
    let mut reader = Reader::new(input, Remarks::Lines)?;
    let mut outline = Outline::of(Format::Massif);
    outline.damage = loop {
        match reader.next_event() {
            Ok(Some(Event::Snapshot(snapshot))) => outline.snapshots.push(snapshot),
            Ok(Some(Event::Node(_))) => {}
            Ok(None) => break None,
            Err(Error::Damage(damage)) => break Some(damage),
            Err(error) => return Err(error),
        }
    };
    // the tree with the damage in it is not complete
    if outline.damage.is_some() && reader.is_in_tree() {
        outline.snapshots.pop();
    }
    let header = reader.header();
    (outline.command, outline.time_unit) = (Some(header.command.clone()), Some(header.time_unit));
    Ok(outline)
}

/// The trees of the snapshots at these places; other snapshots are skipped. Of a damaged file, only the trees before the damage.
///
/// # Errors
/// As [`outline`].
pub(crate) fn trees(input: impl Read, places: &[usize], each: &mut dyn FnMut(usize, Tree)) -> Result<(), Error> {
    let mut reader = Reader::new(input, Remarks::Lines)?;
    let (mut begun, mut place): (Option<(usize, Tree)>, usize) = (None, 0);
    let ended = loop {
        match reader.next_event() {
            Ok(Some(Event::Snapshot(snapshot))) => {
                begun.take().into_iter().for_each(|(place, tree)| each(place, tree));
                let is_wanted = places.contains(&place) && snapshot.has_tree();
                begun = is_wanted.then(|| (place, Tree { snapshot, nodes: Vec::new(), sampled_every_bytes: None }));
                place += 1;
            }
            Ok(Some(Event::Node(node))) => {
                if let Some((_, tree)) = &mut begun {
                    let label = Label::of_massif(node.label);
                    tree.nodes.push(TreeNode { depth: node.depth, bytes: node.bytes, variance: 0, label });
                }
            }
            Ok(None) | Err(Error::Damage(_)) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if !reader.is_in_tree() {
        begun.into_iter().for_each(|(place, tree)| each(place, tree));
    }
    ended
}
