// SPDX-License-Identifier: Apache-2.0
//! MariaDB makes its own system tables in bootstrap mode, from the SQL files in its share folder. Otherwise `mariadb-install-db` only looks for the
//! same files and programs.

use super::run_as_server_user;
use crate::account::{DATABASE, USER};
use crate::options::{overlay, quote_mariadb};
use crate::{Error, Installation, Sandbox};
use capability::{Capability, words};
use std::path::{Path, PathBuf};

pub(super) fn configuration(sandbox: &Sandbox) -> Result<String, Error> {
    with_lines(sandbox, &[])
}

/// The lines that both servers of this family have, and the lines of one of them.
pub(super) fn with_lines(sandbox: &Sandbox, own: &[String]) -> Result<String, Error> {
    let manifest = &sandbox.manifest;
    let installation = &manifest.installation;
    let path = |path: &Path| quote_mariadb(&path.to_string_lossy());
    let mut lines = vec![
        "# Written by wringer. Options from `deploy -c` stand last.".to_owned(),
        "[mysqld]".to_owned(),
        format!("basedir = {}", path(&installation.prefix)),
        format!("lc_messages_dir = {}", path(&installation.share)),
        format!("datadir = {}", path(&sandbox.data())),
        format!("tmpdir = {}", path(&sandbox.folder.join("tmp"))),
        format!("socket = {}", path(&sandbox.socket())),
        format!("pid_file = {}", path(&sandbox.pid_file())),
        super::port_line(manifest.port),
        "bind_address = 127.0.0.1".to_owned(),
    ];
    let charsets = installation.share.join("charsets");
    if charsets.is_dir() {
        lines.push(format!("character_sets_dir = {}", path(&charsets)));
    }
    lines.extend_from_slice(own);
    for option in overlay(&super::defaults(sandbox)?, &manifest.options) {
        lines.push(option.to_line(installation.flavour)?);
    }
    Ok(lines.join("\n") + "\n")
}

pub(super) fn server_arguments(sandbox: &Sandbox) -> Vec<String> {
    vec![format!("--defaults-file={}", sandbox.configuration().display())]
}

pub(super) fn initialise(sandbox: &Sandbox, password: &str) -> Result<(), Error> {
    let installation = &sandbox.manifest.installation;
    let mut command = installation.command(&installation.program);
    command.args(server_arguments(sandbox)).arg("--bootstrap").arg("--loose-silent-startup");
    run_as_server_user(sandbox, command, "making the system tables", &bootstrap(sandbox, password)?)
}

/// Makes the system tables, then our account, which replaces every other account except the owner of the system views, then the database.
fn bootstrap(sandbox: &Sandbox, password: &str) -> Result<Vec<u8>, Error> {
    // The data file gives root's account the socket plugin when this variable is set (mariadb-install-db).
    let mut sql = b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n".to_vec();
    for file in bootstrap_files(sandbox) {
        sql.extend(std::fs::read(&file).map_err(|source| Error::path("read", &file, source))?);
        sql.extend(b"\nUSE mysql;\n");
    }
    let installation = &sandbox.manifest.installation;
    if let [table, kept @ ..] = words(Capability::AccountTable, installation.flavour, &installation.version) {
        let kept: Vec<String> = kept.iter().map(|name| format!("'{name}'")).collect();
        let but = if kept.is_empty() { String::new() } else { format!(" WHERE User NOT IN ({})", kept.join(", ")) };
        sql.extend(format!("DELETE FROM mysql.{table}{but};\n").bytes());
    }
    sql.extend(b"DELETE FROM mysql.proxies_priv;\nDELETE FROM mysql.db;\nFLUSH PRIVILEGES;\n");
    sql.extend(account_and_database(password).bytes());
    Ok(sql)
}

/// Our account on the socket and on loopback, and our database, with one statement on each line.
pub(super) fn account_and_database(password: &str) -> String {
    let account = |host| {
        format!(
            "CREATE USER '{USER}'@'{host}' IDENTIFIED BY '{password}';\n\
             GRANT ALL ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;\n"
        )
    };
    ["localhost", "127.0.0.1"].map(account).concat() + &format!("CREATE DATABASE {DATABASE};\n")
}

/// The same for a server that may have such an account already, for its `init_file`: one statement on each line. After a dump of the system tables,
/// their content is in force only after `FLUSH PRIVILEGES`.
pub(crate) fn account_anew(installation: &Installation, password: &str) -> String {
    let account = |host| {
        let account = format!("'{USER}'@'{host}'");
        let reset = words(Capability::AccountReset, installation.flavour, &installation.version);
        let fill = |text: &&str| text.replace("{account}", &account).replace("{password}", password) + ";\n";
        format!(
            "CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}';\n{}\
             GRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n",
            reset.iter().map(fill).collect::<String>()
        )
    };
    let accounts = ["localhost", "127.0.0.1"].map(account).concat();
    format!("FLUSH PRIVILEGES;\n{accounts}CREATE DATABASE IF NOT EXISTS {DATABASE};\n")
}

/// The files that exist; some packages leave out the later ones, which are not necessary.
fn bootstrap_files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let installation = &sandbox.manifest.installation;
    let names = words(Capability::BootstrapFiles, installation.flavour, &installation.version);
    let file = |names: &&str| names.split('|').map(|name| installation.share.join(name)).find(|path| path.is_file());
    names.iter().filter_map(file).collect()
}
