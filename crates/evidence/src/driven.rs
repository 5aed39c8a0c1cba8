// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program that was the load of an arm in place of Wringer's own: how it was started, how it ended, and what it said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// `sysbench`, `pgbench`, `command`.
    pub driver: String,
    /// The words it was started with, without the password.
    pub command: Vec<String>,
    /// 128 + n when signal n ended it.
    pub exit_code: i32,
    /// From its start to its end by our clock: connecting, and what else it does beside its load, is in it.
    pub elapsed_us: u64,
    /// CPU of the program and of what it waited for.
    pub client_user_us: u64,
    pub client_system_us: u64,
    /// Whose form of output its own was found to be: `sysbench 1.0.20`. `None`: in none that is known.
    pub understood: Option<String>,
    /// Its own figures, with the unit in the name: `latency_p95_us`, `transactions_per_second`.
    pub figures: BTreeMap<String, f64>,
    /// What it wrote, as it came.
    #[serde(default)]
    pub outputs: Vec<Output>,
}

/// One stream of what a program wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `sysbench.stdout`.
    pub name: String,
    pub text: String,
    /// So many bytes in the middle were not kept; a line in the text says where.
    pub left_out_bytes: u64,
}
