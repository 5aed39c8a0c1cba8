// SPDX-License-Identifier: Apache-2.0
//! `[matrix.budget]`.

use serde::Serialize;
use units::{Bytes, Span};

/// What all cells together may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The cells' own time, in all calls together.
    pub time: Option<Span>,
    /// What the results take, with the data of the cell that runs.
    pub disk: Option<Bytes>,
}
