// SPDX-License-Identifier: Apache-2.0
//! The mechanisms of a slow disk, and their cost.

use serde::Serialize;

/// How a program is made to see a slow disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    Fuse,
    Preload,
}

impl Mechanism {
    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::Preload => "preload",
        }
    }

    pub fn in_results(self) -> &'static str {
        match self {
            Self::Fuse => "fuse layer",
            Self::Preload => "preload layer",
        }
    }
}

/// What a slow layer may add to the median read when its delay is 0, in microseconds.
pub(crate) const LAYER_COST_US: f64 = 20.0;
