// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// One round of a scan: the file is read once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub bytes: u64,
    pub seconds: f64,
    pub bytes_per_second: f64,
    pub cpu_seconds: f64,
    /// The part of the file that is in the page cache, 0 to 1.
    pub cached_before: f64,
    pub cached_after: f64,
}
