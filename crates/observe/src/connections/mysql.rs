// SPDX-License-Identifier: Apache-2.0
//! MySQL, MariaDB, Percona Server.

use super::asking::{Asking, Row, number, pairs, text};
use super::{Lost, roles};
use crate::server::{CLIENT_THREADS, without_port};
use capability::{Capability, Flavour, words};
use connections::{Account, AccountSeen, Look, ServerReading, Sessions};
use std::collections::BTreeMap;

const PROCESS: Option<&str> = Some("GRANT PROCESS ON *.* TO the account that asks");
const SELECT: Option<&str> = Some("GRANT SELECT ON mysql.* TO the account that asks");

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('activate_all_roles_on_login', 'admin_address', 'admin_port', \
                         'extra_max_connections', 'extra_port', 'mandatory_roles', 'max_connections', 'max_user_connections', 'performance_schema')";
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Aborted_connects', 'Connection_errors_max_connections', \
                      'Max_used_connections', 'Max_used_connections_time')";
const CONNECTED: &str = "SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_connected'";

/// User, host, limit, SUPER, and whether no client can log in as it. 'N' when it is neither a role nor a locked account.
const ACCOUNTS_OF_MARIADB: [&str; 3] = [
    // the view mysql.user of MariaDB 10.4 and later does not say which accounts are locked
    "SELECT u.User, u.Host, u.max_user_connections, u.Super_priv, \
     IF(u.is_role = 'Y' OR JSON_VALUE(p.Priv, '$.account_locked') IN ('1', 'true'), 'Y', 'N') \
     FROM mysql.user AS u JOIN mysql.global_priv AS p ON p.User = u.User AND p.Host = u.Host ORDER BY u.User, u.Host",
    "SELECT User, Host, max_user_connections, Super_priv, is_role FROM mysql.user ORDER BY User, Host",
    "SELECT User, Host, max_user_connections, Super_priv, 'N' FROM mysql.user ORDER BY User, Host",
];
const ACCOUNTS_OF_MYSQL: [&str; 2] = [
    "SELECT User, Host, max_user_connections, Super_priv, account_locked FROM mysql.user ORDER BY User, Host",
    "SELECT User, Host, max_user_connections, Super_priv, 'N' FROM mysql.user ORDER BY User, Host",
];

/// User, host, number of sessions, the most memory that one of them has had, and whether the host has the client's port.
const SESSIONS_OF_MARIADB: [&str; 2] = [
    "SELECT user, host, 1, max_memory_used, 1 FROM information_schema.PROCESSLIST WHERE id <> CONNECTION_ID() AND command <> 'Daemon'",
    WITHOUT_INSTRUMENTS,
];
/// For MySQL without performance_schema, in which the table `threads` exists and is empty.
const WITHOUT_INSTRUMENTS: &str = "SELECT user, host, 1, NULL, 1 FROM information_schema.PROCESSLIST WHERE id <> CONNECTION_ID() AND command <> 'Daemon'";

/// The most memory that one connection has had, ended connections included: rows with 0 sessions. The column came with 8.0.31.
const HIGH_WATER: &str =
    "SELECT user, host, 0, max_session_total_memory, 0 FROM performance_schema.accounts WHERE user IS NOT NULL";
const SELECT_INSTRUMENTS: Option<&str> = Some("GRANT SELECT ON performance_schema.* TO the account that asks");

/// The users of the server's own threads.
const NOBODY: [&str; 2] = ["system user", "event_scheduler"];

pub(super) fn begin(asking: &mut Asking<'_>, seen: &mut ServerReading) -> Result<(), Lost> {
    seen.variables = pairs(asking.rows("the server's settings", VARIABLES, None)?);
    seen.own = asking.rows("the account that asks", "SELECT CURRENT_USER()", None)?.first().and_then(own);
    let statements: &[&str] = if seen.flavour == Flavour::Mariadb { &ACCOUNTS_OF_MARIADB } else { &ACCOUNTS_OF_MYSQL };
    let Some(rows) = asking.first("accounts and their limits", statements, SELECT)? else { return Ok(()) };
    let mut rights = rights(asking, seen)?;
    roles::add(asking, seen, &mut rights, SELECT)?;
    seen.accounts = Some(rows.iter().map(|row| account(row, &rights)).collect());
    Ok(())
}

