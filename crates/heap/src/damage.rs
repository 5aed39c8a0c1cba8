// SPDX-License-Identifier: Apache-2.0
//! The damage of a file, and its place.

use serde::Serialize;
use std::io;

/// The place from which on a file cannot be read. Everything before it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("line {line} (byte {at_byte}): {what}")]
pub struct Damage {
    /// The place of the line's first byte, from 0, in the decompressed text.
    pub at_byte: u64,
    /// From 1.
    pub line: u64,
    pub what: String,
    /// The file ends here, although more must follow.
    pub is_end: bool,
}

/// Why no more was read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The error for input that could not be read. Compressed data that break off or are damaged are damage of the file ([`crate::plain`]).
pub(crate) fn of_input(error: io::Error, damage: impl FnOnce(String) -> Damage) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Damage { is_end: true, ..damage("the file ends here, within compressed data".to_owned()) }.into()
        }
        io::ErrorKind::InvalidData => damage(format!("the compressed data are damaged: {error}")).into(),
        _ => error.into(),
    }
}
