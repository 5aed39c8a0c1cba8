// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL.

use super::Lost;
use super::asking::{Asking, Row, number, pairs, text};
use capability::Version;
use connections::{Account, AccountSeen, DatabaseSeen, Look, ServerReading, Sessions};

const MONITOR: Option<&str> = Some("GRANT pg_monitor TO the account that asks");
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ('max_connections', 'max_wal_senders', \
                        'superuser_reserved_connections', 'reserved_connections')";
/// The role for reserved connections came with version 16.
const ROLES: &str = "SELECT r.rolname, r.rolconnlimit, r.rolsuper, r.rolcanlogin, EXISTS (SELECT FROM pg_roles p \
                     WHERE p.rolname = 'pg_use_reserved_connections' AND pg_has_role(r.oid, p.oid, 'usage')) \
                     FROM pg_roles r ORDER BY r.rolname";
const DATABASES: &str = "SELECT datname, datconnlimit FROM pg_database ORDER BY datname";
/// Role, database, process, and whether it is a walsender. A role without pg_monitor does not see the type of other roles' backends: these then count as
/// clients. Walsenders count against the limit of their role, and against that of their database if they have one (CountUserBackends and CountDBConnections in
/// procarray.c). Parallel and background workers count against no limit of connections.
const SESSIONS: &str = "SELECT usename, datname, pid, coalesce(backend_type = 'walsender', false) FROM pg_stat_activity \
                        WHERE pid <> pg_backend_pid() AND usename IS NOT NULL \
                        AND coalesce(backend_type, 'client backend') IN ('client backend', 'walsender')";
/// From this version on, walsenders have slots beside max_connections (max_wal_senders).
const SLOTS_OF_WALSENDERS: u32 = 12;

pub(super) fn begin(asking: &mut Asking<'_>, seen: &mut ServerReading) -> Result<(), Lost> {
    seen.variables = pairs(asking.rows("the server's settings", SETTINGS, None)?);
    let own = asking.rows("the account that asks", "SELECT session_user", None)?;
    seen.own = own.first().map(|row| Account::role(text(row, 0)));
    let roles = asking.first("roles and their limits", &[ROLES], None)?;
    seen.accounts = roles.map(|rows| rows.iter().map(role).collect());
    seen.databases = asking.rows("databases and their limits", DATABASES, None)?.iter().map(database).collect();
    Ok(())
}

fn role(row: &Row) -> AccountSeen {
    let is_true = |column| text(row, column) == "t";
    let rights = [("superuser", is_true(2)), ("pg_use_reserved_connections", is_true(4))];
    AccountSeen {
        account: Account::role(text(row, 0)),
        limit: number(row, 1).unwrap_or(-1),
        rights: rights.into_iter().filter(|(_, has)| *has).map(|(right, _)| right.to_owned()).collect(),
        may_log_in: is_true(3),
    }
}

fn database(row: &Row) -> DatabaseSeen {
    DatabaseSeen { name: text(row, 0), limit: number(row, 1).unwrap_or(-1) }
}

pub(super) fn look(asking: &mut Asking<'_>, version: &Version) -> Result<Look, Lost> {
    let rows = asking.first("sessions", &[SESSIONS], MONITOR)?;
    let is_counted = |row: &&Row| version.major() < SLOTS_OF_WALSENDERS || text(row, 3) != "t";
    let in_use = rows.as_ref().map(|rows| rows.iter().filter(is_counted).count() as u64);
    Ok(Look { at_us: 0, in_use, sessions: rows.unwrap_or_default().iter().map(session).collect() })
}

fn session(row: &Row) -> Sessions {
    Sessions {
        user: text(row, 0),
        client: None,
        database: Some(text(row, 1)).filter(|name| !name.is_empty()),
        pid: number(row, 2),
        count: 1,
        bytes_max: None,
    }
}
