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
    /// No two have the same id. The first one is what others are compared with, where there are too many for all pairs.
    pub settings: Vec<Planned>,
    /// Each runs every setting once.
    pub blocks: u32,
    /// Of the order.
    pub seed: u64,
    pub budget: Budget,
}

/// One setting.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The same as long as what it runs is the same. Part of file names.
    pub id: String,
    /// What makes it differ from the others.
    pub values: BTreeMap<String, String>,
    /// What one cell of it needs of the disk while it runs.
    pub disk_bytes: u64,
}

/// What all cells together may use. `None`: as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Time of the cells and of waiting for a quiet host, in all calls together.
    pub time_us: Option<u64>,
    /// What the folder takes, and what the next cell needs beside it.
    pub disk_bytes: Option<u64>,
}
