// SPDX-License-Identifier: Apache-2.0
//! The relation of an account to the limits: the limit that holds for it, its right to exceed the limit, and whether it is the server's own account.

use crate::{Account, AccountSeen, AccountUse, ServerReading};
use capability::{Capability, Flavour, Protocol, words};

/// Accounts that a server makes for itself.
const OF_THE_SERVER: [&str; 5] = ["mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys", "PUBLIC"];

/// The right of PostgreSQL to the connections of `reserved_connections`. Its members are ordinary roles otherwise: their limits hold.
const OF_A_MEMBER: &str = "pg_use_reserved_connections";

/// A number among the settings.
pub(crate) fn setting(seen: &ServerReading, name: &str) -> Option<i64> {
    seen.variables.get(name)?.trim().parse().ok()
}

/// A number among the settings that is not below zero.
pub(crate) fn count(seen: &ServerReading, name: &str) -> Option<u64> {
    setting(seen, name).and_then(|value| u64::try_from(value).ok())
}

/// The stored limit as a number of connections; `None`: the account has no limit of its own.
pub(crate) fn own_limit(seen: &ServerReading, limit: i64) -> Option<u64> {
    let value = u64::try_from(limit).ok()?;
    (value > 0 || seen.flavour.protocol() == Protocol::Postgresql).then_some(value)
}

/// The limit of every account without a limit of its own: `max_user_connections`. `None`: no limit. MariaDB lets in nobody but administrators when it is
/// below zero.
pub(crate) fn default_limit(seen: &ServerReading) -> Option<u64> {
    match setting(seen, "max_user_connections")? {
        below if below < 0 => (seen.flavour == Flavour::Mariadb).then_some(0),
        limit => u64::try_from(limit).ok().filter(|limit| *limit > 0),
    }
}

/// The right of the account by which it may exceed its own limit, if it has one.
pub(crate) fn exempting_right<'a>(seen: &ServerReading, account: &'a AccountSeen) -> Option<&'a str> {
    has_one_of(account, words(Capability::BeyondAccountLimit, seen.flavour, &seen.version))
}

/// The right of the account by which it may connect when all connections for ordinary accounts are taken, if it has one. A right to a
/// reserve of 0 connections is none.
pub(crate) fn reserve_right<'a>(seen: &ServerReading, account: &'a AccountSeen) -> Option<&'a str> {
    let is_empty = count(seen, "reserved_connections").unwrap_or(0) == 0;
    has_one_of(account, words(Capability::ConnectionReserve, seen.flavour, &seen.version))
        .filter(|right| *right != OF_A_MEMBER || !is_empty)
}

/// Whether the account takes its connections from those that ordinary accounts have together: it may log in, and is neither the server's own nor an
/// administrator's.
pub(crate) fn is_ordinary(used: &AccountUse) -> bool {
    let is_administrators =
        used.exempt_by.is_some() || used.reserve_by.as_deref().is_some_and(|right| right != OF_A_MEMBER);
    used.may_log_in && !used.is_the_servers_own && !is_administrators
}

fn has_one_of<'a>(account: &'a AccountSeen, rights: &[&str]) -> Option<&'a str> {
    account.rights.iter().map(String::as_str).find(|right| rights.contains(right))
}

/// The limit that holds; `None`: only the server's limit.
pub(crate) fn holding(seen: &ServerReading, account: &AccountSeen) -> Option<u64> {
    if exempting_right(seen, account).is_some() {
        return None;
    }
    // check_for_max_user_connections of sql/sql_connect.cc, MariaDB 10.11: the variable is not for its administrators
    let is_above_default = seen.flavour == Flavour::Mariadb && reserve_right(seen, account).is_some();
    own_limit(seen, account.limit).or_else(|| default_limit(seen).filter(|_| !is_above_default))
}

pub(crate) fn is_the_servers(account: &Account) -> bool {
    OF_THE_SERVER.contains(&account.user.as_str()) || account.host.is_none() && account.user.starts_with("pg_")
}
