// SPDX-License-Identifier: Apache-2.0
//! Finds the limit that the text of an error, or its number, is about.

use serde::Serialize;

/// The meaning of an error of a server or of pgBouncer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// `1040`, `53300`, `pgbouncer`.
    pub code: &'static str,
    pub means: &'static str,
    /// Most likely first; more than one where the words do not tell which.
    pub limits: Vec<Limit>,
}

/// A limit. A name is as the error gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Limit {
    /// `max_connections`.
    Server,
    /// `max_connections` without the reserve.
    ServerWithoutReserve,
    /// `max_connections` without the connections of superusers: those of `reserved_connections` are taken, too.
    ServerWithoutSuperusers,
    /// `max_user_connections`, the variable.
    AccountDefault { user: Option<String> },
    /// An account's own limit.
    Account { user: Option<String> },
    /// A database's own limit.
    Database { database: Option<String> },
    /// `max_client_conn` of pgBouncer.
    PoolerClients,
    /// `default_pool_size`, `max_db_connections`, `max_user_connections` of pgBouncer: no connection to the server was free in time.
    PoolerServers,
    /// A limit whose value is not read here.
    Other { what: String },
}

/// Reads a message, as a client printed it, or a number alone. `None`: it says nothing of a limit of connections.
pub fn refusal(text: &str) -> Option<Refusal> {
    let low = text.to_ascii_lowercase();
    let by_words = WORDS.iter().find(|(words, _)| low.contains(words)).map(|(_, read)| read(text));
    by_words.or_else(|| tokens(&low).find_map(by_code))
}

type Read = fn(&str) -> Refusal;

/// In lower case; the first that is found counts.
const WORDS: [(&str, Read); 14] = [
    ("more than 'max_user_connections' active connections", account_default),
    ("has exceeded the", resource),
    ("too many connections for role", |text| of_role(quoted(text, "role ", '"'))),
    ("too many connections for database", |text| of_database(quoted(text, "database ", '"'))),
    ("connection slots are reserved", without_reserve),
    ("sorry, too many clients already", |_| postgresql_server()),
    ("requested standby connections exceeds max_wal_senders", |_| wal_senders()),
    ("no more connections allowed", |_| pooler_clients()),
    ("max_db_client_connections", |_| pooler_limit("max_db_client_connections")),
    ("max_user_client_connections", |_| pooler_limit("max_user_client_connections")),
    ("client connections exceeded", |_| pooler_clients()),
    ("max_client_conn", |_| pooler_clients()),
    ("query_wait_timeout", |_| pooler_servers()),
    ("too many connections", |_| mysql_server()),
];

fn by_code(token: &str) -> Option<Refusal> {
    Some(match token {
        "1040" | "er_con_count_error" => mysql_server(),
        "1203" | "er_too_many_user_connections" => account_default(""),
        "1226" | "er_user_limit_reached" => resource(""),
        "53300" | "too_many_connections" => any_of_postgresql(),
        _ => return None,
    })
}

/// Words and numbers that stand for themselves: `11040` is not 1040, and neither is the port of `10.0.0.5:1040`.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().map(without_port);
    words.flat_map(|word| word.split(|c: char| !(c.is_alphanumeric() || c == '_'))).filter(|token| !token.is_empty())
}

/// A word that is a host with a port, without the port.
fn without_port(word: &str) -> &str {
    if let Some((host, _)) = word.split_once("]:") {
        return host;
    }
    let host = word.split_once(':').map(|(host, _)| host);
    host.filter(|host| host.contains('.') || *host == "localhost").unwrap_or(word)
}

/// The text between the quotes after `before`, up to the last quote of its line: a name may hold quotes.
fn quoted(text: &str, before: &str, quote: char) -> Option<String> {
    let place = text.to_ascii_lowercase().find(&before.to_ascii_lowercase())? + before.len();
    let line = text.get(place..)?.lines().next()?.strip_prefix(quote)?;
    line.rfind(quote).map(|end| line[..end].to_owned())
}

fn mysql_server() -> Refusal {
    let means = "all connections that max_connections allows were taken; one more is for an administrator";
    Refusal { code: "1040", means, limits: vec![Limit::Server] }
}

fn account_default(text: &str) -> Refusal {
    let low = text.to_ascii_lowercase();
    let user = low.find("user ").zip(low.find(" already has")).and_then(|(from, to)| text.get(from + 5..to));
    let means =
        "the account has no limit of its own, and as many connections as the variable max_user_connections allows each";
    Refusal { code: "1203", means, limits: vec![Limit::AccountDefault { user: user.map(str::to_owned) }] }
}

/// `User 'app' has exceeded the 'max_user_connections' resource (current value: 5)`.
fn resource(text: &str) -> Refusal {
    let low = text.to_ascii_lowercase();
    let middle = low.find("' has exceeded the '");
    let user = middle.and_then(|end| {
        let begin = low[..end].find("user '")? + "user '".len();
        text.get(begin..end)
    });
    let resource = middle.and_then(|begin| {
        let rest = text.get(begin + "' has exceeded the '".len()..)?;
        rest.split('\'').next()
    });
    let user = user.map(str::to_owned);
    match resource {
        None | Some("max_user_connections") => Refusal {
            code: "1226",
            means: "the account has as many connections as its own limit allows (MAX_USER_CONNECTIONS)",
            limits: vec![Limit::Account { user }],
        },
        Some(other) => Refusal {
            code: "1226",
            means: "a limit by the hour, not one of connections at one time",
            limits: vec![Limit::Other { what: other.to_owned() }],
        },
    }
}

