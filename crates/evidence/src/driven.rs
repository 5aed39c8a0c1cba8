// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program that was the load of an arm in place of Wringer's own load: how it was started, how it ended, and what it printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// `sysbench`, `pgbench`, `command`.
    pub driver: String,
    /// The program and its arguments, without the password.
    pub command: Vec<String>,
    /// 128 + n when signal n ended it.
    pub exit_code: i32,
    /// The time from the program's start to its end by our clock. It includes connecting, and all else that the program does beside its load.
    pub elapsed_us: u64,
    /// CPU time of the program and of the child processes that it waited for.
    pub client_user_us: u64,
    pub client_system_us: u64,
    /// The known form of output that the program's output has: `sysbench 1.0.20`. `None`: it has no known form.
    pub understood: Option<String>,
    /// The figures that the program printed, with the unit in the name: `latency_p95_us`, `transactions_per_second`.
    pub figures: BTreeMap<String, f64>,
    /// The output of the program, unchanged.
    #[serde(default)]
    pub outputs: Vec<Output>,
}

/// One output stream of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `sysbench.stdout`.
    pub name: String,
    pub text: String,
    /// The number of bytes in the middle that were not kept; a line in the text says where.
    pub left_out_bytes: u64,
}
