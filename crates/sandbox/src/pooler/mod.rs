// SPDX-License-Identifier: Apache-2.0
//! pgBouncer in front of a PostgreSQL sandbox: many clients over few server connections.
//!
//! pgBouncer is a second process of the server's run. It is started after the server and stopped before it, as the same user. Its configuration is
//! written anew at each start, because either port may have moved. Its password file holds the account's password, and only the server's user can
//! read it. Accounts that are made later are looked up in the server itself (`auth_query`).

mod address;
mod configuration;
mod locate;
mod pools;
mod program;
mod start;
mod users;

pub use locate::{locate as locate_pooler, present as present_pooler};
pub use pools::Pool;
pub use program::PoolerProgram;
pub(crate) use program::unpacked;
pub use users::PoolUser;

use crate::port::{self, Reserved};
use crate::{Error, Flavour, ServerOption};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Its configuration, in the sandbox's folder; written by root, read by the server's user.
pub(crate) const CONFIGURATION: &str = "pgbouncer.ini";
/// Its file with the account and its password, 0600; it belongs to the server's user.
pub(crate) const USER_LIST: &str = "userlist.txt";
/// The name of the database that is pgBouncer's console.
const CONSOLE: &str = "pgbouncer";

/// The pooler for a sandbox that is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolerSpec {
    pub program: PoolerProgram,
    pub settings: PoolSettings,
}

/// A sandbox's pooler, in its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pooler {
    /// Its port on 127.0.0.1, which is also in its socket's name.
    pub port: u16,
    pub program: PoolerProgram,
    pub settings: PoolSettings,
}

/// The settings of the pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSettings {
    pub mode: PoolMode,
    /// Server connections for each pair of user and database. `None`: pgBouncer's default, 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Server connections for each user. `None`: no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_user_connections: Option<u32>,
    /// Accounts with settings of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<PoolUser>,
    /// Further settings of pgBouncer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<ServerOption>,
}

/// The pooler in front of the server in one start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Pooling {
    /// As the sandbox was deployed: with its pooler, where it has one.
    #[default]
    AsDeployed,
    /// Clients reach the server directly.
    Without,
    /// The sandbox's pooler, with these settings in place of its own.
    With(PoolSettings),
}

/// How long a client keeps its server connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolMode {
    /// Until it disconnects.
    #[default]
    Session,
    /// Until its transaction ends.
    Transaction,
    /// Until its statement ends: no transactions of several statements.
    Statement,
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        })
    }
}

impl PoolSettings {
    /// # Errors
    /// An option that Wringer sets itself, or that has no value; an account that is named twice.
    pub fn check(&self) -> Result<(), Error> {
        let fail = |option: &ServerOption, why| Err(Error::PoolOption { option: option.to_string(), why });
        for option in &self.options {
            if option.value().is_none_or(str::is_empty) {
                return fail(option, "it is written key=value");
            }
            if configuration::OURS.contains(&option.key()) {
                return fail(option, "Wringer sets it itself, for each start or by a flag of its own");
            }
        }
        for (index, user) in self.users.iter().enumerate() {
            if self.users[..index].iter().any(|earlier| earlier.name == user.name) {
                return Err(Error::PoolOption { option: user.to_string(), why: "this account is named twice" });
            }
        }
        Ok(())
    }
}

/// # Errors
/// pgBouncer does not work with this server.
pub(crate) fn check(spec: &PoolerSpec, flavour: Flavour) -> Result<(), Error> {
    if flavour != Flavour::Postgresql {
        return Err(Error::PoolerFlavour { flavour });
    }
    spec.settings.check()
}

impl PoolerSpec {
    /// Reserves a port that no sandbox has and that is not in `taken`.
    pub(crate) fn reserve(self, folder: &Path, taken: &BTreeSet<u16>) -> Result<(Pooler, Reserved), Error> {
        let reserved = port::choose(&folder.join(CONSOLE), taken)?;
        Ok((Pooler { port: reserved.port, program: self.program, settings: self.settings }, reserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_wringers_are_refused() {
        let with = |option: &str| PoolSettings {
            options: vec![option.parse().expect("an option")],
            ..PoolSettings::default()
        };
        assert!(with("server_lifetime=432000").check().is_ok());
        for bad in ["listen_addr=*", "auth_file=/etc/shadow", "pool_mode=session", "min_pool_size", "min_pool_size="] {
            let error = with(bad).check().expect_err(bad);
            assert!(error.is_usage(), "{error}");
        }
    }
}
