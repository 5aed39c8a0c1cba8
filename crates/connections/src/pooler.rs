// SPDX-License-Identifier: Apache-2.0
//! Limits and use of pgBouncer.

use crate::{PoolSeen, PoolerSeen};
use ledger::Missing;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// The most connections to the server that the present pools may make together, within the limits of their databases and users. `None`: a size or a limit
    /// is not told.
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
        let reserve = pool.reserve.or(reserve).unwrap_or(0);
        let limit = pool.pool_size.or(size).map(|size| size.saturating_add(reserve));
        PoolUse {
            database: pool.database.clone(),
            user: pool.user.clone(),
            clients_active: pool.clients_active,
            clients_waiting: pool.clients_waiting,
            servers: pool.servers,
            limit,
        }
    };
    let seen_pools = || seen.pools.iter().filter(|pool| pool.database != CONSOLE);
    let pools: Vec<PoolUse> = seen_pools().map(of).collect();
    let (of_database, of_user) = (number("max_db_connections"), number("max_user_connections"));
    let capped = || seen_pools().zip(&pools);
    let by_database = allowed(
        capped().map(|(seen, pool)| (pool.database.as_str(), pool.limit, seen.max_connections.or(of_database))),
    );
    let by_user =
        allowed(capped().map(|(seen, pool)| (pool.user.as_str(), pool.limit, seen.max_user_connections.or(of_user))));
    let servers_allowed = [by_database, by_user].into_iter().flatten().min();
    let servers_allowed = servers_allowed.filter(|_| pools.is_empty() || hidden(seen).is_empty());
    PoolerUse {
        max_client_conn: number("max_client_conn"),
        default_pool_size: size,
        reserve_pool_size: reserve,
        max_db_connections: of_database,
        max_user_connections: of_user,
        clients: seen.lists.get("used_clients").copied().unwrap_or(0),
        clients_peak: seen.clients_peak,
        servers: pools.iter().map(|pool| pool.servers).sum(),
        servers_allowed,
        pools,
    }
}

/// The limits that this version of the console does not show.
pub(crate) fn hidden(seen: &PoolerSeen) -> Vec<Missing> {
    let missing = |whose: &str, command: &str, column: &str, section: &str| Missing {
        what: format!("pgBouncer's limits of single {whose}"),
        why: format!(
            "{command} of this version has no column {column}, so how many connections its pools may make is not known"
        ),
        remedy: Some(format!("the section [{section}] of pgbouncer.ini, or a later version of pgBouncer")),
    };
    let of_databases = || missing("databases", "SHOW DATABASES", "max_connections", "databases");
    let of_users = || missing("users", "SHOW USERS", "max_user_connections", "users");
    let of_databases = seen.hides_database_limits.then(of_databases);
    of_databases.into_iter().chain(seen.hides_user_limits.then(of_users)).collect()
}

