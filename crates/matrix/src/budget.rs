// SPDX-License-Identifier: Apache-2.0
//! `[matrix.budget]`.

use serde::Serialize;
use units::{Bytes, Span};

/// The most time and disk space that all cells together may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The time of all cells, in all calls of the command together.
    pub time: Option<Span>,
    /// The size of the results on the disk, with the data of the cell that runs.
    pub disk: Option<Bytes>,
}
