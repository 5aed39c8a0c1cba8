// SPDX-License-Identifier: Apache-2.0
//! From lines to snapshots and nodes.

use super::{Event, Header, Kind, Node, Snapshot, TimeUnit};
use crate::budget::Budget;
use crate::damage::Error;
use crate::format::BYTE_ORDER_MARK;
use crate::frame::Frame;
use crate::lines::Lines;
use crate::tree::TreeNode;
use std::io::Read;

/// Which text a `#` makes a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remarks {
    /// A line that begins with `#` is a remark, such as Massif's separators. Names of functions may contain a `#`. What editors and transfers add is left
    /// out: a byte order mark, and blanks and a carriage return at the end of a line. A line without an end is damage: Massif ends each line.
    Lines,
    /// Everything from a `#` to the end of the line is a remark. `ms_print` reads so, and cuts off names of functions that contain a `#`.
    Anywhere,
}

/// What a node takes beside its label, in a tree and on the way from the root to it: lists that grow have up to twice the places that they need, and
/// malloc needs 16 bytes for a block.
const NODE_BYTES: usize = 2 * (size_of::<TreeNode>() + size_of::<u64>()) + size_of::<Frame>() + 4 * 16;

/// Reads one file from its beginning. What the file makes a caller keep is counted here, so that each pass over the file ends at the same place.
pub struct Reader<R> {
    lines: Lines<R>,
    remarks: Remarks,
    header: Header,
    /// `time_unit: s`, with decimals: as `heaptrack_print --print-massif` writes it.
    is_in_seconds: bool,
    /// Where the line begins behind a byte order mark, and where it ends without a remark.
    begin: usize,
    end: usize,
    /// Where the last snapshot begins in the file.
    snapshot_at: u64,
    /// For each node on the path from the root: how many of its children have not been read yet.
    awaited: Vec<u64>,
    /// For the header and the snapshots.
    for_all: Budget,
    /// For the tree of the last snapshot.
    for_tree: Budget,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`Damage`](crate::Damage): the input is not an output of Massif.
    pub fn new(input: R, remarks: Remarks) -> Result<Self, Error> {
        let mut reader = Self::of(input, remarks, Header::default());
        while reader.must_advance("desc: or cmd:")? {
            let Some(arguments) = reader.text().strip_prefix(b"desc:") else { break };
            let arguments = arguments.to_vec();
            reader.keep(2 * size_of::<Vec<u8>>() + arguments.len())?;
            reader.header.arguments.push(arguments);
        }
        if reader.text().starts_with(b"snapshot=") {
            let what = "snapshots without a header, as heaptrack_print 1.4 exports them: no function has a name there; give the file that heaptrack itself wrote (heaptrack.PROGRAM.PID.zst or .gz)";
            return Err(reader.lines.damage(what).into());
        }
        reader.header.command = reader.behind("cmd:")?;
        reader.must_advance("time_unit:")?;
        let unit = reader.behind("time_unit:")?;
        reader.is_in_seconds = unit == b"s" && remarks == Remarks::Lines;
        let unit = if reader.is_in_seconds { b"ms".as_slice() } else { &unit };
        let is_unknown = || reader.lines.damage("time_unit is none of i, ms and B");
        reader.header.time_unit = TimeUnit::of(unit).ok_or_else(is_unknown)?;
        Ok(reader)
    }

    fn of(input: R, remarks: Remarks, header: Header) -> Self {
        Self {
            lines: Lines::new(input),
            remarks,
            header,
            is_in_seconds: false,
            begin: 0,
            end: 0,
            snapshot_at: 0,
            awaited: Vec::new(),
            for_all: Budget::default(),
            for_tree: Budget::default(),
        }
    }

    /// Reads a file that was read before, from the snapshot that begins at this byte ([`Reader::snapshot_at`]).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn resume(input: R, remarks: Remarks, header: &Header, at_byte: u64) -> Result<Self, Error> {
        let mut reader = Self::of(input, remarks, header.clone());
        reader.lines.skip(at_byte)?;
        Ok(reader)
    }

    /// Where the last snapshot begins in the file.
    pub(crate) fn snapshot_at(&self) -> u64 {
        self.snapshot_at
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next snapshot or node; `None` at the end.
    ///
    /// # Errors
    /// [`Damage`](crate::Damage): the text is neither a snapshot, nor a node where a node must follow.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        while self.awaited.last() == Some(&0) {
            self.awaited.pop();
        }
        if !self.awaited.is_empty() {
            return self.node().map(Some);
        }
        if !self.advance()? {
            return Ok(None);
        }
        self.snapshot().map(|it| Some(Event::Snapshot(it)))
    }

    /// Whether nodes of the last snapshot's tree have not been read yet.
    pub fn is_in_tree(&self) -> bool {
        self.awaited.iter().any(|it| *it > 0)
    }

    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let number = self.number("snapshot=")?;
        self.snapshot_at = self.lines.begins_at();
        self.must_advance("time=")?;
        let time = if self.is_in_seconds { self.milliseconds("time=")? } else { self.number("time=")? };
        let mut next = |name| {
            self.must_advance(name)?;
            self.number(name)
        };
        let heap_bytes = next("mem_heap_B=")?;
        let (extra_bytes, stacks_bytes) = (next("mem_heap_extra_B=")?, next("mem_stacks_B=")?);
        self.must_advance("heap_tree=")?;
        let kind = match self.text().strip_prefix(b"heap_tree=").map(<[u8]>::trim_ascii_end) {
            Some(b"empty") => Kind::Normal,
            Some(b"detailed") => Kind::Detailed,
            Some(b"peak") => Kind::Peak,
            _ => return Err(self.lines.damage("heap_tree= is none of empty, detailed and peak").into()),
        };
        let snapshot = Snapshot { number, time, heap_bytes, extra_bytes, stacks_bytes, kind };
        if snapshot.total_bytes().is_none() {
            return Err(self.lines.damage("the sizes of the snapshot have no sum in 64 bits").into());
        }
        self.keep(2 * size_of::<Snapshot>())?;
        if kind != Kind::Normal {
            self.awaited.push(1);
            self.for_tree = Budget::default();
        }
        Ok(snapshot)
    }

    fn keep(&mut self, bytes: usize) -> Result<(), Error> {
        self.for_all.take(bytes).map_err(|what| self.lines.damage(what).into())
    }

    fn node(&mut self) -> Result<Event<'_>, Error> {
        self.must_advance("a node of the tree")?;
        let depth = self.awaited.len() - 1;
        let Some((children, bytes, at)) = node_of(self.text()) else {
            return Err(self.lines.damage("no node of a tree, such as `n1: 1024 LABEL`").into());
        };
        let label_bytes = self.text().len().saturating_sub(at);
        self.for_tree.take(NODE_BYTES + label_bytes).map_err(|what| self.lines.damage(what))?;
        if let Some(awaited) = self.awaited.last_mut() {
            *awaited -= 1;
        }
        self.awaited.push(children);
        Ok(Event::Node(Node { depth, children, bytes, label: self.text().get(at..).unwrap_or_default() }))
    }

    /// Goes to the next line that is not a remark.
    fn advance(&mut self) -> Result<bool, Error> {
        while self.lines.advance()? {
            let hash = if self.remarks == Remarks::Anywhere { self.lines.hash() } else { None };
            let line = self.lines.text();
            if self.remarks == Remarks::Lines && !self.lines.is_whole() && !line.trim_ascii().is_empty() {
                return Err(self.lines.cut().into());
            }
            let is_marked = self.remarks == Remarks::Lines && self.lines.number() == 1;
            self.begin = if is_marked && line.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
            self.end = match self.remarks {
                Remarks::Lines if line.get(self.begin..).is_some_and(|it| it.starts_with(b"#")) => 0,
                Remarks::Lines => line.trim_ascii_end().len(),
                Remarks::Anywhere => hash.unwrap_or(line.len()),
            };
            // from the end: the indentation of a node need not be looked at
            if self.text().iter().rev().any(|byte| !byte.is_ascii_whitespace()) {
                return Ok(true);
            }
        }
        (self.begin, self.end) = (0, 0);
        Ok(false)
    }

    fn must_advance(&mut self, expected: &str) -> Result<bool, Error> {
        if self.advance()? { Ok(true) } else { Err(self.lines.end(expected).into()) }
    }

    fn text(&self) -> &[u8] {
        self.lines.text().get(self.begin..self.end).unwrap_or_default()
    }

    fn behind(&self, name: &str) -> Result<Vec<u8>, Error> {
        let text = self.text().strip_prefix(name.as_bytes());
        let missing = || self.lines.damage(format!("no {name} where it must stand"));
        Ok(text.ok_or_else(missing)?.trim_ascii_start().to_vec())
    }

    /// Milliseconds from a number of seconds such as `12`, `0.063` or `1.5e-05`.
    fn milliseconds(&self, name: &str) -> Result<u64, Error> {
        let text = self.text().strip_prefix(name.as_bytes()).and_then(|it| str::from_utf8(it).ok());
        let seconds = text.and_then(|it| it.trim().parse::<f64>().ok()).filter(|it| (0.0..1e15).contains(it));
        let missing = || self.lines.damage(format!("no {name} with a number of seconds where it must stand"));
        #[allow(clippy::cast_possible_truncation)] // below 1e18
        Ok((seconds.ok_or_else(missing)? * 1000.0).round() as u64)
    }

    fn number(&self, name: &str) -> Result<u64, Error> {
        let digits = self.text().strip_prefix(name.as_bytes()).map(<[u8]>::trim_ascii);
        let (number, rest) = digits.and_then(leading_number).unzip();
        let is_all = rest == digits.map(<[u8]>::len);
        let missing = || self.lines.damage(format!("no {name} with a number where it must stand"));
        Ok(number.filter(|_| is_all).ok_or_else(missing)?)
    }
}

