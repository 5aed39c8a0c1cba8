// SPDX-License-Identifier: Apache-2.0
//! Counters that tell of refused connections, and the refusals that each of them leaves out. Seen on MariaDB 10.11 and MySQL 9.7:
//! `docs/connections.md`.

use crate::ServerReading;
use capability::{Flavour, Protocol};
use serde::Serialize;

/// One counter since the server's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pressure {
    pub counter: &'static str,
    /// The value as the server tells it. `None`: the server does not tell it.
    pub value: Option<String>,
    pub counts: &'static str,
    pub leaves_out: &'static str,
}

const MYSQL: [(&str, &str, &str); 4] = [
    (
        "Max_used_connections",
        "the most connections at one time",
        "nothing; it can be max_connections and one more, for an administrator",
    ),
    ("Max_used_connections_time", "when that was", "nothing"),
    (
        "Connection_errors_max_connections",
        "refusals because of max_connections (error 1040)",
        "refusals because of an account's limit (1226) or of max_user_connections (1203)",
    ),
    (
        "Aborted_connects",
        "every login that failed: all refusals, wrong passwords, broken handshakes",
        "which of them it was",
    ),
];

/// MariaDB refuses an ordinary account after its login, while the reserve is free, and does not count this refusal.
const MARIADB_LEAVES_OUT: &str = "of those, the ones while the connection for an administrator was free; and refusals because of an account's limit (1226) or of \
                                  max_user_connections (1203). Aborted_connects has them all";

const POSTGRESQL: (&str, &str, &str) = (
    "log lines with SQLSTATE 53300",
    "refusals because of max_connections, of a role's or of a database's limit",
    "PostgreSQL has no counter of refusals, and no high-water mark: only its log has them, with log_error_verbosity or %e in log_line_prefix",
);

pub(crate) fn pressure(seen: &ServerReading) -> Vec<Pressure> {
    match seen.flavour.protocol() {
        Protocol::Mysql => MYSQL.map(|(counter, counts, leaves_out)| {
            let leaves_out = match (seen.flavour, counter) {
                (Flavour::Mariadb, "Connection_errors_max_connections") => MARIADB_LEAVES_OUT,
                _ => leaves_out,
            };
            let value = seen.status.get(counter).filter(|value| !value.is_empty()).cloned();
            Pressure { counter, value, counts, leaves_out }
        }),
        Protocol::Postgresql => {
            let (counter, counts, leaves_out) = POSTGRESQL;
            return vec![Pressure { counter, value: None, counts, leaves_out }];
        }
    }
    .into_iter()
    .filter(|it| it.value.is_some() || it.counter != "Max_used_connections_time")
    .collect()
}
