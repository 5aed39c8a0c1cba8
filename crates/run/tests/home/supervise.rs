// SPDX-License-Identifier: Apache-2.0
//! What the tests tell the supervisor of their program.

use host::process::Order;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Serialize, Deserialize)]
pub(crate) struct Supervise {
    pub(crate) home: PathBuf,
    pub(crate) value: String,
    /// Or `refuse`.
    pub(crate) seconds: String,
}

impl Order for Supervise {
    const ROLE: &'static str = "supervise";
    type Ready = run::supervise::Said<u32>;
}