/// The sum over all databases, or over all users: of each the limits of its pools together, and not more than its own limit, where it has one above 0.
/// Each pool is the name of its database or user, its limit, and the limit of that name. `None`: a limit is not told.
fn allowed<'a>(pools: impl Iterator<Item = (&'a str, Option<u64>, Option<u64>)>) -> Option<u64> {
    let mut each: BTreeMap<&str, (Option<u64>, Option<u64>)> = BTreeMap::new();
    for (name, limit, cap) in pools {
        let (sum, known_cap) = each.entry(name).or_insert((Some(0), None));
        *sum = sum.zip(limit).map(|(sum, limit)| sum.saturating_add(limit));
        *known_cap = cap.filter(|cap| *cap > 0);
    }
    let of_name = |(sum, cap): (Option<u64>, Option<u64>)| [sum, cap].into_iter().flatten().min();
    each.into_values().map(of_name).try_fold(0_u64, |all, one| Some(all.saturating_add(one?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(database: &str, user: &str) -> PoolSeen {
        PoolSeen { database: database.into(), user: user.into(), pool_size: Some(20), ..PoolSeen::default() }
    }

    fn allowed(config: &[(&str, &str)], pools: &[PoolSeen]) -> Option<u64> {
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        pooler(&PoolerSeen { config, pools: pools.to_vec(), ..PoolerSeen::default() }).servers_allowed
    }

    #[test]
    fn pools_make_no_more_connections_than_their_databases_and_users_may_have() {
        let pools = [pool("shop", "app"), pool("shop", "batch"), pool("stock", "app")];
        assert_eq!(allowed(&[("max_db_connections", "0"), ("max_user_connections", "0")], &pools), Some(60));
        assert_eq!(allowed(&[("max_db_connections", "25")], &pools), Some(25 + 20));
        assert_eq!(allowed(&[("max_user_connections", "15")], &pools), Some(15 + 15));
        assert_eq!(allowed(&[("max_db_connections", "10"), ("max_user_connections", "15")], &pools), Some(10 + 10));
        let own = |max_connections| PoolSeen { max_connections, ..pool("shop", "app") };
        assert_eq!(allowed(&[("max_db_connections", "5")], &[own(Some(12))]), Some(12), "the database's own limit");
        assert_eq!(allowed(&[], &[own(Some(0))]), Some(20), "0 is no limit");
        let of_user = PoolSeen { max_user_connections: Some(3), ..pool("shop", "app") };
        assert_eq!(allowed(&[("max_user_connections", "5")], &[of_user]), Some(3), "the user's own limit");
        assert_eq!(allowed(&[("max_db_connections", "5")], &[pool("pgbouncer", "admin")]), Some(0));
    }

    #[test]
    fn the_reserve_of_a_database_comes_before_that_of_all() {
        let reserved = |reserve| allowed(&[("reserve_pool_size", "4")], &[PoolSeen { reserve, ..pool("shop", "app") }]);
        assert_eq!([reserved(None), reserved(Some(7)), reserved(Some(0))], [Some(24), Some(27), Some(20)]);
    }

    #[test]
    fn a_size_that_is_not_told_is_bounded_by_a_cap_or_not_known() {
        let unknown = PoolSeen { pool_size: None, ..pool("shop", "app") };
        assert_eq!(allowed(&[], std::slice::from_ref(&unknown)), None);
        assert_eq!(allowed(&[("max_db_connections", "5")], &[unknown, pool("stock", "app")]), Some(5 + 5));
    }

    /// pgBouncer 1.18: its `[users]` may give `app` 4 connections, and its console does not tell.
    #[test]
    fn limits_that_the_console_does_not_show_are_not_guessed() {
        let config = [("max_user_connections".to_owned(), "5".to_owned())].into();
        let mut seen = PoolerSeen { config, pools: vec![pool("shop", "app")], ..PoolerSeen::default() };
        let told = |seen: &PoolerSeen| (pooler(seen).servers_allowed, hidden(seen).len());
        assert_eq!(told(&seen), (Some(5), 0));
        seen.hides_user_limits = true;
        assert_eq!(told(&seen), (None, 1));
        assert_eq!(
            pooler(&PoolerSeen { pools: Vec::new(), ..seen.clone() }).servers_allowed,
            Some(0),
            "no pool, no limit"
        );
        let by_database = PoolerSeen { hides_user_limits: false, hides_database_limits: true, ..seen.clone() };
        assert_eq!(told(&by_database), (None, 1));
        seen.learn_user_limits(&[("app".to_owned(), 4)].into());
        assert_eq!(told(&seen), (Some(4), 0));
        seen.hides_user_limits = true;
        seen.learn_user_limits(&[("batch".to_owned(), 4)].into());
        assert_eq!(told(&seen), (Some(5), 0), "app has none of its own");
    }

    #[test]
    fn limits_that_the_console_shows_hold_before_those_of_another_source() {
        let own = PoolSeen { max_user_connections: Some(3), ..pool("shop", "app") };
        let mut seen = PoolerSeen { pools: vec![own], ..PoolerSeen::default() };
        seen.learn_user_limits(&[("app".to_owned(), 9)].into());
        assert_eq!(pooler(&seen).servers_allowed, Some(3));
    }
}
