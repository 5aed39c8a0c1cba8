// SPDX-License-Identifier: Apache-2.0
use std::io::{BufReader, Read};

/// A log that is made while it is read: `entry` writes the entry of a number into the text.
pub struct Generated<F> {
    entry: F,
    entries: u64,
    next: u64,
    text: String,
    at: usize,
}

impl<F: FnMut(u64, &mut String)> Generated<F> {
    pub fn of(entries: u64, entry: F) -> BufReader<Self> {
        BufReader::new(Self { entry, entries, next: 0, text: String::new(), at: 0 })
    }
}

impl<F: FnMut(u64, &mut String)> Read for Generated<F> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            if self.next < self.entries {
                (self.entry)(self.next, &mut self.text);
                self.next += 1;
            }
        }
        let count = (&self.text.as_bytes()[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}
