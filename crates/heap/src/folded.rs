// SPDX-License-Identifier: Apache-2.0
//! A tree as lines `outermost;...;innermost BYTES`, which flame graph tools read.

use crate::flame::{self, MOST_DEPTH};
use crate::frame::Label;
use crate::tree::Tree;
use std::io::{self, Write};

/// A line for each path, with the bytes that none of its callers has. A line has the outermost functions of the path, as many as a flame graph shows: of
/// a path of `n` functions that each hold bytes, all lines together would else have `n * n` words.
///
/// # Errors
/// Writing failed.
pub fn write(tree: &Tree, output: &mut impl Write) -> io::Result<()> {
    let mut path: Vec<(String, u64)> = Vec::new();
    for node in &tree.nodes {
        close(&mut path, node.depth, output)?;
        if let Some((_, own)) = path.last_mut() {
            *own = own.saturating_sub(node.bytes);
        }
        path.push((word(&node.label), node.bytes));
    }
    close(&mut path, 0, output)
}

/// Leaves nodes down to this depth, and writes a line for the bytes of each that none of its callers has.
fn close(path: &mut Vec<(String, u64)>, depth: usize, output: &mut impl Write) -> io::Result<()> {
    while path.len() > depth {
        if let Some((_, own)) = path.last().filter(|(_, own)| *own > 0) {
            let words: Vec<&str> = path.iter().rev().take(MOST_DEPTH).map(|(word, _)| word.as_str()).collect();
            writeln!(output, "{} {own}", words.join(";"))?;
        }
        path.pop();
    }
    Ok(())
}

/// The label without the characters that separate words and lines in this format, and without those that steer a terminal.
fn word(label: &Label) -> String {
    flame::word(label).replace(';', ":").replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Kind, Snapshot};
    use crate::tree::TreeNode;

    /// Each of 10,000 callers keeps one byte for itself.
    #[test]
    fn a_deep_tree_has_short_lines_and_all_bytes() {
        let most = 10_000_u64;
        let node = |depth: u64| TreeNode {
            depth: usize::try_from(depth).unwrap(),
            bytes: most - depth,
            variance: 0,
            label: Label::Root(format!("f{depth}")),
        };
        let snapshot = Snapshot::with_tree(0, 0, most, Kind::Detailed);
        let mut written = Vec::new();
        write(&Tree { snapshot, nodes: (0..most).map(node).collect(), sampled_every_bytes: None }, &mut written)
            .unwrap();
        let text = String::from_utf8(written).unwrap();
        let words = |line: &str| line.split(';').count();
        assert_eq!(text.lines().map(words).max(), Some(MOST_DEPTH));
        let bytes = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        assert_eq!(bytes.sum::<u64>(), most);
    }
}
