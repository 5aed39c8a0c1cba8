// SPDX-License-Identifier: Apache-2.0
//! High-water marks that a server keeps itself, by account and by statement; settings that accounts have larger than the server.

use serde::{Deserialize, Serialize};

/// High-water marks since the server's start, or since they were reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    pub accounts: Vec<AccountMark>,
    /// The statements with the largest marks, the largest first.
    pub statements: Vec<StatementMark>,
}

/// A row of performance_schema.accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountMark {
    /// `user@host`.
    pub account: String,
    /// Connections that are open.
    pub connections: u64,
    /// The most that one session has held, in bytes; `None`: the server does not say it.
    pub session_bytes_max: Option<u64>,
}

/// A row of performance_schema.events_statements_summary_by_digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementMark {
    pub schema: Option<String>,
    pub digest: String,
    /// With `?` for each value, shortened.
    pub text: String,
    pub count: u64,
    /// The most that one run of it has held, in bytes.
    pub bytes_max: u64,
}

/// A setting of PostgreSQL for which a role or a database has a larger value than the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    pub name: String,
    /// As in the server's settings: `512MB`.
    pub value: String,
    /// `role app`, `database shop`, `role app in database shop`.
    pub by: String,
}