/// `CURRENT_USER()`: user@host. A host contains no `@`.
fn own(row: &Row) -> Option<Account> {
    let text = text(row, 0);
    text.rsplit_once('@').map(|(user, host)| Account::at(user, host))
}

/// Rights by grantee. The keys are `'user'@'host'`, without escapes.
fn rights(asking: &mut Asking<'_>, seen: &ServerReading) -> Result<BTreeMap<String, Vec<String>>, Lost> {
    let names = [Capability::BeyondAccountLimit, Capability::ConnectionReserve]
        .map(|capability| words(capability, seen.flavour, &seen.version))
        .concat();
    let sql = format!(
        "SELECT grantee, privilege_type FROM information_schema.USER_PRIVILEGES WHERE privilege_type IN ('{}')",
        names.join("', '")
    );
    let mut rights: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in asking.rows("rights of accounts", &sql, SELECT)? {
        rights.entry(text(&row, 0)).or_default().push(text(&row, 1));
    }
    Ok(rights)
}

fn account(row: &Row, rights: &BTreeMap<String, Vec<String>>) -> AccountSeen {
    let account = Account::at(text(row, 0), text(row, 1));
    let grantee = format!("'{}'@'{}'", account.user, account.host.as_deref().unwrap_or_default());
    let mut rights = rights.get(&grantee).cloned().unwrap_or_default();
    if text(row, 3) == "Y" && !rights.iter().any(|right| right == "SUPER") {
        rights.push("SUPER".into());
    }
    // SUPER last: when there are two rights, the narrower one says more
    rights.sort();
    AccountSeen { account, limit: number(row, 2).unwrap_or(0), rights, may_log_in: text(row, 4) != "Y" }
}

/// Reading `performance_schema.threads` takes no lock for which a session waits. Its memory columns came with 8.0.31 and later.
fn of_threads(bytes_max: &str) -> String {
    format!(
        "SELECT processlist_user, processlist_host, 1, {bytes_max}, 0 FROM {CLIENT_THREADS} \
         AND processlist_id <> CONNECTION_ID() AND processlist_command <> 'Daemon'"
    )
}

pub(super) fn look(asking: &mut Asking<'_>, flavour: Flavour) -> Result<Look, Lost> {
    let (with_memory, without) = (of_threads("max_total_memory"), of_threads("NULL"));
    let of_mysql = [with_memory.as_str(), without.as_str(), WITHOUT_INSTRUMENTS];
    let statements: &[&str] = if flavour == Flavour::Mariadb { &SESSIONS_OF_MARIADB } else { &of_mysql };
    let mut rows = asking.first("sessions", statements, PROCESS)?.unwrap_or_default();
    if rows.is_empty() && flavour != Flavour::Mariadb {
        rows = asking.rows("sessions", WITHOUT_INSTRUMENTS, PROCESS)?;
    }
    let connected: Option<u64> =
        asking.rows("the number of connections", CONNECTED, None)?.first().and_then(|row| number(row, 1));
    let in_use = connected.map(|connected| connected.saturating_sub(1));
    Ok(Look { at_us: 0, in_use, sessions: rows.iter().filter_map(sessions).collect() })
}

fn sessions(row: &Row) -> Option<Sessions> {
    let (user, host) = (text(row, 0), text(row, 1));
    let has_port = text(row, 4) == "1";
    (!NOBODY.contains(&user.as_str())).then(|| Sessions {
        client: Some(if has_port { without_port(&host).to_owned() } else { host }),
        user,
        database: None,
        pid: None,
        count: number(row, 2).unwrap_or(1),
        bytes_max: number(row, 3).filter(|bytes| *bytes > 0),
    })
}

pub(super) fn end(asking: &mut Asking<'_>, seen: &mut ServerReading) -> Result<(), Lost> {
    seen.status = pairs(asking.rows("the server's counters", STATUS, None)?);
    if seen.flavour != Flavour::Mariadb {
        let known = asking.rows("memory of connections that have ended", HIGH_WATER, SELECT_INSTRUMENTS)?;
        let sessions = known.iter().filter_map(sessions).filter(|it| it.bytes_max.is_some());
        if let Some(look) = seen.looks.last_mut() {
            look.sessions.extend(sessions);
        }
    }
    Ok(())
}
