// SPDX-License-Identifier: Apache-2.0

/// Gets reports on the work, for a person who waits. Both functions may be called often.
pub trait Progress {
    /// A new part of the work begins: "download 14 packages".
    fn doing(&mut self, what: &str);
    /// How far this part is, in bytes; `total_bytes` 0 means: not known.
    fn bytes(&mut self, _done_bytes: u64, _total_bytes: u64) {}
}

impl Progress for () {
    fn doing(&mut self, _what: &str) {}
}

impl<F: FnMut(&str)> Progress for F {
    fn doing(&mut self, what: &str) {
        self(what);
    }
}
