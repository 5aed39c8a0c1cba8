// SPDX-License-Identifier: Apache-2.0
//! Computes the present use and the peak from all looks.

use crate::{Account, AccountSeen, Look, ServerReading, Sessions, client, standing};
use capability::Protocol;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The use of a server, of an account, or of a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// At the last look.
    pub(crate) in_use: u64,
    /// The most at one look.
    pub(crate) peak: u64,
    /// The most memory that one connection has had. `None`: no source tells it.
    pub(crate) bytes_max: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) server: Option<Usage>,
    pub(crate) accounts: BTreeMap<Account, Usage>,
    pub(crate) databases: BTreeMap<String, Usage>,
    /// Sessions for which no account was found: user and client.
    pub(crate) unassigned: BTreeMap<(String, String), Usage>,
}

pub(crate) fn uses(seen: &ServerReading) -> Uses {
    let mut uses = Uses { server: server(&seen.looks), ..Uses::default() };
    for (index, look) in seen.looks.iter().enumerate() {
        let is_last = index + 1 == seen.looks.len();
        fold(&mut uses.accounts, look, is_last, |sessions| account(seen, sessions));
        fold(&mut uses.databases, look, is_last, |sessions| sessions.database.clone());
        fold(&mut uses.unassigned, look, is_last, |sessions| match account(seen, sessions) {
            Some(_) => None,
            None => Some((sessions.user.clone(), sessions.client.clone().unwrap_or_default())),
        });
    }
    uses
}

fn server(looks: &[Look]) -> Option<Usage> {
    let peak = looks.iter().filter_map(|look| look.in_use).max()?;
    let in_use = looks.iter().rev().find_map(|look| look.in_use)?;
    Some(Usage { in_use, peak, bytes_max: None })
}

fn account(seen: &ServerReading, sessions: &Sessions) -> Option<Account> {
    seen.account_of(&sessions.user, sessions.client.as_deref()).map(|row| row.account.clone())
}

impl ServerReading {
    /// The account as which sessions of this user and client are logged in. `None`: it is not known.
    pub fn account_of(&self, user: &str, client: Option<&str>) -> Option<&AccountSeen> {
        let accounts = self.accounts.as_deref()?;
        let account = match self.flavour.protocol() {
            Protocol::Mysql => client::row(accounts, user, client?)?,
            Protocol::Postgresql => accounts.iter().map(|seen| &seen.account).find(|account| account.user == user)?,
        };
        accounts.iter().find(|row| row.account == *account)
    }

    /// The most connections of this account. `None`: only the server's limit holds.
    pub fn limit_of(&self, account: &AccountSeen) -> Option<u64> {
        standing::holding(self, account)
    }
}

fn fold<K: Ord>(into: &mut BTreeMap<K, Usage>, look: &Look, is_last: bool, key: impl Fn(&Sessions) -> Option<K>) {
    let mut now: BTreeMap<K, Usage> = BTreeMap::new();
    for sessions in &look.sessions {
        let Some(key) = key(sessions) else { continue };
        let usage = now.entry(key).or_default();
        usage.in_use += sessions.count;
        usage.bytes_max = usage.bytes_max.max(sessions.bytes_max);
    }
    for (key, usage) in now {
        let in_use = if is_last { usage.in_use } else { 0 };
        let found = match into.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Usage::default()),
        };
        found.in_use = in_use;
        found.peak = found.peak.max(usage.in_use);
        found.bytes_max = found.bytes_max.max(usage.bytes_max);
    }
}
