// SPDX-License-Identifier: Apache-2.0
//! Lines of a log, and texts of several lines, of which no more is kept than a server takes as one statement.

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
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), number: 0 }
    }

    /// A line without its end, and its number; bytes that are no UTF-8 are replaced. One that is longer than any
    /// statement may be is cut.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Cow<'_, str>)>> {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        let most = (MOST_BYTES + SLACK_BYTES) as u64;
        if self.input.by_ref().take(most).read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(None);
        }
        if self.bytes.len() as u64 == most && !self.bytes.ends_with(b"\n") {
            self.input.skip_until(b'\n')?;
        }
        self.number += 1;
        let line = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        Ok(Some((self.number, String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)))))
    }
}

/// Adds a line. What has become longer than [`MOST_BYTES`] grows no more.
pub(crate) fn append(text: &mut String, line: &str) {
    if text.len() <= MOST_BYTES {
        text.push('\n');
        text.push_str(line);
    }
}
