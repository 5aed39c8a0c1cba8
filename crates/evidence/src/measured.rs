// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// Asked, predicted and got, side by side, for one thing that was squeezed or filled (invariant 4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// On the run's clock.
    pub at_us: u64,
    /// `None`: true of the whole run.
    pub arm: Option<String>,
    /// `ram.hidden`, `disk.read.median`, `fill.size`, ...
    pub what: String,
    /// `huge-page holder`, `fuse layer`, `cgroup v1`, ...
    pub mechanism: String,
    pub asked: Option<Quantity>,
    /// What the mechanism is expected to give on this host, where that differs from what was asked.
    pub predicted: Option<Quantity>,
    pub got: Option<Quantity>,
    /// How `got` was measured, by code that the change does not share.
    pub witness: String,
    /// `None`: nothing was promised, so nothing can be outside of it.
    pub within_tolerance: Option<bool>,
    /// The tolerance in words: `2 % of asked`.
    pub tolerance: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    pub value: f64,
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Bytes,
    Microseconds,
    Count,
    PerSecond,
    /// 0 to 1.
    Ratio,
}

impl Quantity {
    pub fn bytes(value: u64) -> Self {
        Self { value: value as f64, unit: Unit::Bytes }
    }

    pub fn micros(value: f64) -> Self {
        Self { value, unit: Unit::Microseconds }
    }

    pub fn count(value: f64) -> Self {
        Self { value, unit: Unit::Count }
    }
}
