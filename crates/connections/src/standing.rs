// SPDX-License-Identifier: Apache-2.0
//! How an account stands to the limits: which one holds for it, whether it may go beyond, whether it is the server's own.

use crate::{Account, AccountSeen, Seen};
use capability::{Capability, Protocol, words};

/// Accounts that a server makes for itself.
const OF_THE_SERVER: [&str; 5] = ["mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys", "PUBLIC"];

/// A number among the settings.
pub(crate) fn setting(seen: &Seen, name: &str) -> Option<i64> {
    seen.variables.get(name)?.trim().parse().ok()
}

/// Never below zero.
pub(crate) fn count(seen: &Seen, name: &str) -> Option<u64> {
    setting(seen, name).and_then(|value| u64::try_from(value).ok())
}

/// The stored limit as a number of connections; `None`: none of its own.
pub(crate) fn own_limit(seen: &Seen, limit: i64) -> Option<u64> {
    let value = u64::try_from(limit).ok()?;
    (value > 0 || seen.flavour.protocol() == Protocol::Postgresql).then_some(value)
}

/// What every account without a limit of its own has: `max_user_connections`. `None`: nothing.
pub(crate) fn default_limit(seen: &Seen) -> Option<u64> {
    count(seen, "max_user_connections").filter(|limit| *limit > 0)
}

/// Which of its rights let it go beyond its own limit.
pub(crate) fn exempting_right<'a>(seen: &Seen, account: &'a AccountSeen) -> Option<&'a str> {
    has_one_of(account, words(Capability::BeyondAccountLimit, seen.flavour, &seen.version))
}

/// Which of its rights let it in when all connections for ordinary accounts are taken.
pub(crate) fn reserve_right<'a>(seen: &Seen, account: &'a AccountSeen) -> Option<&'a str> {
    has_one_of(account, words(Capability::ConnectionReserve, seen.flavour, &seen.version))
}

fn has_one_of<'a>(account: &'a AccountSeen, rights: &[&str]) -> Option<&'a str> {
    account.rights.iter().map(String::as_str).find(|right| rights.contains(right))
}

/// The limit that holds; `None`: none but the server's.
pub(crate) fn holding(seen: &Seen, account: &AccountSeen) -> Option<u64> {
    if exempting_right(seen, account).is_some() {
        return None;
    }
    own_limit(seen, account.limit).or_else(|| default_limit(seen))
}

pub(crate) fn is_the_servers(account: &Account) -> bool {
    OF_THE_SERVER.contains(&account.user.as_str()) || account.host.is_none() && account.user.starts_with("pg_")
}
