// SPDX-License-Identifier: Apache-2.0
//! The repeats and figures that are compared.

use serde::{Deserialize, Serialize};

/// The figure that gets half of the allowed error.
pub const THROUGHPUT: &str = "throughput";

/// One repeat: a fresh start of the server on a fresh clone of the data, and its figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Repeats of both sides with the same number ran close to each other in time, on the same host. `None`: it is not known which repeats ran at the same time.
    #[serde(default)]
    pub block: Option<u32>,
    /// No two figures have the same name. A figure that a repeat does not have was not measured in it.
    pub figures: Vec<Figure>,
}

/// One number that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// [`THROUGHPUT`], `p99`, `reads a query`, ...
    pub name: String,
    /// `queries/s`, `us`, `share`, ...: the same on both sides.
    pub unit: String,
    /// A finite number; a figure with another value counts as not measured.
    pub value: f64,
    /// The distance of two neighbouring values that can be distinguished, divided by the value: a percentile of a histogram is known only to a
    /// bucket. 0: exact. Intervals are made wider by it.
    #[serde(default)]
    pub resolution: f64,
}

impl Figure {
    /// A figure that is known exactly.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), unit: unit.into(), value, resolution: 0.0 }
    }
}

/// The typical value of several: their geometric mean; the plain mean where one of them is not above 0.
pub fn typical(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    match values.iter().all(|value| *value > 0.0) {
        true => (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(),
        false => values.iter().sum::<f64>() / count,
    }
}