/// Children, bytes, and where the label begins.
fn node_of(line: &[u8]) -> Option<(u64, u64, usize)> {
    let text = line.trim_ascii_start().strip_prefix(b"n")?;
    let (children, used) = leading_number(text)?;
    let text = text.get(used..)?.strip_prefix(b":")?.trim_ascii_start();
    let (bytes, used) = leading_number(text)?;
    Some((children, bytes, line.len() - text.len() + used))
}

/// The number at the beginning of the text, and how many digits it has. `None`: there is no number, or it has more than 64 bits.
fn leading_number(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut digits) = (0_u64, 0);
    for digit in text.iter().map_while(|it| it.is_ascii_digit().then(|| it - b'0')) {
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    (digits > 0).then_some((number, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MOST_MEMORY;

    const FILE: &str = "desc: a\ncmd: b\ntime_unit: B\n#-\nsnapshot=0\n#-\ntime=0\nmem_heap_B=8\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=detailed\n\
                        n1: 8 (heap allocation functions) malloc\n n0: 8 0x5: f (a.c:1)\n";

    fn reader() -> Reader<&'static [u8]> {
        Reader::new(FILE.as_bytes(), Remarks::Lines).unwrap()
    }

    fn said(event: Result<Option<Event<'_>>, Error>) -> String {
        event.map_or_else(|error| error.to_string(), |event| format!("{event:?}"))
    }

    #[test]
    fn what_a_caller_keeps_is_counted() {
        let mut short = reader();
        short.for_all.take(MOST_MEMORY - 60).unwrap();
        assert!(said(short.next_event()).contains("more than 512 MiB"), "a snapshot, and the header before it");
        let mut short = reader();
        assert!(said(short.next_event()).starts_with("Some(Snapshot"));
        short.for_tree.take(MOST_MEMORY - 2 * NODE_BYTES).unwrap();
        assert!(said(short.next_event()).starts_with("Some(Node"));
        assert!(said(short.next_event()).contains("line 13 ("), "the second node");
        assert!(short.is_in_tree());
        let mut enough = reader();
        assert!((0..3).all(|_| enough.next_event().is_ok_and(|it| it.is_some())));
    }
}
