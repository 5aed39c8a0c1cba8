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

/// The text below the graph is kept while the file is read, up to so many bytes. Where it is longer, the file is read a second time.
const MOST_KEPT: usize = 32 << 20;

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
    let outline = Outline::read(first, options)?;
    write_header(&outline.header, options, output)?;
    graph::write(&outline, options, output)?;
    match &outline.table {
        Some(table) => output.write_all(table)?,
        None => table::write(again()?, &outline, options, output)?,
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
    /// The text below the graph, if it is not too long.
    table: Option<Vec<u8>>,
}

impl Outline {
    fn read(input: impl Read, options: &Options) -> Result<Self, Error> {
        let mut reader = Reader::new(input, Remarks::Anywhere)?;
        let mut table = Table::new(reader.header(), options);
        let mut kept = Some(Vec::new());
        let mut snapshots: Vec<Snapshot> = Vec::new();
        // the length of the kept text without the last snapshot
        let mut without_last = 0;
        let damage = loop {
            let event = match reader.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => break None,
                Err(Error::Damage(damage)) => break Some(damage),
                Err(error) => return Err(error),
            };
            if let Event::Snapshot(snapshot) = event {
                without_last = kept.as_ref().map_or(0, Vec::len);
                snapshots.push(snapshot);
            }
            if let Some(kept) = &mut kept {
                table.write(&event, kept)?;
            }
            kept = kept.filter(|it| it.len() <= MOST_KEPT);
        };
        // the tree with the damage in it is not written
        if damage.is_some() && reader.is_in_tree() {
            snapshots.pop();
            kept.iter_mut().for_each(|it| it.truncate(without_last));
        }
        if let Some(kept) = kept.as_mut().filter(|_| snapshots.is_empty()) {
            table.write_heading(kept)?;
        }
        let peak = snapshots.iter().rev().find(|it| it.kind == crate::massif::Kind::Peak).map(|it| it.number);
        Ok(Self { header: reader.header().clone(), snapshots, peak, damage, table: kept })
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
