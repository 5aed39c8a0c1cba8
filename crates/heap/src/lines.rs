// SPDX-License-Identifier: Apache-2.0
//! The lines of a file as bytes, each with its place, and none longer than a bound. A line is used in the buffer that it was read to; it is not copied.

use crate::damage::{Damage, Error, of_input};
use std::io::{ErrorKind, Read};
use std::ops::Range;

/// A longer line is damage. The longest names of C++ templates have some tens of thousands of bytes.
pub const MOST_BYTES: usize = 1 << 20;
const FIRST_BYTES: usize = 256 << 10;

pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Up to here the buffer has been read to.
    filled: usize,
    line: Range<usize>,
    /// The line has a line end.
    is_whole: bool,
    /// Where the next line begins in the buffer.
    next: usize,
    /// The first `#` in the buffer from some line on; the end of what is filled, where there is none. `None`: not looked for since the buffer was filled.
    hash: Option<usize>,
    /// Where the buffer begins in the file.
    at_byte: u64,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; FIRST_BYTES],
            filled: 0,
            line: 0..0,
            is_whole: true,
            next: 0,
            hash: None,
            at_byte: 0,
            number: 0,
        }
    }

    /// Leaves out so many bytes of the input, which has been read up to there before.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        let mut input = self.input.by_ref().take(bytes);
        self.at_byte += bytes;
        while match input.read(&mut self.buffer) {
            Ok(read) => read > 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => return Err(of_input(error, |what| self.damage(what))),
        } {}
        Ok(())
    }

    /// The next line without its end. `false`: there is none.
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        self.number += 1;
        let mut searched = self.next;
        loop {
            let unsearched = self.buffer.get(searched..self.filled).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', unsearched) {
                self.line = self.next..searched + end;
                self.next = searched + end + 1;
                self.is_whole = true;
                return Ok(true);
            }
            searched = self.filled;
            if searched - self.next > MOST_BYTES {
                self.line = self.next..self.next;
                return Err(self.damage(format!("a line of more than {MOST_BYTES} bytes")).into());
            }
            let moved = self.make_room();
            searched -= moved;
            if self.fill()? == 0 {
                self.line = self.next..self.filled;
                self.next = self.filled;
                self.is_whole = false;
                return Ok(!self.line.is_empty());
            }
        }
    }

    /// Moves the line that has begun to the beginning of the buffer, and returns by how many bytes. A buffer that the line fills is made larger.
    fn make_room(&mut self) -> usize {
        let moved = self.next;
        self.buffer.copy_within(self.next..self.filled, 0);
        (self.filled, self.next, self.hash) = (self.filled - moved, 0, None);
        self.at_byte += moved as u64;
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        moved
    }

    fn fill(&mut self) -> Result<usize, Error> {
        loop {
            match self.input.read(self.buffer.get_mut(self.filled..).unwrap_or_default()) {
                Ok(read) => {
                    self.filled += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.line = self.next..self.next;
                    return Err(of_input(error, |what| self.damage(what)));
                }
            }
        }
    }

    /// `false`: the file ends within the line.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// From 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.buffer.get(self.line.clone()).unwrap_or_default()
    }

    /// Where the first `#` of the line stands in it. Few lines have one, so the buffer is searched up to the next one, and not line by line.
    pub(crate) fn hash(&mut self) -> Option<usize> {
        let hash = self.hash.filter(|it| *it >= self.line.start).unwrap_or_else(|| {
            let unsearched = self.buffer.get(self.line.start..self.filled).unwrap_or_default();
            memchr::memchr(b'#', unsearched).map_or(self.filled, |it| self.line.start + it)
        });
        self.hash = Some(hash);
        (hash < self.line.end).then(|| hash - self.line.start)
    }

    /// Where the line begins in the file.
    pub(crate) fn begins_at(&self) -> u64 {
        self.at_byte + self.line.start as u64
    }

    pub(crate) fn damage(&self, what: impl Into<String>) -> Damage {
        let at_byte = self.begins_at();
        Damage { at_byte, line: self.number, what: what.into(), is_end: false }
    }

    /// The line has no end: the file ends within it.
    pub(crate) fn cut(&self) -> Damage {
        Damage { is_end: true, ..self.damage("the file ends within a line") }
    }

    pub(crate) fn end(&self, expected: &str) -> Damage {
        Damage { is_end: true, ..self.damage(format!("the file ends where {expected} must follow")) }
    }
}
