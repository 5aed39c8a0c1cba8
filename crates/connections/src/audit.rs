// SPDX-License-Identifier: Apache-2.0
//! Limits, use and peak side by side.

use crate::pooler::{PoolerUse, hidden, pooler};
use crate::pressure::{Pressure, pressure};
use crate::standing::{
    count, default_limit, exempting_right, holding, is_ordinary, is_the_servers, own_limit, reserve_right, setting,
};
use crate::usage::{Usage, Uses, uses};
use crate::{Account, AccountSeen, AccountUse, ServerReading};
use capability::{Capability, Flavour, Protocol, words};
use ledger::Missing;
use serde::Serialize;

/// The audit of one server. No figure counts the connection that asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    pub flavour: Flavour,
    pub version: String,
    /// The number of looks at the connections.
    pub looks: u64,
    /// From the first look to the last.
    pub looked_us: u64,
    pub server: ServerUse,
    pub accounts: Vec<AccountUse>,
    pub databases: Vec<DatabaseUse>,
    /// Sessions for which no account was found.
    pub unassigned: Vec<Unassigned>,
    pub pooler: Option<PoolerUse>,
    pub overbooking: Overbooking,
    pub pressure: Vec<Pressure>,
    pub missing: Vec<Missing>,
}

/// The whole server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerUse {
    /// `max_connections`. `None`: not told.
    pub limit: Option<u64>,
    /// The part of `limit` that all ordinary accounts may have together.
    pub ordinary: Option<u64>,
    pub reserve: Reserve,
    /// `max_user_connections`, for each account without a limit of its own. `None`: no such limit.
    pub account_default: Option<u64>,
    /// `None`: not seen.
    pub in_use: Option<u64>,
    pub peak: Option<u64>,
}

/// Connections that ordinary accounts do not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reserve {
    /// Connections inside of `max_connections`.
    pub inside: u64,
    /// Those of `inside` that superusers alone get: `superuser_reserved_connections` of PostgreSQL.
    pub of_superusers: u64,
    /// Connections above `max_connections`.
    pub beside: u64,
    pub for_whom: String,
    /// `extra_port`, `admin_port`: a second port, with connections of its own. `None`: not set up.
    pub second_port: Option<u64>,
    /// `extra_max_connections` of MariaDB. `None`: no second port, or it has no such limit.
    pub second_port_limit: Option<u64>,
}

/// A database of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseUse {
    pub database: String,
    /// `None`: no limit.
    pub limit: Option<u64>,
    pub in_use: u64,
    pub peak: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unassigned {
    pub user: String,
    pub client: String,
    pub in_use: u64,
    pub peak: u64,
}

/// Whether accounts are promised more than there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overbooking {
    /// The sum over ordinary accounts: they may log in, and are neither the server's own nor administrators'.
    pub limits_sum: u64,
    /// How many of them have a limit that holds.
    pub limited: u64,
    /// The accounts among them for which no limit holds: each of them can take all connections.
    pub unlimited: Vec<String>,
    /// `None`: the server's limit, or the accounts, are not known.
    pub is_overbooked: Option<bool>,
}

/// Audits what was seen.
pub fn audit(seen: &ServerReading) -> Audit {
    let uses = uses(seen);
    let server = server(seen, &uses);
    let accounts: Vec<AccountUse> =
        seen.accounts.iter().flatten().map(|account| of_account(seen, &uses, account)).collect();
    let at = |look: Option<&crate::Look>| look.map_or(0, |look| look.at_us);
    Audit {
        flavour: seen.flavour,
        version: seen.version.to_string(),
        looks: seen.looks.len() as u64,
        looked_us: at(seen.looks.last()) - at(seen.looks.first()).min(at(seen.looks.last())),
        overbooking: overbooking(&accounts, server.ordinary, seen.accounts.is_some()),
        server,
        accounts,
        databases: databases(seen, &uses),
        unassigned: unassigned(&uses),
        pooler: seen.pooler.as_ref().map(pooler),
        pressure: pressure(seen),
        missing: seen.missing.iter().cloned().chain(seen.pooler.iter().flat_map(hidden)).collect(),
    }
}

