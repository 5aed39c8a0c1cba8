// SPDX-License-Identifier: Apache-2.0
//! `pgbouncer.ini` and its password file.

use super::users::{PoolUser, list_line, section};
use super::{CONFIGURATION, Pooler, USER_LIST};
use crate::account::USER;
use crate::{Error, Sandbox};
use host::files;
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// The settings that `--pool-option` may not set.
pub(super) const OURS: [&str; 18] = [
    "listen_addr",
    "listen_port",
    "unix_socket_dir",
    "unix_socket_mode",
    "auth_type",
    "auth_file",
    "auth_user",
    "auth_hba_file",
    "admin_users",
    "user",
    "logfile",
    "pidfile",
    "conffile",
    "syslog",
    "so_reuseport",
    "pool_mode",
    "default_pool_size",
    "max_user_connections",
];
/// The number of clients is at most as large as the number of connections of a lab's load.
const MOST_CLIENTS: u64 = 8192;

/// Writes both files, for this start.
pub(super) fn write(sandbox: &Sandbox, pooler: &Pooler) -> Result<(), Error> {
    let users: Vec<PoolUser> = pooler.settings.users.iter().filter(|user| user.name != USER).cloned().collect();
    let list = list_line(USER, &sandbox.password()?) + &sandbox.pool_user_list(&users)?;
    let path = sandbox.folder.join(USER_LIST);
    files::write_atomic(&path, list.as_bytes(), 0o600)?;
    let user = &sandbox.manifest.user;
    if user.identity().is_some() {
        files::set_owner(&path, user.uid, user.gid)?;
    }
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let text = text(sandbox, pooler, descriptors);
    Ok(files::write_atomic(&sandbox.folder.join(CONFIGURATION), text.as_bytes(), 0o644)?)
}

/// The most clients for this many descriptors. Further clients are refused: a client without a descriptor would wait silently.
fn most_clients(descriptors: u64) -> u64 {
    (descriptors / 4 * 3).min(MOST_CLIENTS)
}

fn text(sandbox: &Sandbox, pooler: &Pooler, descriptors: u64) -> String {
    let settings = &pooler.settings;
    let sockets = sandbox.manifest.socket_folder.display();
    let mut lines = vec![
        "; Written by wringer at each start. Options from `deploy --pool-option` stand last, and accounts from --pool-user after them.".to_owned(),
        "[databases]".into(),
        format!("* = host={} port={}", quote(&sandbox.manifest.socket_folder), sandbox.manifest.port),
        String::new(),
        "[pgbouncer]".into(),
        "listen_addr = 127.0.0.1".into(),
        format!("listen_port = {}", pooler.port),
        format!("unix_socket_dir = {sockets}"),
        "unix_socket_mode = 0700".into(),
        "auth_type = scram-sha-256".into(),
        format!("auth_file = {}", sandbox.folder.join(USER_LIST).display()),
        "; accounts that are not in the file are looked up in the server, by this one".into(),
        format!("auth_user = {USER}"),
        format!("admin_users = {USER}"),
        format!("pool_mode = {}", settings.mode),
        "; what clients built on JDBC and others send at login".into(),
        "ignore_startup_parameters = extra_float_digits".into(),
        format!("max_client_conn = {}", most_clients(descriptors)),
    ];
    lines.extend(settings.size.map(|size| format!("default_pool_size = {size}")));
    lines.extend(settings.max_user_connections.map(|most| format!("max_user_connections = {most}")));
    let options = settings.options.iter().map(|it| format!("{} = {}", it.key(), it.value().unwrap_or_default()));
    lines.extend(options);
    lines.extend(section(&settings.users));
    lines.join("\n") + "\n"
}

/// The path in a connection string, quoted as libpq does it, but without a treatment of backslashes.
fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_descriptors_for_server_connections() {
        assert_eq!(most_clients(1024), 768);
        assert_eq!(most_clients(u64::MAX), MOST_CLIENTS);
    }

    #[test]
    fn a_path_is_quoted() {
        assert_eq!(quote(Path::new("/tmp/it's here")), "'/tmp/it''s here'");
    }
}
