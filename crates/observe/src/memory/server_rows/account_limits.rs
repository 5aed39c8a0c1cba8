// SPDX-License-Identifier: Apache-2.0
//! How many connections each account that has some may have, by the same rows as `wringer connections audit`.

use super::{Asking, tier};
use crate::connections;
use crate::server::{Query, ServerKind};
use capability::Flavour;
use ledger::{Missing, ServerSeen};
use std::collections::BTreeMap;

/// By the names of the accounts in `seen`. `None`: the server does not show its accounts to the one that asks.
pub(super) fn read(
    asking: &mut Asking<'_>,
    flavour: Flavour,
    seen: &ServerSeen,
) -> Option<BTreeMap<String, Option<u64>>> {
    let version = ["version", "server_version"].iter().find_map(|name| seen.variables.get(*name))?;
    let kind = ServerKind { flavour, ..ServerKind::of(flavour.protocol(), version) };
    if asking.is_silent {
        return None;
    }
    let begun = connections::begin(&mut Through(asking), &kind);
    let known = begun.map_err(|lost| asking.fell_silent(&*lost)).ok()?;
    if known.accounts.is_none() {
        let refused = known.missing.iter().find(|it| it.what.ends_with("and their limits"))?;
        asking.missing(Missing::ACCOUNT_LIMITS, &refused.why, refused.remedy.as_deref());
        return None;
    }
    let of_marks = seen.marks.iter().flat_map(|marks| &marks.accounts).map(|mark| &mark.account);
    let names = seen.sessions.iter().map(|session| &session.account).chain(of_marks);
    let limit = |name: &String| {
        let (user, client) = match name.rsplit_once('@') {
            Some((user, client)) if flavour != Flavour::Postgresql => (user, Some(client)),
            _ => (name.as_str(), None),
        };
        known.account_of(user, client).map(|row| (name.clone(), known.limit_of(row)))
    };
    Some(names.filter_map(limit).collect())
}

/// Counts what the server is asked among the reading's other questions.
struct Through<'a, 'b>(&'a mut Asking<'b>);

impl Query for Through<'_, '_> {
    fn rows(&mut self, sql: &str) -> Result<Vec<super::Row>, Box<dyn std::error::Error + Send + Sync>> {
        let Asking { connection, reading, .. } = &mut *self.0;
        reading.ask(tier, || connection.rows(sql))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;
    use crate::memory::Options;
    use crate::memory::reading::Reading;
    use ledger::Session;

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    fn asked(
        flavour: Flavour,
        version: (&str, &str),
        accounts: &[&str],
        mut answer: fn(&str) -> Result<Vec<Row>, String>,
    ) -> (Option<BTreeMap<String, Option<u64>>>, Vec<Missing>) {
        let mut reading = Reading::begin(Options { limits: true, ..Options::default() });
        let session = |account: &&str| Session { account: (*account).to_owned(), ..Session::default() };
        let seen = ServerSeen {
            variables: [(version.0.to_owned(), version.1.to_owned())].into(),
            sessions: accounts.iter().map(session).collect(),
            ..ServerSeen::default()
        };
        let mut asking = Asking { connection: &mut answer, reading: &mut reading, is_silent: false };
        let limits = read(&mut asking, flavour, &seen);
        (limits, reading.end().2)
    }

    #[test]
    fn limits_of_rows_and_of_the_server() {
        let answer = |sql: &str| -> Result<Vec<Row>, String> {
            Ok(match sql {
                sql if sql.contains("mysql.user") => vec![
                    row(&["app", "%", "3", "N", "N"]),
                    row(&["app", "10.0.0.1", "0", "N", "N"]),
                    row(&["root", "localhost", "4", "Y", "N"]),
                ],
                sql if sql.contains("VARIABLES") => vec![row(&["max_user_connections", "50"])],
                sql if sql.contains("PRIVILEGES") => vec![],
                _ => Vec::new(),
            })
        };
        let accounts = ["app@h", "app@10.0.0.1", "root@localhost", "event_scheduler@localhost"];
        let (limits, missing) = asked(Flavour::Mysql, ("version", "8.0.40"), &accounts, answer);
        let of = |name: &str, limit| (name.to_owned(), limit);
        let wanted = [of("app@10.0.0.1", Some(50)), of("app@h", Some(3))];
        let limits = limits.unwrap();
        assert!(wanted.iter().all(|(name, limit)| limits[name] == *limit), "{limits:?}");
        assert!(limits.contains_key("root@localhost") && !limits.contains_key("event_scheduler@localhost"));
        assert_eq!(missing, []);
    }

    #[test]
    fn limits_of_roles() {
        let answer = |sql: &str| -> Result<Vec<Row>, String> {
            Ok(match sql {
                sql if sql.contains("pg_roles") => {
                    vec![row(&["a@b", "3", "f", "t", "f"]), row(&["app", "-1", "f", "t", "f"])]
                }
                _ => Vec::new(),
            })
        };
        let (limits, _) = asked(Flavour::Postgresql, ("server_version", "18.1"), &["a@b", "app", ""], answer);
        assert_eq!(limits, Some([("a@b".to_owned(), Some(3)), ("app".to_owned(), None)].into()));
    }

    #[test]
    fn a_server_that_does_not_show_its_accounts_says_so() {
        let answer = |sql: &str| -> Result<Vec<Row>, String> {
            if sql.contains("mysql.user") { Err("SELECT command denied".into()) } else { Ok(Vec::new()) }
        };
        let (limits, missing) = asked(Flavour::Mariadb, ("version", "10.11.19-MariaDB"), &["app@h"], answer);
        assert_eq!((limits, missing.len(), missing[0].what.as_str()), (None, 1, Missing::ACCOUNT_LIMITS));
        assert!(missing[0].remedy.as_ref().is_some_and(|it| it.starts_with("GRANT SELECT")), "{missing:?}");
    }
}
