// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::fmt;

/// The owner of a limit: a row user@host of MySQL and MariaDB, or a role of PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Account {
    /// May be empty: MySQL's anonymous account.
    pub user: String,
    /// The pattern of client hosts, of MySQL and MariaDB. `None`: a role of PostgreSQL, which has none.
    pub host: Option<String>,
}

impl Account {
    /// A row of MySQL or MariaDB.
    pub fn at(user: impl Into<String>, host: impl Into<String>) -> Self {
        Self { user: user.into(), host: Some(host.into()) }
    }

    /// A role of PostgreSQL.
    pub fn role(user: impl Into<String>) -> Self {
        Self { user: user.into(), host: None }
    }

    /// Whether a user who writes this means the account: `app@%`, `'app'@'%'`, `app`.
    pub(crate) fn is_written_as(&self, text: &str) -> bool {
        text == self.to_string() || text == self.user || self.quoted().is_some_and(|quoted| quoted == text)
    }

    fn quoted(&self) -> Option<String> {
        self.host.as_ref().map(|host| format!("'{}'@'{host}'", self.user))
    }
}

/// `app@%`, or `app`. For people: not quoted.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{}@{host}", self.user),
            None => f.write_str(&self.user),
        }
    }
}
