// SPDX-License-Identifier: Apache-2.0
//! Rights that an account has by its roles from the moment of its login (MySQL 8.0 and later): those of its default roles, of all its roles with
//! `activate_all_roles_on_login`, and of the roles that these were granted. `USER_PRIVILEGES` tells only what was granted to a name itself.

use super::Lost;
use super::asking::{Asking, Row, text};
use capability::{Capability, words};
use connections::ServerReading;
use std::collections::{BTreeMap, BTreeSet};

/// Rights by grantee.
type Rights = BTreeMap<String, Vec<String>>;

const DEFAULT_ROLES: &str = "SELECT USER, HOST, DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST FROM mysql.default_roles";
const GRANTED_ROLES: &str = "SELECT TO_USER, TO_HOST, FROM_USER, FROM_HOST FROM mysql.role_edges";

/// Adds the rights of roles to those of each account. A server without roles is not asked. `remedy`: the statement by which the account may ask.
pub(super) fn add(
    asking: &mut Asking<'_>,
    seen: &ServerReading,
    rights: &mut Rights,
    remedy: Option<&str>,
) -> Result<(), Lost> {
    if words(Capability::DefaultRoles, seen.flavour, &seen.version).is_empty() {
        return Ok(());
    }
    let mut read = |sql| asking.rows("rights of accounts by their roles", sql, remedy);
    let (default, granted) = (pairs(&read(DEFAULT_ROLES)?), pairs(&read(GRANTED_ROLES)?));
    let is_on = |name: &str| seen.variables.get(name).is_some_and(|value| ["ON", "1"].contains(&value.as_str()));
    let all_at_login = is_on("activate_all_roles_on_login");
    let mandatory = seen.variables.get("mandatory_roles").map(|list| named(list)).unwrap_or_default();
    let own = rights.clone();
    let mut accounts: BTreeSet<&String> = default.keys().chain(granted.keys()).collect();
    if all_at_login && !mandatory.is_empty() {
        accounts.extend(own.keys());
    }
    for account in accounts {
        let mut active: Vec<String> = match all_at_login {
            true => granted.get(account).into_iter().flatten().chain(&mandatory).cloned().collect(),
            false => default.get(account).into_iter().flatten().cloned().collect(),
        };
        let mut known = BTreeSet::new();
        while let Some(role) = active.pop() {
            active.extend(granted.get(&role).into_iter().flatten().filter(|it| !known.contains(*it)).cloned());
            if known.insert(role.clone()) {
                rights.entry(account.clone()).or_default().extend(own.get(&role).into_iter().flatten().cloned());
            }
        }
        rights.entry(account.clone()).or_default().dedup();
    }
    Ok(())
}

/// `'user'@'host'`, as `USER_PRIVILEGES` writes a grantee.
fn grantee(user: &str, host: &str) -> String {
    format!("'{user}'@'{host}'")
}

fn pairs(rows: &[Row]) -> BTreeMap<String, Vec<String>> {
    let mut pairs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows {
        let [user, host, role, of] = [0, 1, 2, 3].map(|column| text(row, column));
        pairs.entry(grantee(&user, &host)).or_default().push(grantee(&role, &of));
    }
    pairs
}

/// The roles of `mandatory_roles`: `role`, 'role'@'host', role@host, with commas between them. Without a host it is `%`.
fn named(list: &str) -> Vec<String> {
    let bare = |name: &str| name.trim().trim_matches(['\'', '"', '`']).to_owned();
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let role = |name: &str| match name.rsplit_once('@') {
        Some((role, host)) => grantee(&bare(role), &bare(host)),
        None => grantee(&bare(name), "%"),
    };
    names.map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mandatory_roles_by_any_spelling() {
        assert_eq!(named("`a`@`%`, b,'c'@'h'"), ["'a'@'%'", "'b'@'%'", "'c'@'h'"]);
        assert!(named("").is_empty());
    }
}
