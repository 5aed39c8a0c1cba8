// SPDX-License-Identifier: Apache-2.0
//! A tree as lines `outermost;...;innermost BYTES`, which flame graph tools read.

use crate::flame;
use crate::frame::Label;
use crate::tree::Tree;
use std::io::{self, Write};

/// A line for each path, with the bytes that none of its callers has.
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
            let words: Vec<&str> = path.iter().rev().map(|(word, _)| word.as_str()).collect();
            writeln!(output, "{} {own}", words.join(";"))?;
        }
        path.pop();
    }
    Ok(())
}

/// The label without the characters that separate words in this format.
fn word(label: &Label) -> String {
    flame::word(label).replace(';', ":")
}
