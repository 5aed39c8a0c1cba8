// SPDX-License-Identifier: Apache-2.0
use super::asking::Row;
use super::*;
use capability::{Flavour, Version};
use connections::Account;

fn row(values: &[&str]) -> Row {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

fn kind(flavour: Flavour, version: &str) -> ServerKind {
    ServerKind { flavour, version: version.parse::<Version>().unwrap() }
}

fn read(kind: &ServerKind, answers: fn(&str) -> Result<Vec<Row>, String>) -> Seen {
    let mut ask = answers;
    let mut seen = begin(&mut ask, kind).unwrap();
    for at_us in [0, 1000] {
        look(&mut ask, &mut seen, at_us).unwrap();
    }
    end(&mut ask, &mut seen).unwrap();
    seen
}

#[test]
fn a_server_that_refuses_everything_is_read_without_error() {
    for (flavour, version) in
        [(Flavour::Mysql, "9.7.4"), (Flavour::Mariadb, "10.11.19"), (Flavour::Postgresql, "15.18")]
    {
        let seen = read(&kind(flavour, version), |_| Err("Access denied".into()));
        assert_eq!((seen.accounts.as_ref(), seen.looks.len(), seen.looks[1].in_use), (None, 2, None));
        let told = seen.missing.iter().filter(|it| it.what == "sessions").count();
        assert!(told == 1 && seen.missing.iter().all(|it| it.why.contains("Access denied")), "{:?}", seen.missing);
    }
}

#[test]
fn an_account_without_the_right_to_see_others_is_told_so() {
    let seen = read(&kind(Flavour::Mariadb, "10.11.19"), |sql| {
        Ok(match sql {
            sql if sql.contains("PROCESSLIST") => vec![row(&["me", "db.example:50000", "1", "4096"])],
            sql if sql.contains("Threads_connected") => vec![row(&["Threads_connected", "9"])],
            "SELECT CURRENT_USER()" => vec![row(&["o@brien@%"])],
            sql if sql.contains("is_role") => return Err("Unknown column 'is_role'".into()),
            sql if sql.contains("mysql.user") => vec![row(&["o@brien", "%", "3", "Y", "N"])],
            _ => Vec::new(),
        })
    });
    assert_eq!(seen.own, Some(Account::at("o@brien", "%")));
    let accounts = seen.accounts.unwrap();
    assert_eq!(
        (accounts[0].limit, accounts[0].rights.as_slice(), accounts[0].may_log_in),
        (3, &["SUPER".to_owned()][..], true)
    );
    let session = &seen.looks[0].sessions[0];
    assert_eq!((session.client.as_deref(), session.bytes_max), (Some("db.example"), Some(4096)));
    let hidden = seen.missing.iter().find(|it| it.what == "whose connections they are").unwrap();
    assert_eq!((hidden.why.as_str(), seen.looks[0].in_use), ("7 of 8 connections are in no list of sessions", Some(8)));
}

#[test]
fn a_lost_connection_is_an_error() {
    struct Lost;
    impl Query for Lost {
        fn rows(&mut self, _: &str) -> Result<Vec<Row>, super::Lost> {
            Err(Box::new(load::Error::Lost { during: "a test", source: std::io::ErrorKind::UnexpectedEof.into() }))
        }
    }
    assert!(begin(&mut Lost, &kind(Flavour::Postgresql, "15.18")).is_err());
}
