// SPDX-License-Identifier: Apache-2.0
//! What a sweep is to do: plain data.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub name: String,
    pub description: String,
    /// The keys of [`Planned::values`], in the order in which they are shown.
    pub keys: Vec<String>,
    /// Keys that vary together: settings that differ in one of these groups are compared.
    pub groups: Vec<Vec<String>>,
    /// No two have the same id. Where there are too many settings to compare all pairs, the others are compared with the first one.
    pub settings: Vec<Planned>,
    /// The number of blocks; each block runs every setting once.
    pub blocks: u32,
    /// The seed of the order.
    pub seed: u64,
    pub budget: Budget,
}

/// One setting.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Settings that run the same have the same id. Part of file names.
    pub id: String,
    /// The keys and values by which it differs from the other settings.
    pub values: BTreeMap<String, String>,
    /// Bytes of the disk that one cell of this setting needs while it runs.
    pub disk_bytes: u64,
}

/// What all cells together may use. `None`: as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Time of the cells and of waiting for a quiet host, in all calls together.
    pub time_us: Option<u64>,
    /// Bytes of the folder, and of the data of the next cell.
    pub disk_bytes: Option<u64>,
}
