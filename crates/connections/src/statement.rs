// SPDX-License-Identifier: Apache-2.0
//! The statement that limits an account, in the words of the server's version, with names that cannot end their quotes.

use crate::Account;
use capability::{Capability, Flavour, Protocol, Version, words};

/// Whether a statement is known for this server.
pub fn dialect_is_known(flavour: Flavour, version: &Version) -> bool {
    !words(Capability::AccountLimit, flavour, version).is_empty()
}

/// `limit`: as the server stores it. `Err`: the reason why no statement can name the account.
pub(crate) fn statement(
    flavour: Flavour,
    version: &Version,
    account: &Account,
    limit: i64,
) -> Result<String, &'static str> {
    let template = words(Capability::AccountLimit, flavour, version).first();
    let template = template.ok_or("no statement is known that limits an account of this server")?;
    let (before, after) = template.split_once("{account}").unwrap_or((template, ""));
    let name = name(flavour, account)?;
    Ok(format!("{before}{name}{}", after.replace("{limit}", &limit.to_string())))
}

fn name(flavour: Flavour, account: &Account) -> Result<String, &'static str> {
    let parts = [Some(&account.user), account.host.as_ref()];
    for part in parts.into_iter().flatten() {
        if part.contains('\0') {
            return Err("its name holds a zero byte, which no quoted name can");
        }
        if part.contains('\u{fffd}') {
            return Err(
                "its name is not valid UTF-8, or holds U+FFFD: it may not be the one that a statement would name",
            );
        }
    }
    Ok(match (flavour.protocol(), &account.host) {
        (Protocol::Postgresql, _) => format!("\"{}\"", account.user.replace('"', "\"\"")),
        (Protocol::Mysql, host) => {
            format!("{}@{}", mysql(&account.user), mysql(host.as_deref().unwrap_or("%")))
        }
    })
}

/// The name in backquotes. The only escape there is a doubled backquote, whatever sql_mode is. A name in backquotes must not be empty.
fn mysql(name: &str) -> String {
    if name.is_empty() { "''".into() } else { format!("`{}`", name.replace('`', "``")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(flavour: Flavour, version: &str, account: &Account, limit: i64) -> Result<String, &'static str> {
        statement(flavour, &version.parse().unwrap(), account, limit)
    }

    #[test]
    fn each_server_is_told_in_its_own_words() {
        let account = Account::at("app", "%");
        let said = |flavour, version| of(flavour, version, &account, 20).unwrap();
        let alter = "ALTER USER `app`@`%` WITH MAX_USER_CONNECTIONS 20";
        let grant = "GRANT USAGE ON *.* TO `app`@`%` WITH MAX_USER_CONNECTIONS 20";
        assert_eq!([said(Flavour::Mysql, "9.7.4"), said(Flavour::Percona, "8.0.36")], [alter, alter]);
        assert_eq!([said(Flavour::Mysql, "5.7.44"), said(Flavour::Mysql, "5.6.24")], [alter, grant]);
        assert_eq!([said(Flavour::Mariadb, "10.11.19"), said(Flavour::Mariadb, "10.1.23")], [alter, grant]);
        let role = of(Flavour::Postgresql, "15.18", &Account::role("app"), -1).unwrap();
        assert_eq!(role, "ALTER ROLE \"app\" CONNECTION LIMIT -1");
    }

    #[test]
    fn a_hostile_name_stays_a_name() {
        let account = Account::at("o'brien`\"@%; {limit} -- \\", "{account}");
        assert_eq!(
            of(Flavour::Mariadb, "10.11.19", &account, 3).unwrap(),
            "ALTER USER `o'brien``\"@%; {limit} -- \\`@`{account}` WITH MAX_USER_CONNECTIONS 3"
        );
        let role = Account::role("a\"; DROP ROLE b; --");
        assert_eq!(
            of(Flavour::Postgresql, "15.18", &role, 3).unwrap(),
            "ALTER ROLE \"a\"\"; DROP ROLE b; --\" CONNECTION LIMIT 3"
        );
        assert_eq!(
            of(Flavour::Mysql, "9.7.4", &Account::at("", "%"), 1).unwrap().split('`').next(),
            Some("ALTER USER ''@")
        );
        for name in ["a\0b", "a\u{fffd}b"] {
            assert!(of(Flavour::Mysql, "9.7.4", &Account::at(name, "%"), 1).is_err());
        }
    }

    proptest! {
        /// Read back as the server reads it: up to the first quote that is not doubled.
        #[test]
        fn what_is_quoted_is_read_back(name in "[a`\"'\\\\; \n-]{1,20}") {
            for (flavour, account, quote) in [
                (Flavour::Mariadb, Account::at(name.as_str(), "h"), '`'),
                (Flavour::Postgresql, Account::role(name.as_str()), '"'),
            ] {
                let statement = of(flavour, "15.0", &account, 1).unwrap();
                let mut letters = statement[statement.find(quote).unwrap() + 1..].chars().peekable();
                let mut read = String::new();
                while let Some(letter) = letters.next() {
                    match letter {
                        it if it == quote && letters.peek() == Some(&quote) => read.extend(letters.next()),
                        it if it == quote => break,
                        it => read.push(it),
                    }
                }
                prop_assert_eq!(&read, &name);
            }
        }
    }
}
