// SPDX-License-Identifier: Apache-2.0
//! Clients that run beside an arm's load: they have an account of their own, and open connections at a rate.

use serde::Serialize;

/// Clients of one account. The run creates the account. It may read and write the tables, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// The account's name in the server.
    pub account: String,
    /// New connections a second.
    pub rate: f64,
    /// True: connections are never closed, as by a client that leaks them. False: each connection sends `SELECT 1` and is closed.
    pub keep: bool,
    /// The clients open no more connections when this many are open.
    pub most: u32,
}
