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

fn read(kind: &ServerKind, answers: fn(&str) -> Result<Vec<Row>, String>) -> ServerReading {
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
            sql if sql.contains(", 1 FROM information_schema.PROCESSLIST") => {
                vec![row(&["me", "db.example:50000", "1", "4096", "1"])]
            }
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

/// In performance_schema the host has no port, and an address may end with digits.
#[test]
fn mysql_shows_its_clients_by_their_whole_address() {
    let seen = read(&kind(Flavour::Mysql, "8.4.3"), |sql| {
        let is_asked = |name: &str| sql.contains(&format!("NOT LIKE '{name}' ESCAPE '|'"));
        Ok(match sql {
            sql if sql.contains(", 0 FROM performance_schema.threads") => {
                let names = ["thread/sql/slave|_%", "thread/sql/replica|_%", "thread/group|_rpl/%"];
                assert!(names.into_iter().all(is_asked), "threads of replication are asked for: {sql}");
                vec![row(&["app", "2001:db8::10:25", "1", "4096", "0"])]
            }
            sql if sql.contains(", 0 FROM performance_schema.accounts") => {
                vec![row(&["app", "2001:db8::10:25", "0", "9999", "0"])]
            }
            sql if sql.contains("Threads_connected") => vec![row(&["Threads_connected", "2"])],
            _ => Vec::new(),
        })
    });
    let clients: Vec<_> = seen.looks.iter().flat_map(|look| &look.sessions).map(|it| it.client.as_deref()).collect();
    assert_eq!(clients, [Some("2001:db8::10:25"); 3]);
    let last = &seen.looks[1];
    assert_eq!((last.in_use, last.sessions[0].count, last.sessions[1].bytes_max), (Some(1), 1, Some(9999)));
}

/// A role's walsenders count against its limit, and against that of a database if they have one; the server has slots of their own for them.
#[test]
fn postgresql_counts_walsenders_for_roles_and_databases() {
    let answers = |sql: &str| {
        Ok(match sql {
            sql if sql.contains("pg_stat_activity") => {
                assert!(sql.contains("IN ('client backend', 'walsender')"), "{sql}");
                let physical = vec![Some("copies".into()), None, Some("12".into()), Some("t".into())];
                vec![row(&["app", "shop", "10", "f"]), row(&["copies", "shop", "11", "t"]), physical]
            }
            sql if sql.contains("pg_roles") => {
                vec![row(&["app", "-1", "f", "t", "f"]), row(&["copies", "-1", "f", "t", "f"])]
            }
            sql if sql.contains("pg_database") => vec![row(&["shop", "9"])],
            _ => Vec::new(),
        })
    };
    let audit = |version| connections::audit(&read(&kind(Flavour::Postgresql, version), answers));
    let now = audit("15.18");
    let in_use: Vec<(&str, u64)> = now.accounts.iter().map(|it| (it.account.as_str(), it.in_use)).collect();
    assert_eq!(in_use, [("app", 1), ("copies", 2)]);
    assert_eq!((now.databases[0].in_use, now.server.in_use, now.missing.len()), (2, Some(1), 0));
    assert_eq!(audit("11.22").server.in_use, Some(3), "before version 12 they used slots of clients");
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
