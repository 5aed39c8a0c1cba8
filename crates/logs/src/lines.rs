// SPDX-License-Identifier: Apache-2.0
//! Lines of a log, and texts of several lines, of which no more is kept than a server takes as one statement.

use crate::place::Place;
use std::borrow::Cow;
use std::io::{self, BufRead, Read as _};

/// A longer statement is left out: servers take none that is longer as they come (max_allowed_packet).
pub const MOST_BYTES: usize = 64 << 20;
/// What may stand ahead of a statement in its line.
const SLACK_BYTES: usize = 64 << 10;
/// So much stays reserved for the next line.
const KEPT_BYTES: usize = 1 << 20;

pub(crate) struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    number: u64,
    /// Where the line stands that was given last, with its end.
    place: Place,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), number: 0, place: Place::default() }
    }

    /// Where the line stands that was given last; behind the last line, the log's end.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// A line without its end, its number, and its place; bytes that are no UTF-8 are replaced. One that is much longer than `most` is cut.
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

/// Adds a line. What has become longer than `most` grows no more.
pub(crate) fn append(text: &mut String, line: &str, most: usize) {
    if text.len() <= most {
        text.push('\n');
        text.push_str(line);
    }
}
