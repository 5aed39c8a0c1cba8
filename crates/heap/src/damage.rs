// SPDX-License-Identifier: Apache-2.0
//! What is wrong with a file, and where.

use serde::Serialize;
use std::io;

/// The place from which on a file cannot be read. All before it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("line {line} (byte {at_byte}): {what}")]
pub struct Damage {
    /// Of the line's first byte, from 0; in the text as it is after decompression.
    pub at_byte: u64,
    /// From 1.
    pub line: u64,
    pub what: String,
    /// The file ends here, though more must follow.
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

/// Of input that could not be read: compressed data that break off or are damaged are damage of the file ([`crate::plain`]).
pub(crate) fn of_input(error: io::Error, damage: impl FnOnce(String) -> Damage) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Damage { is_end: true, ..damage(format!("the file ends here: {error}")) }.into()
        }
        io::ErrorKind::InvalidData => damage(format!("cannot be read on: {error}")).into(),
        _ => error.into(),
    }
}
