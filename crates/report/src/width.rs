// SPDX-License-Identifier: Apache-2.0
//! How wide a text may be.

/// The columns of a text, where its reader has no narrower window.
pub(crate) const WIDTH: usize = 108;
/// The fewest columns: in a narrower window the terminal breaks the lines, which then are at least sentences.
pub(crate) const NARROWEST: usize = 40;
