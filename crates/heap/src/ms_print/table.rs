// SPDX-License-Identifier: Apache-2.0
//! The table of snapshots; below each snapshot that has a tree, the tree.

use super::{Options, Outline, RULE, Rest, number};
use crate::damage::Error;
use crate::massif::{Event, Header, Node, Reader, Remarks, Snapshot};
use std::io::{Read, Write};

/// Writes the rest of the table from the file, up to the last snapshot of the outline.
pub(super) fn write_rest(
    input: impl Read,
    outline: &Outline,
    rest: &Rest,
    options: &Options,
    output: &mut impl Write,
) -> Result<(), Error> {
    let mut reader = Reader::resume(input, Remarks::Anywhere, &outline.header, rest.at_byte)?;
    let mut table = Table::new(&outline.header, options);
    table.is_heading_due = rest.is_heading_due;
    let mut told = rest.snapshot;
    loop {
        let event = match reader.next_event() {
            Ok(Some(Event::Snapshot(_))) if told == outline.snapshots.len() => return Ok(()),
            Ok(Some(event)) => event,
            Ok(None) | Err(Error::Damage(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        told += usize::from(matches!(event, Event::Snapshot(_)));
        table.write(&event, output)?;
    }
}

/// Writes rows and trees as they are read.
pub(super) struct Table {
    heading: String,
    is_heading_due: bool,
    tree: Tree,
    /// The total of the last snapshot.
    total: u64,
}

impl Table {
    pub(super) fn new(header: &Header, options: &Options) -> Self {
        let time = format!("time({})", header.time_unit.symbol());
        let names = ["n", &time, "total(B)", "useful-heap(B)", "extra-heap(B)", "stacks(B)"];
        let heading = format!("{RULE}{}{RULE}", row(&names.map(str::to_owned)));
        Self { heading, is_heading_due: true, tree: Tree::new(options.threshold), total: 0 }
    }

    /// Whether the names of the columns stand before the next snapshot.
    pub(super) fn is_heading_due(&self) -> bool {
        self.is_heading_due
    }

    pub(super) fn write_heading(&self, output: &mut impl Write) -> Result<(), Error> {
        Ok(output.write_all(self.heading.as_bytes())?)
    }

    pub(super) fn write(&mut self, event: &Event<'_>, output: &mut impl Write) -> Result<(), Error> {
        match event {
            Event::Snapshot(snapshot) => {
                // after a tree, the columns have their names again
                if std::mem::replace(&mut self.is_heading_due, snapshot.has_tree()) {
                    self.write_heading(output)?;
                }
                self.total = snapshot.total_bytes().unwrap_or(u64::MAX);
                Ok(output.write_all(row(&cells(snapshot, self.total)).as_bytes())?)
            }
            Event::Node(node) => self.tree.write(node, self.total, output),
        }
    }
}

fn cells(snapshot: &Snapshot, total: u64) -> [String; 6] {
    let sizes = [snapshot.time, total, snapshot.heap_bytes, snapshot.extra_bytes, snapshot.stacks_bytes];
    let [time, total, heap, extra, stacks] = sizes.map(number::with_commas);
    [snapshot.number.to_string(), time, total, heap, extra, stacks]
}

fn row([number, time, total, heap, extra, stacks]: &[String; 6]) -> String {
    format!("{number:>3} {time:>14} {total:>16} {heap:>16} {extra:>13} {stacks:>12}\n")
}

/// A node on the path from the root, some of whose children have not been read yet.
struct Open {
    awaited: u64,
    is_told: bool,
    /// The length of the indentation of its own line. The indentation of its children's lines is two longer, except for the children of the root.
    indent: usize,
    bytes: u64,
    /// Children that are below the threshold.
    small: u64,
    small_bytes: u64,
}

/// Writes a tree while its nodes are read; each node comes before its children.
struct Tree {
    threshold: f64,
    open: Vec<Open>,
    /// The indentation of the children of the last open node.
    indent: Vec<u8>,
    line: Vec<u8>,
}

impl Tree {
    fn new(threshold: f64) -> Self {
        Self { threshold, open: Vec::new(), indent: Vec::new(), line: Vec::new() }
    }

    fn write(&mut self, node: &Node<'_>, total: u64, output: &mut impl Write) -> Result<(), Error> {
        let is_root = self.open.is_empty();
        let is_last = self.open.last_mut().is_none_or(|parent| {
            parent.awaited -= 1;
            parent.awaited == 0
        });
        let is_told = is_root || self.is_large(node.bytes, total);
        let indent = self.indent.len();
        if is_told {
            let arrow: &[u8] = if is_root { b"" } else { b"->" };
            self.start_line(arrow, node.bytes, total);
            self.line.extend_from_slice(node.label);
            self.end_line(output)?;
        }
        if !is_root {
            self.indent.extend_from_slice(if is_last { b"  " } else { b"| " });
        }
        let open = Open { awaited: node.children, is_told, indent, bytes: node.bytes, small: 0, small_bytes: 0 };
        self.open.push(open);
        if is_told && node.children == 0 {
            self.blank_line(output)?;
        }
        self.close(total, output)
    }

    /// Closes all nodes whose children have been read.
    fn close(&mut self, total: u64, output: &mut impl Write) -> Result<(), Error> {
        while let Some(done) = self.open.pop_if(|it| it.awaited == 0) {
            if done.is_told && done.small > 0 {
                self.start_line(b"->", done.small_bytes, total);
                let (small, threshold) = (done.small, self.threshold);
                write!(self.line, " in {small}+ places, all below ms_print's threshold ({threshold:05.2}%)")?;
                self.end_line(output)?;
                self.blank_line(output)?;
            }
            self.indent.truncate(done.indent);
            if let Some(parent) = self.open.last_mut().filter(|_| !done.is_told) {
                parent.small += 1;
                parent.small_bytes = parent.small_bytes.saturating_add(done.bytes);
            }
        }
        Ok(())
    }

    fn is_large(&self, bytes: u64, total: u64) -> bool {
        self.threshold == 0.0 || total != 0 && bytes as f64 * 100.0 / total as f64 >= self.threshold
    }

    /// Indentation, arrow, share and bytes.
    fn start_line(&mut self, arrow: &[u8], bytes: u64, total: u64) {
        let share = if total == 0 { 0.0 } else { 100.0 * bytes as f64 / total as f64 };
        self.line.clear();
        self.line.extend_from_slice(&self.indent);
        self.line.extend_from_slice(arrow);
        push_share(share, &mut self.line);
        self.line.extend_from_slice(b"% (");
        number::push_with_commas(bytes, &mut self.line);
        self.line.extend_from_slice(b"B)");
    }

    fn end_line(&mut self, output: &mut impl Write) -> Result<(), Error> {
        self.line.push(b'\n');
        Ok(output.write_all(&self.line)?)
    }

    fn blank_line(&self, output: &mut impl Write) -> Result<(), Error> {
        output.write_all(&self.indent)?;
        Ok(output.write_all(b"\n")?)
    }
}

/// `05.23`: at least five characters, two digits after the point, rounded as printf(3) rounds.
fn push_share(share: f64, line: &mut Vec<u8>) {
    let hundredths = share * 100.0;
    let below = hundredths.floor();
    // near the middle between two numbers, rounding depends on digits that the product has lost
    if !(0.0..10_000.0).contains(&hundredths) || (hundredths - below - 0.5).abs() < 1e-6 {
        line.extend_from_slice(format!("{share:05.2}").as_bytes());
        return;
    }
    let rounded = whole(if hundredths - below > 0.5 { below + 1.0 } else { below });
    let digit = |value: u16| b'0' + (value % 10) as u8;
    line.extend((rounded >= 10_000).then_some(b'1'));
    line.extend_from_slice(&[digit(rounded / 1000), digit(rounded / 100), b'.', digit(rounded / 10), digit(rounded)]);
}

/// A whole number below 65536.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: f64) -> u16 {
    number as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_as_by_the_formatter() {
        let fractions = (0..=20_000).map(|nth| f64::from(nth) / 200.0);
        let others = (1..2000).map(|nth| 100.0 * f64::from(nth) / 1999.0);
        for share in fractions.chain(others).chain([0.005, 0.015, 1.005, 99.995, 99.996, 100.0, 123.456]) {
            let mut line = Vec::new();
            push_share(share, &mut line);
            assert_eq!(line, format!("{share:05.2}").as_bytes(), "{share}");
        }
    }
}
