// SPDX-License-Identifier: Apache-2.0
//! Replication of PostgreSQL, by streaming: a standby with its own slot in the primary, so that the primary keeps write-ahead log until it was sent.

use super::{PASSWORD_FILE, REPLICATOR};
use crate::options::quote_postgresql;
use crate::{Error, Sandbox, ServerOption};
use host::files;
use load::admin::Connection;

/// The name of a slot: `pg_create_physical_replication_slot` accepts lower-case letters, digits and `_`.
fn slot(number: u32) -> String {
    format!("r{number}")
}

pub(super) fn replica_options(replica: &Sandbox, number: u32) -> Result<Vec<ServerOption>, Error> {
    let port = replica.primary().map_or(0, |primary| primary.manifest.port);
    Ok(vec![
        ServerOption::new("primary_slot_name", Some(&slot(number)))?,
        ServerOption::new("primary_conninfo", Some(&source(replica, port)))?,
    ])
}

/// The connection string for libpq, which treats quotes and backslashes specially, too. The password is in a file, not here.
fn source(replica: &Sandbox, port: u16) -> String {
    let file = replica.folder.join(PASSWORD_FILE).to_string_lossy().replace('\\', "\\\\").replace('\'', "\\'");
    format!("host=127.0.0.1 port={port} user={REPLICATOR} passfile='{file}' application_name={}", replica.name())
}

/// Writes the primary's present port into `server.cnf`; returns whether that changed the file.
pub(super) fn write_source(replica: &Sandbox, primary: &Sandbox) -> Result<bool, Error> {
    const KEY: &str = "primary_conninfo = ";
    let path = replica.configuration();
    let text = std::fs::read_to_string(&path).map_err(|source| Error::path("read", &path, source))?;
    let wanted = format!("{KEY}{}", quote_postgresql(&source(replica, primary.manifest.port)));
    let line = |line| if str::starts_with(line, KEY) { wanted.as_str() } else { line };
    let moved = text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n";
    if moved != text {
        files::write_atomic(&path, moved.as_bytes(), 0o644)?;
    }
    Ok(moved != text)
}

/// Writes the password file. libpq only reads it when it belongs to the server's user.
pub(super) fn write_password_file(replica: &Sandbox, password: &str) -> Result<(), Error> {
    let path = replica.folder.join(PASSWORD_FILE);
    files::write_atomic(&path, format!("*:*:*:{REPLICATOR}:{password}\n").as_bytes(), 0o600)?;
    let user = &replica.manifest.user;
    if user.identity().is_some() {
        files::set_owner(&path, user.uid, user.gid)?;
    }
    Ok(())
}

/// Makes the account, and a slot for each replica, so that the slots exist from the primary's first start on.
pub(super) fn lead(connection: &mut Connection, password: &str, replicas: usize) -> Result<(), load::Error> {
    let known = connection.query(&format!("SELECT 1 FROM pg_roles WHERE rolname = '{REPLICATOR}'"))?;
    if known.is_empty() {
        connection.execute(&format!("CREATE ROLE {REPLICATOR} LOGIN REPLICATION PASSWORD '{password}'"))?;
    }
    for number in 1..=u32::try_from(replicas).unwrap_or(0) {
        let slot = slot(number);
        connection.query(&format!(
            "SELECT pg_create_physical_replication_slot('{slot}', true) \
             WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}')"
        ))?;
    }
    Ok(())
}

/// Sets password and rights of an account of that name in the data: it has another password, and perhaps not the right to replicate.
pub(super) fn forget(connection: &mut Connection, password: &str) -> Result<(), load::Error> {
    let rights = "LOGIN REPLICATION CONNECTION LIMIT -1 VALID UNTIL 'infinity'";
    connection.execute(&format!("ALTER ROLE {REPLICATOR} {rights} PASSWORD '{password}'")).map(drop)
}

pub(super) fn reload(connection: &mut Connection) -> Result<(), load::Error> {
    connection.query("SELECT pg_reload_conf()").map(drop)
}
