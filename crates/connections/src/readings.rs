// SPDX-License-Identifier: Apache-2.0
//! What was read of a server, before any arithmetic.

use crate::Account;
use capability::{Flavour, Version};
use ledger::Missing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The observations of one server, over one or many looks. No figure counts the connection that asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerReading {
    pub flavour: Flavour,
    pub version: Version,
    /// Settings by name, as the server tells them.
    pub variables: BTreeMap<String, String>,
    /// Counters by name, read after the last look.
    pub status: BTreeMap<String, String>,
    /// The account that asked. `None`: the server does not say.
    pub own: Option<Account>,
    /// Every account, also those that nobody uses. `None`: the server does not show them to the account that asked.
    pub accounts: Option<Vec<AccountSeen>>,
    /// The databases, for PostgreSQL.
    pub databases: Vec<DatabaseSeen>,
    /// In their order; the last one is "now".
    pub looks: Vec<Look>,
    /// pgBouncer in front of it. `None`: there is none, or its console was not reached.
    pub pooler: Option<PoolerSeen>,
    pub missing: Vec<Missing>,
}

/// One account and its own limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountSeen {
    pub account: Account,
    /// As it is stored: MySQL's and MariaDB's 0 and PostgreSQL's -1 mean no limit.
    pub limit: i64,
    /// The rights of the account that concern limits: `SUPER`, `CONNECTION_ADMIN`, `superuser`, `pg_use_reserved_connections`.
    pub rights: Vec<String>,
    /// False: a role without LOGIN, or a locked account.
    pub may_log_in: bool,
}

/// A database of PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseSeen {
    pub name: String,
    /// As it is stored: -1 means no limit, -2 a database that cannot be connected to.
    pub limit: i64,
}

/// The connections at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Microseconds after the first look.
    pub at_us: u64,
    /// The connections of the whole server, by its own counter. `None`: the server has not answered.
    pub in_use: Option<u64>,
    pub sessions: Vec<Sessions>,
}

impl Look {
    /// Joins the sessions with the same user, client and database; their processes are no longer known then. There may be many looks with many
    /// sessions.
    pub fn group(&mut self) {
        let mut groups: BTreeMap<_, (u64, Option<u64>)> = BTreeMap::new();
        for it in self.sessions.drain(..) {
            let group = groups.entry((it.user, it.client, it.database)).or_default();
            *group = (group.0 + it.count, group.1.max(it.bytes_max));
        }
        let sessions = |((user, client, database), (count, bytes_max))| Sessions {
            user,
            client,
            database,
            pid: None,
            count,
            bytes_max,
        };
        self.sessions = groups.into_iter().map(sessions).collect();
    }
}

/// Connections that have the same user, client and database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    pub user: String,
    /// The client's host, without its port, as MySQL and MariaDB show it.
    pub client: Option<String>,
    /// The database, for PostgreSQL.
    pub database: Option<String>,
    /// The backend's process, for PostgreSQL.
    pub pid: Option<u32>,
    pub count: u64,
    /// The most memory that one of them has had. `None`: no source says it.
    pub bytes_max: Option<u64>,
}

/// What pgBouncer's console says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolerSeen {
    /// `SHOW CONFIG`, by key.
    pub config: BTreeMap<String, String>,
    /// `SHOW LISTS`, by name: `used_clients`, `used_servers`, ...
    pub lists: BTreeMap<String, u64>,
    /// `SHOW POOLS`, in the last look.
    pub pools: Vec<PoolSeen>,
    /// The most clients at one look.
    pub clients_peak: u64,
    /// Whether this version does not show the limits of single databases: `SHOW DATABASES` has no column `max_connections`.
    #[serde(default)]
    pub hides_database_limits: bool,
    /// Whether this version does not show the limits of single users: `SHOW USERS` has no column `max_user_connections`.
    #[serde(default)]
    pub hides_user_limits: bool,
}

impl PoolerSeen {
    /// The limits of single users from another source, where the console does not show them. A user who is not among them has none of its own.
    pub fn learn_user_limits(&mut self, limits: &BTreeMap<String, u64>) {
        if !self.hides_user_limits {
            return;
        }
        self.pools.iter_mut().for_each(|pool| pool.max_user_connections = limits.get(&pool.user).copied());
        self.hides_user_limits = false;
    }
}

/// The pool of one database and one user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSeen {
    pub database: String,
    pub user: String,
    pub clients_active: u64,
    /// Clients that wait for a connection to the server.
    pub clients_waiting: u64,
    /// Connections to the server, busy or idle.
    pub servers: u64,
    /// The pool size of the database in `SHOW DATABASES`. `None`: not told.
    pub pool_size: Option<u64>,
    /// `SHOW DATABASES`: max_connections of the database; 0: no limit.
    pub max_connections: Option<u64>,
    /// `SHOW DATABASES`: the reserve of each pool of the database. `None`: not told.
    #[serde(default)]
    pub reserve: Option<u64>,
    /// `SHOW USERS`: max_user_connections of the user; 0: no limit. `None`: not told.
    #[serde(default)]
    pub max_user_connections: Option<u64>,
}