fn of_role(user: Option<String>) -> Refusal {
    let means = "the role has as many connections as its own limit allows (CONNECTION LIMIT of the role)";
    Refusal { code: "53300", means, limits: vec![Limit::Account { user }] }
}

fn of_database(database: Option<String>) -> Refusal {
    let means = "the database has as many connections as its own limit allows (CONNECTION LIMIT of the database)";
    Refusal { code: "53300", means, limits: vec![Limit::Database { database }] }
}

/// `... for roles with the SUPERUSER attribute`, `... for roles with privileges of the "pg_use_reserved_connections" role` (InitPostgres of
/// utils/init/postinit.c, PostgreSQL 16); before 16 there are those of superusers alone.
fn without_reserve(text: &str) -> Refusal {
    let means = "what is left of max_connections is reserved, and the role may not use the reserve";
    let is_of_superusers = text.to_ascii_lowercase().contains("superuser");
    let limit = if is_of_superusers { Limit::ServerWithoutSuperusers } else { Limit::ServerWithoutReserve };
    Refusal { code: "53300", means, limits: vec![limit] }
}

fn postgresql_server() -> Refusal {
    let means = "all connections that max_connections allows were taken, the reserve too";
    Refusal { code: "53300", means, limits: vec![Limit::Server] }
}

fn wal_senders() -> Refusal {
    let means = "replication connections have a limit of their own, max_wal_senders; it is not part of max_connections";
    Refusal { code: "53300", means, limits: vec![Limit::Other { what: "max_wal_senders".to_owned() }] }
}

fn any_of_postgresql() -> Refusal {
    let means =
        "too many connections: of the server, of the role or of the database. The words of the message tell which";
    let limits = vec![
        Limit::ServerWithoutReserve,
        Limit::Server,
        Limit::Account { user: None },
        Limit::Database { database: None },
    ];
    Refusal { code: "53300", means, limits }
}

fn pooler_clients() -> Refusal {
    let means = "pgBouncer has as many clients as it lets in; the server was not asked";
    Refusal { code: "pgbouncer", means, limits: vec![Limit::PoolerClients] }
}

/// A limit of clients of one database, or of one user (pgBouncer 1.24 and later).
fn pooler_limit(limit: &str) -> Refusal {
    let means =
        "pgBouncer has as many clients of this database, or of this user, as it lets in; the server was not asked";
    Refusal { code: "pgbouncer", means, limits: vec![Limit::Other { what: limit.to_owned() }] }
}

fn pooler_servers() -> Refusal {
    let means =
        "the client waited for a connection of the pool longer than query_wait_timeout; the server was not asked";
    Refusal { code: "pgbouncer", means, limits: vec![Limit::PoolerServers] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(text: &str) -> Vec<Limit> {
        refusal(text).unwrap_or_else(|| panic!("{text}")).limits
    }

    #[test]
    fn each_message_has_its_limit() {
        let user = |name: &str| Some(name.to_owned());
        for text in ["ERROR 1040 (08004): Too many connections", "1040", "(1040, 'Too many connections')"] {
            assert_eq!(limits(text), [Limit::Server], "{text}");
        }
        let text = "ERROR 1203 (42000): User app already has more than 'max_user_connections' active connections";
        assert_eq!(limits(text), [Limit::AccountDefault { user: user("app") }]);
        let text = "User 'o'brien' has exceeded the 'max_user_connections' resource (current value: 2)";
        assert_eq!(limits(text), [Limit::Account { user: user("o'brien") }]);
        assert_eq!(limits("error 1226"), [Limit::Account { user: None }]);
        let text = "User 'app' has exceeded the 'max_queries_per_hour' resource (current value: 2)";
        assert_eq!(limits(text), [Limit::Other { what: "max_queries_per_hour".into() }]);
        let text = "psql: error: FATAL:  too many connections for role \"a\"b\"\n";
        assert_eq!(limits(text), [Limit::Account { user: user("a\"b") }]);
        assert_eq!(limits("too many connections for database \"d\""), [Limit::Database { database: user("d") }]);
        for text in [
            "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
            "remaining connection slots are reserved for roles with the SUPERUSER attribute",
        ] {
            assert_eq!(limits(text), [Limit::ServerWithoutSuperusers], "{text}");
        }
        let text = "remaining connection slots are reserved for roles with privileges of the \"pg_use_reserved_connections\" role";
        assert_eq!(limits(text), [Limit::ServerWithoutReserve]);
        for limit in ["max_db_client_connections", "max_user_client_connections"] {
            let text = format!("FATAL: client connections exceeded ({limit})");
            assert_eq!(limits(&text), [Limit::Other { what: limit.into() }]);
        }
        assert_eq!(limits("FATAL: sorry, too many clients already"), [Limit::Server]);
        assert_eq!(limits("ERROR: no more connections allowed (max_client_conn)"), [Limit::PoolerClients]);
        assert_eq!(limits("query_wait_timeout"), [Limit::PoolerServers]);
        assert_eq!(limits("SQLSTATE[53300]").len(), 4, "a number alone does not tell which");
    }

    #[test]
    fn what_is_no_refusal_is_none() {
        for text in [
            "",
            "ERROR 1045 (28000): Access denied",
            "11040",
            "10.1040x",
            "connection refused",
            "no route to 10.0.0.5:1040: timed out",
            "[::1]:1040",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,60}", words in 0..WORDS.len(), tail in "\\PC{0,60}") {
            let _ = refusal(&text);
            let message = [text.as_str(), WORDS[words].0, &tail].concat();
            prop_assert!(refusal(&message).is_some());
        }
    }
}
