// SPDX-License-Identifier: Apache-2.0
//! The text that `ms_print` of Valgrind 3.19 writes: header, graph, the table of snapshots with their trees. The text is the same also where it is odd: the
//! end of a line from a `#` on is cut off, and the peak is looked for by its place in the file.

mod graph;
mod number;
mod table;

use crate::damage::Error;
use crate::massif::{Event, Header, Reader, Remarks, Snapshot};
use std::io::{Read, Write};
use table::Table;

/// `--threshold`, `--x`, `--y`.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Nodes with less than this percentage of their snapshot are summed into one line. 0: each node has its own line.
    pub threshold: f64,
    /// Columns and rows of the graph, 4 to 1000.
    pub columns: usize,
    pub rows: usize,
    /// The text after `ms_print arguments:`.
    pub arguments: Vec<u8>,
}

impl Default for Options {
    fn default() -> Self {
        Self { threshold: 1.0, columns: 72, rows: 20, arguments: Vec::new() }
    }
}

/// The text below the graph is kept while the file is read, up to so many bytes. Where it is longer, the file is read a second time, from the snapshot on that
/// is not kept.
const MOST_KEPT: usize = 64 << 20;

/// Writes the whole text. The graph stands first and needs the whole file, so the file may be read twice: `again` opens it at its beginning.
///
/// # Errors
/// [`Error::Damage`]: the whole snapshots before the damage were written. [`Error::Io`]: reading or writing failed.
pub fn print<R: Read>(
    first: impl Read,
    again: impl FnOnce() -> Result<R, Error>,
    options: &Options,
    output: &mut impl Write,
) -> Result<(), Error> {
    print_keeping(MOST_KEPT, first, again, options, output)
}

fn print_keeping<R: Read>(
    most: usize,
    first: impl Read,
    again: impl FnOnce() -> Result<R, Error>,
    options: &Options,
    output: &mut impl Write,
) -> Result<(), Error> {
    let mut outline = Outline::read(first, options, most)?;
    write_header(&outline.header, options, output)?;
    graph::write(&outline, options, output)?;
    output.write_all(&std::mem::take(&mut outline.table))?;
    if let Some(rest) = &outline.rest {
        table::write_rest(again()?, &outline, rest, options, output)?;
    }
    outline.damage.map_or(Ok(()), |damage| Err(damage.into()))
}

/// The contents of the graph and of the list of snapshots, which stand before the trees.
struct Outline {
    header: Header,
    snapshots: Vec<Snapshot>,
    /// The number of the last snapshot that is a peak.
    peak: Option<u64>,
    damage: Option<crate::Damage>,
    /// The text below the graph, as far as it was kept.
    table: Vec<u8>,
    rest: Option<Rest>,
}

/// Where the text goes on that was not kept.
struct Rest {
    snapshot: usize,
    at_byte: u64,
    is_heading_due: bool,
}

impl Outline {
    /// Keeps at most so many bytes of the text, and a line.
    fn read(input: impl Read, options: &Options, most_kept: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(input, Remarks::Anywhere)?;
        let mut table = Table::new(reader.header(), options);
        let mut kept = Vec::new();
        let mut rest = None;
        let mut snapshots: Vec<Snapshot> = Vec::new();
        // the text before the last snapshot
        let (mut before_last, mut is_heading_due) = (0, true);
        let damage = loop {
            let event = match reader.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => break None,
                Err(Error::Damage(damage)) => break Some(damage),
                Err(error) => return Err(error),
            };
            if let Event::Snapshot(snapshot) = event {
                snapshots.push(snapshot);
                if rest.is_none() {
                    (before_last, is_heading_due) = (kept.len(), table.is_heading_due());
                }
            }
            if rest.is_some() {
                continue;
            }
            table.write(&event, &mut kept)?;
            if kept.len() > most_kept {
                kept.truncate(before_last);
                rest = Some(Rest { snapshot: snapshots.len() - 1, at_byte: reader.snapshot_at(), is_heading_due });
            }
        };
        // the tree with the damage in it is not written
        if damage.is_some() && reader.is_in_tree() {
            snapshots.pop();
            if rest.is_none() {
                kept.truncate(before_last);
            }
        }
        if snapshots.is_empty() {
            table.write_heading(&mut kept)?;
        }
        let peak = snapshots.iter().rev().find(|it| it.kind == crate::massif::Kind::Peak).map(|it| it.number);
        Ok(Self { header: reader.header().clone(), snapshots, peak, damage, table: kept, rest })
    }

    fn is_peak(&self, place: usize) -> bool {
        self.peak == Some(place as u64)
    }
}

const RULE: &str = "--------------------------------------------------------------------------------\n";

fn write_header(header: &Header, options: &Options, output: &mut impl Write) -> Result<(), Error> {
    output.write_all(RULE.as_bytes())?;
    output.write_all(b"Command:            ")?;
    output.write_all(&header.command)?;
    output.write_all(b"\nMassif arguments:  ")?;
    for arguments in &header.arguments {
        output.write_all(arguments)?;
        output.write_all(b"\n")?;
    }
    output.write_all(b"ms_print arguments:")?;
    output.write_all(&options.arguments)?;
    write!(output, "\n{RULE}\n\n")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(most_kept: usize, text: &str) -> (String, Option<String>) {
        let mut output = Vec::new();
        let bytes = text.as_bytes();
        let ended = print_keeping(most_kept, bytes, || Ok(bytes), &Options::default(), &mut output);
        (String::from_utf8(output).unwrap(), ended.err().map(|it| it.to_string()))
    }

    /// Wherever the kept text ends, and wherever the file breaks off.
    #[test]
    fn the_text_is_the_same_however_much_of_it_is_kept() {
        let snapshot = |number: u64, tree: &str| {
            let bytes = number * 100;
            format!(
                "#-\nsnapshot={number}\n#-\ntime={bytes}\nmem_heap_B={bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={tree}"
            )
        };
        let trees = [
            "detailed\nn1: 100 (heap) malloc\n n0: 100 0x1: f (a.c:1)\n",
            "empty\n",
            "peak\nn0: 300 (heap) malloc # 1\n",
        ];
        let snapshots: String =
            (1..=6).zip(trees.iter().cycle()).map(|(number, tree)| snapshot(number, tree)).collect();
        let text = format!("desc: (none)\ncmd: ./a # b\ntime_unit: B\n{snapshots}");
        let length = printed(usize::MAX, &text).0.len();
        for end in (40..=text.len()).filter(|it| it % 7 == 0 || *it == text.len()) {
            let text = &text[..end];
            let whole = printed(usize::MAX, text);
            for most in (0..length).step_by(31) {
                assert_eq!(printed(most, text), whole, "{most} of {end}");
            }
        }
        assert_eq!(printed(0, &text).0.matches("useful-heap").count(), 4, "{}", printed(0, &text).0);
    }
}
