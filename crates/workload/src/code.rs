// SPDX-License-Identifier: Apache-2.0
//! What a server's error means for the transaction in which it happened.

use std::fmt;

/// An error code as the server gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// MySQL's error number: 1213.
    Number(u16),
    /// SQLSTATE: `40P01`.
    State([u8; 5]),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::State(state) => f.write_str(&String::from_utf8_lossy(state)),
        }
    }
}

impl Code {
    /// The transaction lost against another one, and may be tried again. sysbench ignores the same errors: MySQL's `ER_LOCK_DEADLOCK`,
    /// `ER_LOCK_WAIT_TIMEOUT`, `ER_CHECKREAD`; PostgreSQL's `serialization_failure`, `deadlock_detected`, and `unique_violation`, which two
    /// transactions get that delete and insert the same key at the same time. Because the key may also simply exist, the transaction is then tried
    /// again with other values: see [`Self::is_duplicate_key`].
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Number(1213 | 1205 | 1020))
            || matches!(self, Self::State(state) if matches!(state, b"40001" | b"40P01" | b"23505"))
    }

    /// Such a row exists already: with the same values the error may come again forever. `unique_violation`; MySQL's `ER_DUP_ENTRY`.
    pub fn is_duplicate_key(&self) -> bool {
        matches!(self, Self::Number(1062)) || matches!(self, Self::State(state) if state == b"23505")
    }
}
