// SPDX-License-Identifier: Apache-2.0
//! Bytes for the JSON reader. They are counted, and refused where one string or the nesting would need too much memory.

use crate::lines::MOST_BYTES;
use std::io::{self, BufReader, ErrorKind, Read};

pub(super) struct Input<R> {
    input: BufReader<R>,
    /// Bytes that were handed out.
    pub(super) at_byte: u64,
    /// Lines that have begun.
    pub(super) line: u64,
    /// The bytes so far of the string that is open.
    string: Option<usize>,
    is_escaped: bool,
    /// Arrays and objects that are open.
    depth: u32,
}

/// The deepest nesting that is read; DHAT's files have 4 levels.
const MOST_DEPTH: u32 = 100;

impl<R: Read> Input<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(256 << 10, input),
            at_byte: 0,
            line: 1,
            string: None,
            is_escaped: false,
            depth: 0,
        }
    }

    fn count(&mut self, byte: u8) -> io::Result<()> {
        self.at_byte += 1;
        self.line += u64::from(byte == b'\n');
        if self.string.is_none() {
            self.depth = match byte {
                b'[' | b'{' => self.depth + 1,
                b']' | b'}' => self.depth.saturating_sub(1),
                _ => self.depth,
            };
            if self.depth > MOST_DEPTH {
                let what = format!("arrays and objects in each other, more than {MOST_DEPTH} deep");
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
        }
        self.string = match (self.string, byte) {
            (None, b'"') => Some(0),
            (None, _) => None,
            (Some(_), b'"') if !self.is_escaped => None,
            (Some(length), _) if length >= MOST_BYTES => {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    format!("a string of more than {MOST_BYTES} bytes"),
                ));
            }
            (Some(length), _) => Some(length + 1),
        };
        self.is_escaped = byte == b'\\' && self.string.is_some() && !self.is_escaped;
        Ok(())
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        for byte in buffer.iter().take(read) {
            self.count(*byte)?;
        }
        Ok(read)
    }
}
