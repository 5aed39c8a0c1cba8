// SPDX-License-Identifier: Apache-2.0
//! Explains an error by the present values of the limits that it may have hit.

use crate::refusal::{Limit, Refusal, refusal};
use crate::{AccountUse, Audit};
use serde::Serialize;

/// A refusal, and the present values of the limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    pub code: &'static str,
    pub means: &'static str,
    /// `None`: no server was looked at. Empty: the server has no such limit now.
    pub hits: Option<Vec<Hit>>,
    /// The limits that the text names, also without a server.
    pub limits: Vec<Limit>,
}

/// One limit as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// `max_connections`, `MAX_USER_CONNECTIONS of app@%`, ...
    pub limit: String,
    /// `None`: none is set now.
    pub value: Option<u64>,
    pub in_use: Option<u64>,
    pub peak: Option<u64>,
}

/// `None`: the text says nothing of a limit of connections.
pub fn explain(text: &str, audit: Option<&Audit>) -> Option<Explained> {
    let Refusal { code, means, limits } = refusal(text)?;
    let hits = audit.map(|audit| limits.iter().flat_map(|limit| hits(limit, audit)).collect());
    Some(Explained { code, means, hits, limits })
}

fn hits(limit: &Limit, audit: &Audit) -> Vec<Hit> {
    let server = &audit.server;
    let hit = |limit: &str, value, in_use, peak| vec![Hit { limit: limit.to_owned(), value, in_use, peak }];
    match limit {
        Limit::Server => hit("max_connections", server.limit, server.in_use, server.peak),
        Limit::ServerWithoutReserve => {
            hit("max_connections without the reserve", server.ordinary, server.in_use, server.peak)
        }
        Limit::ServerWithoutSuperusers => {
            let value = server.limit.map(|limit| limit.saturating_sub(server.reserve.of_superusers));
            hit("max_connections without superuser_reserved_connections", value, server.in_use, server.peak)
        }
        Limit::AccountDefault { user } => {
            let mut all = hit("max_user_connections", server.account_default, None, None);
            all.extend(accounts(audit, user.as_deref(), |it| it.limit.is_none()));
            all
        }
        Limit::Account { user } => accounts(audit, user.as_deref(), |it| user.is_some() || it.limit.is_some()),
        Limit::Database { database } => databases(audit, database.as_deref()),
        Limit::PoolerClients => {
            let Some(pooler) = &audit.pooler else { return Vec::new() };
            hit("max_client_conn of pgBouncer", pooler.max_client_conn, Some(pooler.clients), Some(pooler.clients_peak))
        }
        Limit::PoolerServers => pools(audit),
        Limit::Other { .. } => Vec::new(),
    }
}

fn accounts(audit: &Audit, user: Option<&str>, is_meant: impl Fn(&AccountUse) -> bool) -> Vec<Hit> {
    let is_of =
        |it: &&AccountUse| user.map_or(it.in_use > 0 || it.peak > 0 || it.limit.is_some(), |user| it.user == user);
    let of = |it: &AccountUse| Hit {
        limit: format!("the limit of {}", it.account),
        value: it.limit_that_holds,
        in_use: Some(it.in_use),
        peak: Some(it.peak),
    };
    audit
        .accounts
        .iter()
        .filter(|it| it.may_log_in && !it.is_the_servers_own)
        .filter(is_of)
        .filter(|it| is_meant(it))
        .map(of)
        .collect()
}

fn databases(audit: &Audit, name: Option<&str>) -> Vec<Hit> {
    let is_meant = |it: &&crate::DatabaseUse| name.map_or(it.limit.is_some(), |name| it.database == name);
    let of = |it: &crate::DatabaseUse| Hit {
        limit: format!("the limit of database {}", it.database),
        value: it.limit,
        in_use: Some(it.in_use),
        peak: Some(it.peak),
    };
    audit.databases.iter().filter(is_meant).map(of).collect()
}

fn pools(audit: &Audit) -> Vec<Hit> {
    let of = |it: &crate::PoolUse| Hit {
        limit: format!("the pool of {} in {}", it.user, it.database),
        value: it.limit,
        in_use: Some(it.servers),
        peak: None,
    };
    audit.pooler.iter().flat_map(|pooler| &pooler.pools).map(of).collect()
}
