// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL: `initdb`, and the single-user mode for the database. Both programs find their share folder relative to
//! themselves (`make_relative_path`, src/port/path.c), also in an unpacked tree.

use super::run_as_server_user;
use crate::account::{DATABASE, USER};
use crate::options::{overlay, quote_postgresql};
use crate::{Error, Sandbox};
use capability::Capability;
use std::path::Path;

/// `initdb` adapts its own file to the machine (shared memory type, time zone, locale): our file includes that file, and its own settings come after
/// it.
pub(super) fn configuration(sandbox: &Sandbox) -> Result<String, Error> {
    let manifest = &sandbox.manifest;
    let path = |path: &Path| quote_postgresql(&path.to_string_lossy());
    let mut lines = vec![
        "# Written by wringer. Options from `deploy -c` stand last.".to_owned(),
        format!("include = {}", path(&sandbox.data().join("postgresql.conf"))),
        format!("unix_socket_directories = {}", path(&manifest.socket_folder)),
        "unix_socket_permissions = 0700".to_owned(),
        format!("external_pid_file = {}", path(&sandbox.pid_file())),
        "listen_addresses = '127.0.0.1'".to_owned(),
        super::port_line(manifest.port),
    ];
    for option in overlay(&super::defaults(sandbox)?, &manifest.installation.start_options(&manifest.options)) {
        lines.push(option.to_line(sandbox.flavour())?);
    }
    Ok(lines.join("\n") + "\n")
}

pub(super) fn server_arguments(sandbox: &Sandbox) -> Vec<String> {
    let file = format!("config_file={}", sandbox.configuration().display());
    vec!["-D".into(), sandbox.data().display().to_string(), "-c".into(), file]
}

pub(super) fn initialise(sandbox: &Sandbox, password: &str) -> Result<(), Error> {
    super::with_secret_file(sandbox, "init-password", password, |file| make_cluster(sandbox, file))?;
    make_database(sandbox)
}

fn make_cluster(sandbox: &Sandbox, password_file: &Path) -> Result<(), Error> {
    let installation = &sandbox.manifest.installation;
    let initdb = installation
        .companion(Capability::InitProgram)
        .ok_or_else(|| host::Error::MissingProgram { program: "initdb, beside the server,".into() })?;
    let mut command = installation.command(&initdb);
    command
        .arg("-D")
        .arg(sandbox.data())
        .args(["-U", USER, "--auth=scram-sha-256", "--locale=C", "--encoding=UTF8"])
        .arg(format!("--pwfile={}", password_file.display()));
    for option in &sandbox.manifest.options {
        command.args(installation.init_argument(option)?);
    }
    run_as_server_user(sandbox, command, "making the cluster", b"")
}

fn make_database(sandbox: &Sandbox) -> Result<(), Error> {
    let installation = &sandbox.manifest.installation;
    let mut command = installation.command(&installation.program);
    command.arg("--single").args(server_arguments(sandbox)).arg("postgres");
    let sql = format!("CREATE DATABASE {DATABASE}\n");
    run_as_server_user(sandbox, command, "making the database", sql.as_bytes())
}
