// SPDX-License-Identifier: Apache-2.0
//! What is compared.

use serde::{Deserialize, Serialize};

/// The figure that half of the allowed error is for.
pub const THROUGHPUT: &str = "throughput";

/// One fresh start on a fresh clone of the data, and what was measured of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Repeats of both sides with the same number ran close to each other in time, on the same host. `None`: nobody knows what ran beside it.
    #[serde(default)]
    pub block: Option<u32>,
    /// No two have the same name. One that a repeat lacks was not measured there.
    pub figures: Vec<Figure>,
}

/// One number that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// [`THROUGHPUT`], `p99`, `reads a query`, ...
    pub name: String,
    /// `queries/s`, `us`, `share`, ...: the same on both sides.
    pub unit: String,
    /// Finite; what is not counts as not measured.
    pub value: f64,
    /// How far two neighbouring values are apart that can be told from each other, over the value: a percentile out of a histogram is known only to
    /// a bucket. 0: exact. Intervals are wider by it.
    #[serde(default)]
    pub resolution: f64,
}

impl Figure {
    /// Exact.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), unit: unit.into(), value, resolution: 0.0 }
    }
}
