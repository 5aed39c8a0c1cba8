// SPDX-License-Identifier: Apache-2.0
use serde::Serialize;

/// One account, or role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountUse {
    /// `app@%`, or the role's name.
    pub account: String,
    pub user: String,
    pub host: Option<String>,
    /// The account's own limit. `None`: it has none.
    pub limit: Option<u64>,
    /// The limit that holds for the account: its own, or `max_user_connections`. `None`: only the server's limit.
    pub limit_that_holds: Option<u64>,
    /// The right by which the account may exceed every limit of an account.
    pub exempt_by: Option<String>,
    /// The right by which the account may use the reserve.
    pub reserve_by: Option<String>,
    pub may_log_in: bool,
    pub is_the_servers_own: bool,
    pub in_use: u64,
    pub peak: u64,
    /// The most memory that one of its connections has had. `None`: no source says it.
    pub session_bytes_max: Option<u64>,
}
