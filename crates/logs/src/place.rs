// SPDX-License-Identifier: Apache-2.0
//! A place in a log.

/// A part of a log, in bytes from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub offset: u64,
    pub bytes: u64,
}
