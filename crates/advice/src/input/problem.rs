// SPDX-License-Identifier: Apache-2.0
/// Why a text is not a reading.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
}

impl Problem {
    pub(crate) fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}