fn server(seen: &ServerReading, uses: &Uses) -> ServerUse {
    let reserve = reserve(seen);
    let limit = count(seen, "max_connections");
    ServerUse {
        limit,
        ordinary: limit.map(|limit| limit.saturating_sub(reserve.inside)),
        reserve,
        account_default: default_limit(seen),
        in_use: uses.server.map(|usage| usage.in_use),
        peak: uses.server.map(|usage| usage.peak),
    }
}

fn reserve(seen: &ServerReading) -> Reserve {
    let ports = ["extra_port", "admin_port"];
    let has_listener =
        |name: &&&str| **name != "admin_port" || seen.variables.get("admin_address").is_some_and(|it| !it.is_empty());
    let port = ports.iter().filter(has_listener).find_map(|name| count(seen, name)).filter(|port| *port > 0);
    let second_port_limit = port.and_then(|_| count(seen, "extra_max_connections"));
    match seen.flavour.protocol() {
        Protocol::Mysql => {
            let for_whom = words(Capability::ConnectionReserve, seen.flavour, &seen.version).join(", ");
            Reserve { inside: 0, of_superusers: 0, beside: 1, for_whom, second_port: port, second_port_limit }
        }
        Protocol::Postgresql => {
            let of = |name| count(seen, name).unwrap_or(0);
            let of_superusers = of("superuser_reserved_connections");
            let inside = of_superusers + of("reserved_connections");
            let for_whom = if setting(seen, "reserved_connections").is_some_and(|it| it > 0) {
                "superusers, and members of pg_use_reserved_connections"
            } else {
                "superusers"
            };
            let for_whom = for_whom.to_owned();
            Reserve { inside, of_superusers, beside: 0, for_whom, second_port: None, second_port_limit: None }
        }
    }
}

fn of_account(seen: &ServerReading, uses: &Uses, account: &AccountSeen) -> AccountUse {
    let Account { user, host } = account.account.clone();
    let Usage { in_use, peak, bytes_max } = uses.accounts.get(&account.account).copied().unwrap_or_default();
    AccountUse {
        account: account.account.to_string(),
        user,
        host,
        limit: own_limit(seen, account.limit),
        limit_that_holds: holding(seen, account),
        exempt_by: exempting_right(seen, account).map(str::to_owned),
        reserve_by: reserve_right(seen, account).map(str::to_owned),
        may_log_in: account.may_log_in,
        is_the_servers_own: is_the_servers(&account.account),
        in_use,
        peak,
        session_bytes_max: bytes_max,
    }
}

fn databases(seen: &ServerReading, uses: &Uses) -> Vec<DatabaseUse> {
    let of = |database: &crate::DatabaseSeen| {
        let usage = uses.databases.get(&database.name).copied().unwrap_or_default();
        DatabaseUse {
            database: database.name.clone(),
            limit: u64::try_from(database.limit).ok(),
            in_use: usage.in_use,
            peak: usage.peak,
        }
    };
    seen.databases.iter().map(of).collect()
}

fn unassigned(uses: &Uses) -> Vec<Unassigned> {
    let of = |((user, client), usage): (&(String, String), &Usage)| Unassigned {
        user: user.clone(),
        client: client.clone(),
        in_use: usage.in_use,
        peak: usage.peak,
    };
    uses.unassigned.iter().filter(|(_, usage)| usage.peak > 0).map(of).collect()
}

fn overbooking(accounts: &[AccountUse], ordinary: Option<u64>, are_known: bool) -> Overbooking {
    let ordinary_ones = || accounts.iter().filter(|it| is_ordinary(it));
    let limits_sum = ordinary_ones().filter_map(|it| it.limit_that_holds).fold(0_u64, u64::saturating_add);
    let limited = ordinary_ones().filter(|it| it.limit_that_holds.is_some()).count() as u64;
    let unlimited: Vec<String> =
        ordinary_ones().filter(|it| it.limit_that_holds.is_none()).map(|it| it.account.clone()).collect();
    let is_overbooked = ordinary.filter(|_| are_known).map(|ordinary| !unlimited.is_empty() || limits_sum > ordinary);
    Overbooking { limits_sum, limited, unlimited, is_overbooked }
}
