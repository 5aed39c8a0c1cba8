// SPDX-License-Identifier: Apache-2.0
//! Limits and use of pgBouncer.

use crate::{PoolSeen, PoolerSeen};
use serde::Serialize;

/// pgBouncer: how many clients it lets in, and how many connections to the server it makes for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolerUse {
    /// `None`: not told.
    pub max_client_conn: Option<u64>,
    /// Connections to the server for each pair of database and user.
    pub default_pool_size: Option<u64>,
    /// Further connections, for a pool whose clients have waited.
    pub reserve_pool_size: Option<u64>,
    /// For each database; 0: no such limit.
    pub max_db_connections: Option<u64>,
    /// For each user; 0: no such limit.
    pub max_user_connections: Option<u64>,
    pub clients: u64,
    pub clients_peak: u64,
    pub servers: u64,
    pub pools: Vec<PoolUse>,
    /// The server's connections that the present pools may take. `None`: a size is not told.
    pub servers_allowed: Option<u64>,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolUse {
    pub database: String,
    pub user: String,
    pub clients_active: u64,
    pub clients_waiting: u64,
    pub servers: u64,
    /// The limit with the reserve. `None`: not told.
    pub limit: Option<u64>,
}

/// The name of the console's own pool.
const CONSOLE: &str = "pgbouncer";

pub(crate) fn pooler(seen: &PoolerSeen) -> PoolerUse {
    let number = |key: &str| seen.config.get(key)?.trim().parse::<u64>().ok();
    let (size, reserve) = (number("default_pool_size"), number("reserve_pool_size"));
    let of = |pool: &PoolSeen| {
        let limit = pool.pool_size.or(size).map(|size| size + reserve.unwrap_or(0));
        PoolUse {
            database: pool.database.clone(),
            user: pool.user.clone(),
            clients_active: pool.clients_active,
            clients_waiting: pool.clients_waiting,
            servers: pool.servers,
            limit,
        }
    };
    let pools: Vec<PoolUse> = seen.pools.iter().filter(|pool| pool.database != CONSOLE).map(of).collect();
    PoolerUse {
        max_client_conn: number("max_client_conn"),
        default_pool_size: size,
        reserve_pool_size: reserve,
        max_db_connections: number("max_db_connections"),
        max_user_connections: number("max_user_connections"),
        clients: seen.lists.get("used_clients").copied().unwrap_or(0),
        clients_peak: seen.clients_peak,
        servers: pools.iter().map(|pool| pool.servers).sum(),
        servers_allowed: pools.iter().map(|pool| pool.limit).sum(),
        pools,
    }
}
