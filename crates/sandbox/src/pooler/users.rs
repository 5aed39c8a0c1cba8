// SPDX-License-Identifier: Apache-2.0
//! Settings of pgBouncer for single accounts: its section `[users]`. Older versions do not ask the server for the password of an account in this
//! section. So each of these accounts is looked up in the server at every start, and is written into the password file.

use super::USER_LIST;
use crate::{Error, Sandbox, ServerOption};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Settings of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUser {
    pub name: String,
    pub settings: Vec<ServerOption>,
}

const FORM: &str = "it is written NAME:max_user_connections=N, NAME:pool_mode=MODE, or both with a comma between them; NAME has letters, \
                    digits, '_', '-' and '.', MODE is session, transaction or statement";

impl FromStr for PoolUser {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unfit = || Error::PoolOption { option: text.into(), why: FORM };
        let (name, settings) = text.rsplit_once(':').ok_or_else(unfit)?;
        let settings: Vec<ServerOption> = settings.split(',').map(str::parse).collect::<Result<_, _>>()?;
        // pgBouncer's reader of keys does not know quotes
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if name.is_empty() || !is_plain || !settings.iter().all(is_known) {
            return Err(unfit());
        }
        Ok(Self { name: name.into(), settings })
    }
}

/// Whether the setting is one that every pgBouncer knows in this section, with a value that is possible.
fn is_known(setting: &ServerOption) -> bool {
    let value = setting.value().unwrap_or_default();
    match setting.key() {
        "max_user_connections" => value.parse::<u32>().is_ok(),
        "pool_mode" => ["session", "transaction", "statement"].contains(&value),
        _ => false,
    }
}

impl fmt::Display for PoolUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> = self.settings.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}", self.name, settings.join(","))
    }
}

/// The section for these accounts; empty if there are none.
pub(super) fn section(users: &[PoolUser]) -> Vec<String> {
    if users.is_empty() {
        return Vec::new();
    }
    let line = |user: &PoolUser| {
        let settings: Vec<String> = user.settings.iter().map(ToString::to_string).collect();
        format!("{} = {}", user.name, settings.join(" "))
    };
    let head = [String::new(), "[users]".into()];
    head.into_iter().chain(users.iter().map(line)).collect()
}

/// A line of the password file. pgBouncer takes a password in the form that the server stores.
pub(super) fn list_line(name: &str, secret: &str) -> String {
    format!("{} {}\n", quote(name), quote(secret))
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

impl Sandbox {
    /// Accounts with their own settings that did not exist, or had no password, when pgBouncer started: they cannot log in through pgBouncer before
    /// its next start.
    pub fn unknown_pool_users(&self) -> Vec<&str> {
        let users = self.manifest.pooler.iter().flat_map(|pooler| &pooler.settings.users);
        let list = std::fs::read_to_string(self.folder.join(USER_LIST)).unwrap_or_default();
        let is_known = |name: &str| list.lines().any(|line| line.starts_with(&format!("{} ", quote(name))));
        users.map(|user| user.name.as_str()).filter(|name| !is_known(name)).collect()
    }

    /// The lines of the password file for those accounts that the server has, with the password in the form that the server stores.
    pub(super) fn pool_user_list(&self, users: &[PoolUser]) -> Result<String, Error> {
        if users.is_empty() {
            return Ok(String::new());
        }
        let rows = self.talk(|connection| {
            connection.query("SELECT rolname, rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL")
        })?;
        let secret = |name: &str| {
            let row = (0..rows.len()).find(|row| rows.text(*row, 0).as_deref() == Some(name))?;
            rows.text(row, 1)
        };
        Ok(users.iter().filter_map(|user| Some(list_line(&user.name, &secret(&user.name)?))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_with_settings_of_its_own() {
        let user: PoolUser = "app:max_user_connections=5,pool_mode=statement".parse().expect("parses");
        assert_eq!(user.to_string(), "app:max_user_connections=5,pool_mode=statement");
        assert_eq!(section(&[user]), ["", "[users]", "app = max_user_connections=5 pool_mode=statement"]);
        assert!(section(&[]).is_empty());
    }

    #[test]
    fn what_is_none_is_refused() {
        let forms = ["app", "app:", ":pool_mode=session", "an app:pool_mode=session", "a\nb:pool_mode=session"];
        let values = ["app:pool_mode=all", "app:max_user_connections=-1", "app:pool_size=3"];
        for bad in forms.into_iter().chain(values) {
            let error = bad.parse::<PoolUser>().expect_err(bad);
            assert!(
                matches!(error, Error::PoolOption { .. } | Error::ServerOption { .. }) && error.is_usage(),
                "{error}"
            );
        }
    }
}
