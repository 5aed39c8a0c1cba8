// SPDX-License-Identifier: Apache-2.0
//! Lines of a log, and texts of several lines. At most as many bytes are kept as a server accepts in one statement.

use crate::place::Place;
use std::borrow::Cow;
use std::io::{self, BufRead, Read as _};

/// A longer statement is left out: by default, servers accept no longer statement (max_allowed_packet).
pub const MOST_BYTES: usize = 64 << 20;
/// The most bytes before a statement in its line.
const SLACK_BYTES: usize = 64 << 10;
/// The most memory that stays reserved for the next line, in bytes.
const KEPT_BYTES: usize = 1 << 20;

pub(crate) struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    number: u64,
    /// The place of the last line that was given, with its line end.
    place: Place,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), number: 0, place: Place::default() }
    }

    /// The place of the last line that was given; after the last line, the end of the log.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// A line without its end, its number, and its place; bytes that are no UTF-8 are replaced. A line that is much longer than `most` is cut.
    pub(crate) fn next(&mut self, most: usize) -> io::Result<Option<(u64, Cow<'_, str>, Place)>> {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.place = Place { offset: self.place.offset + self.place.bytes, bytes: 0 };
        let most = (most + SLACK_BYTES) as u64;
        if self.input.by_ref().take(most).read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(None);
        }
        self.place.bytes = self.bytes.len() as u64;
        if self.place.bytes == most && !self.bytes.ends_with(b"\n") {
            self.place.bytes += self.input.skip_until(b'\n')? as u64;
        }
        self.number += 1;
        let line = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        Ok(Some((self.number, text, self.place)))
    }
}

/// Adds a line. A text that is longer than `most` does not grow any more.
pub(crate) fn append(text: &mut String, line: &str, most: usize) {
    if text.len() <= most {
        text.push('\n');
        text.push_str(line);
    }
}
