// SPDX-License-Identifier: Apache-2.0
//! From lines to tables and events.

use super::tables::{Address, Tables};
use crate::damage::Error;
use crate::lines::{Lines, MOST_BYTES};
use std::io::Read;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// An allocation of the kind at this place in the table of allocations.
    Allocated(usize),
    Freed(usize),
    /// Milliseconds since the start.
    Time(u64),
    /// heaptrack was attached to a program that ran already; events before this one do not count.
    Attached,
}

pub(super) struct Events<R> {
    lines: Lines<R>,
    tables: Tables,
    /// The version of the format.
    version: u64,
    command: Vec<u8>,
}

const LATEST_VERSION: u64 = 3;

impl<R: Read> Events<R> {
    /// # Errors
    /// [`crate::Damage`]: the first line names no version of the format, or one that is not known.
    pub(super) fn new(input: R, tables: Tables) -> Result<Self, Error> {
        let mut events = Self { lines: Lines::new(input), tables, version: 0, command: Vec::new() };
        while events.lines.advance()? && events.lines.text().trim_ascii().is_empty() {}
        let Some(words) = events.lines.text().strip_prefix(b"v ") else {
            return Err(events.lines.damage("no version of heaptrack where it must stand").into());
        };
        let mut numbers = Numbers(words);
        // a version 1.2 that was never released wrote no version of the format: it is format 1
        let (heaptrack, format) = (numbers.next().flatten(), numbers.next().flatten());
        events.version = format.unwrap_or(u64::from(heaptrack == Some(0x1_0200)));
        if !(1..=LATEST_VERSION).contains(&events.version) {
            let what = format!("version {} of heaptrack's format; 1 to {LATEST_VERSION} can be read", events.version);
            return Err(events.lines.damage(what).into());
        }
        Ok(events)
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) fn command(&self) -> &[u8] {
        &self.command
    }

    /// The number of the line that was read last.
    pub(super) fn line(&self) -> u64 {
        self.lines.number()
    }

    /// `None` at the end.
    ///
    /// # Errors
    /// [`crate::Damage`]: a line cannot be what heaptrack writes.
    pub(super) fn next_event(&mut self) -> Result<Option<Event>, Error> {
        while self.lines.advance()? {
            if !self.lines.is_whole() {
                return Err(self.lines.end("the rest of a line").into());
            }
            let text = self.lines.text();
            let Some((kind, rest)) = text.split_first() else { continue };
            let rest = rest.strip_prefix(b" ").unwrap_or(rest);
            let event = match kind {
                b's' => self.string().map(|()| None)?,
                b'X' => {
                    self.command = rest.to_vec();
                    None
                }
                b'A' => Some(Event::Attached),
                b'c' => Some(Event::Time(self.one(rest)?)),
                b'+' => Some(Event::Allocated(self.allocation(rest)?)),
                b'-' => Some(Event::Freed(self.allocation(rest)?)),
                b't' | b'i' | b'a' => {
                    let added = add(&mut self.tables, *kind, rest);
                    added.map_err(|what| self.lines.damage(what))?;
                    None
                }
                b'x' | b'm' => {
                    let what = "heaptrack wrote this before it knew the functions' names; heaptrack_interpret, which `heaptrack` runs, adds them";
                    return Err(self.lines.damage(what).into());
                }
                // RSS, pages, suppressions, remarks
                b'R' | b'I' | b'S' | b'#' => None,
                _ => return Err(self.lines.damage("no line that heaptrack writes").into()),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    fn one(&self, text: &[u8]) -> Result<u64, Error> {
        let number = Numbers(text).next().flatten();
        Ok(number.ok_or_else(|| self.lines.damage("no hexadecimal number where one must stand"))?)
    }

    fn allocation(&self, text: &[u8]) -> Result<usize, Error> {
        let place = usize::try_from(self.one(text)?).ok().filter(|it| self.tables.has_allocation(*it));
        Ok(place.ok_or_else(|| self.lines.damage("an allocation that was not told before"))?)
    }

    /// A string of format 3 has a length, and may hold line ends.
    fn string(&mut self) -> Result<(), Error> {
        let text = self.lines.text().get(2..).unwrap_or_default();
        if self.version < 3 {
            let added = self.tables.add_string(text);
            return Ok(added.map_err(|what| self.lines.damage(what))?);
        }
        let digits = text.iter().take_while(|it| it.is_ascii_hexdigit()).count();
        let length = number(text.get(..digits).unwrap_or_default()).and_then(|it| usize::try_from(it).ok());
        let Some(length) = length.filter(|it| *it <= MOST_BYTES) else {
            return Err(self.lines.damage("no length of a string where it must stand").into());
        };
        let mut whole = text.get(digits + 1..).unwrap_or_default().to_vec();
        while whole.len() < length {
            if !self.lines.advance()? {
                return Err(self.lines.end("the rest of a string").into());
            }
            whole.push(b'\n');
            whole.extend_from_slice(self.lines.text());
        }
        if whole.len() > length {
            return Err(self.lines.damage("a string that is longer than the length before it").into());
        }
        let added = self.tables.add_string(&whole);
        Ok(added.map_err(|what| self.lines.damage(what))?)
    }
}

/// Adds a line to its table.
fn add(tables: &mut Tables, kind: u8, text: &[u8]) -> Result<(), String> {
    let mut numbers = Numbers(text);
    let mut next = |what: &str| numbers.next().map(|it| it.ok_or_else(|| format!("no hexadecimal number: {what}")));
    let missing = |what: &str| format!("a line ends where {what} must follow");
    let small = |number: u64| u32::try_from(number).map_err(|_| "a number of more than 32 bits".to_owned());
    let mut must = |what: &str| next(what).ok_or_else(|| missing(what))?;
    match kind {
        b't' => {
            let address = small(must("the address of a call")?)?;
            tables.add_call(address, small(must("the caller")?)?)
        }
        b'a' => {
            let bytes = must("the size of an allocation")?;
            tables.add_allocation(bytes, small(must("the call")?)?)
        }
        _ => {
            must("an address")?;
            let mut address = Address { module: small(must("the module")?)?, functions: Vec::new() };
            while let Some(function) = next("a function") {
                // without debug information the function stands alone
                let (function, file) = (small(function?)?, next("a file").transpose()?.unwrap_or(0));
                let line = next("a line").transpose()?.unwrap_or(0);
                address.functions.push((function, small(file)?, line));
            }
            tables.add_address(&address)
        }
    }
}

/// Hexadecimal numbers, separated by spaces. `None` for a word that is not such a number, or has more than 64 bits.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = Option<u64>;

    fn next(&mut self) -> Option<Option<u64>> {
        let text = self.0.trim_ascii_start();
        let length = text.iter().position(|it| *it == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        self.0 = rest;
        (!word.is_empty()).then(|| number(word))
    }
}

fn number(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(word).ok()?, 16).ok()
}
