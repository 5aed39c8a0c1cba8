// SPDX-License-Identifier: Apache-2.0
//! What runs beside an arm's load: clients with an account of their own that open connections at a rate.

use serde::Serialize;

/// Clients of one account. The run makes the account; it may read and write the tables, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// Its name in the server.
    pub account: String,
    /// New connections a second.
    pub rate: f64,
    /// Never close one: a client that leaks. Else each sends `SELECT 1` and is closed.
    pub keep: bool,
    /// It opens no more when it has so many open.
    pub most: u32,
}
