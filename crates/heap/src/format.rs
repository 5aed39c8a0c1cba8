// SPDX-License-Identifier: Apache-2.0
//! Which profiler has written a file; its first bytes tell it.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Valgrind's Massif, and what `heaptrack_print --print-massif` exports.
    Massif,
    /// heaptrack's own file, as `heaptrack` writes it (`heaptrack.PROGRAM.PID.zst`).
    Heaptrack,
    /// gperftools (tcmalloc with `HEAPPROFILE`).
    Gperftools,
    /// jemalloc with profiling (`prof:true`).
    Jemalloc,
    /// Valgrind's DHAT.
    Dhat,
}

/// Of UTF-8: some editors put it ahead of a text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The number of first bytes that are enough to tell a format.
pub(crate) const BEGINNING: usize = 1024;

const NO_EXTRA: (&str, &str) =
    ("extra_bytes", "this profiler records what the program asked for, and not what the allocator needs beside it");
const NO_STACKS: (&str, &str) = ("stacks_bytes", "this profiler does not look at stacks");
const NO_TIME: (&str, &str) = ("time", "a file of this format is one moment, and does not say which");
const NO_COMMAND: (&str, &str) = ("command", "a file of this format does not say the command");

impl Format {
    /// The format of a file with this beginning. `None`: the format is not known.
    pub fn of(beginning: &[u8]) -> Option<Self> {
        let text = beginning.strip_prefix(BYTE_ORDER_MARK).unwrap_or(beginning).trim_ascii_start();
        let holds = |word: &[u8]| memchr::memmem::find(text, word).is_some();
        if [b"desc:".as_slice(), b"cmd:", b"#---"].iter().any(|it| text.starts_with(it)) {
            return Some(Self::Massif);
        }
        if text.starts_with(b"heap_v2/") {
            return Some(Self::Jemalloc);
        }
        if text.starts_with(b"heap profile:") {
            return Some(Self::Gperftools);
        }
        if text.starts_with(b"{") && holds(b"\"dhatFileVersion\"") {
            return Some(Self::Dhat);
        }
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let versions = first.strip_prefix(b"v ")?;
        let is_version = versions.iter().all(|it| it.is_ascii_hexdigit() || *it == b' ');
        (is_version && !versions.is_empty()).then_some(Self::Heaptrack)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Massif => "massif",
            Self::Heaptrack => "heaptrack",
            Self::Gperftools => "gperftools",
            Self::Jemalloc => "jemalloc",
            Self::Dhat => "dhat",
        }
    }

    /// Whether a file of this format has one moment only, so that several files make a series.
    pub fn is_one_moment(self) -> bool {
        matches!(self, Self::Gperftools | Self::Jemalloc)
    }

    /// The values that a file of this format does not have, each with the reason.
    pub fn lacks(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Massif => &[],
            Self::Heaptrack | Self::Dhat => &[NO_EXTRA, NO_STACKS],
            Self::Gperftools => &[NO_COMMAND, NO_TIME, NO_EXTRA, NO_STACKS],
            Self::Jemalloc => &[
                NO_COMMAND,
                NO_TIME,
                ("extra_bytes", "jemalloc counts what it handed out, with what it rounded up"),
                NO_STACKS,
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_the_beginning() {
        use std::io::Read as _;
        let file = || b"desc: a\ncmd: b\n".chain(std::io::repeat(b'x'));
        assert_eq!(Format::read(file()), Some(Format::Massif));
        assert_eq!(Format::read(std::io::empty()), None);
    }

    #[test]
    fn by_the_beginning() {
        let of = |text: &str| Format::of(text.as_bytes());
        assert_eq!(of("desc: --time-unit=B\n"), Some(Format::Massif));
        assert_eq!(of("v 10400 3\nX ./a\n"), Some(Format::Heaptrack));
        assert_eq!(of("heap profile:     12:   655420 [    12:   655420] @ heapprofile"), Some(Format::Gperftools));
        assert_eq!(of("heap_v2/524288\n"), Some(Format::Jemalloc));
        assert_eq!(of("\n{\"dhatFileVersion\":2"), Some(Format::Dhat));
        for other in ["", "{\"a\":1}", "version 3\n", "v x\n", "MZ\0\0"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
