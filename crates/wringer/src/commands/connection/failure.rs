// SPDX-License-Identifier: Apache-2.0
//! Explains errors of a server to the user: exit code and remedies.

use crate::exit::{Exit, Failure};

/// Classifies an error of a server: when it cannot be reached, or refuses, nothing has been done.
pub fn server_failure(error: load::Error) -> Failure {
    use load::Error as E;
    let hint = match &error {
        E::Connect { .. } | E::NoAddress { .. } => {
            "is the server up, and is this its address? `wringer sandbox list` shows the sandboxes and their sockets"
        }
        E::Lost { during: LOGGING_IN, .. } => {
            "is it a server of this kind (--db-driver), does it answer its own client, and does it let this host in?"
        }
        E::Statements { .. } => hint_for("1461"),
        E::Descriptors { .. } => {
            "raise the hard limit: as root `ulimit -Hn 65536`, LimitNOFILE= in a systemd unit, or /etc/security/limits.conf"
        }
        E::Full { setting: "max_connections", .. } => {
            "MySQL and MariaDB: SET GLOBAL max_connections = N, within open_files_limit; a sandbox: `sandbox deploy ... -c \
             max_connections=N`"
        }
        E::Full { setting: "max_user_connections", .. } => {
            "SET GLOBAL max_user_connections = N, or ALTER USER ... WITH MAX_USER_CONNECTIONS N"
        }
        E::Full { .. } => {
            "PostgreSQL: max_connections in postgresql.conf and a restart, ALTER ROLE ... CONNECTION LIMIT N; a sandbox: \
             `sandbox deploy ... -c max_connections=N`"
        }
        E::OtherTable { .. } => "name another database, or drop that table",
        E::Tls { .. } => {
            "verify-ca wants the certificate of the authority that signed the server's, verify-full (verify-identity) also that it names \
             the host as it was said; require takes any certificate"
        }
        E::NoTls { .. } => "the server must have a certificate, or say prefer or disable",
        error => error.code().map_or("", hint_for),
    };
    let exit = match &error {
        E::Invalid(_) | E::Dsn { .. } => Exit::Usage,
        E::Lost { during: LOGGING_IN, .. } => Exit::Missing,
        E::ServerLost { .. } | E::Lost { .. } | E::System { .. } => Exit::Failed,
        _ => Exit::Missing,
    };
    let failure = Failure::new(exit, error);
    if hint.is_empty() { failure } else { failure.hint(hint) }
}

/// Nothing was done yet.
const LOGGING_IN: &str = "logging in";

/// The remedies for a server's error, by its code; empty when its own text must be enough.
pub fn hint_for(code: &str) -> &'static str {
    match code {
        "1045" | "28P01" | "28000" => {
            "give user and password: --mysql-user and MYSQL_PWD, or --pgsql-user and PGPASSWORD, or ~/.my.cnf, ~/.pgpass"
        }
        "1044" | "1142" | "1143" | "1227" | "42501" => {
            "the account lacks a right: GRANT it, as an administrator (SELECT, INSERT, UPDATE, DELETE on the tables; CREATE, DROP for \
             bulk_insert)"
        }
        "1820" | "1862" => "ALTER USER ... IDENTIFIED BY '...', as that user with the server's own client",
        "1054" | "42703" => "the table has other columns than the workload's: `wringer fill` makes tables that fit",
        "1146" | "42P01" => "`wringer fill` makes the tables",
        "1049" | "3D000" => "the database must be there first: CREATE DATABASE sbtest",
        "1461" => {
            "SET GLOBAL max_prepared_stmt_count = N, fewer --threads or --tables, or --db-ps-mode=disable; a sandbox: `sandbox \
             deploy ... -c max_prepared_stmt_count=N`"
        }
        "26000" | "42P05" => {
            "behind pgBouncer in transaction or statement mode a prepared statement belongs to whichever server connection it was \
             made on: say --db-ps-mode=disable, or deploy with --pool-mode session"
        }
        "1040" | "53300" | "1203" | "1226" => {
            "raise the server's max_connections (max_user_connections), or use fewer --threads"
        }
        _ => "",
    }
}
