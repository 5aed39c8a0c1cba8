// SPDX-License-Identifier: Apache-2.0
//! Makes a data directory, in the way of each flavour.

mod mariadb;
mod mysql;
mod postgresql;

pub(crate) use mariadb::account_anew;

use crate::options::overlay;
use crate::{Error, Flavour, Sandbox, ServerOption};
use capability::{Capability, words};
use host::files;
use host::process::end_with_caller;
use rustix::process::Signal;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The text of `server.cnf`.
pub(crate) fn configuration(sandbox: &Sandbox) -> Result<String, Error> {
    match sandbox.flavour() {
        Flavour::Mariadb => mariadb::configuration(sandbox),
        Flavour::Mysql | Flavour::Percona => mysql::configuration(sandbox),
        Flavour::Postgresql => postgresql::configuration(sandbox),
    }
}

/// The line for the port, which all flavours write in the same way; a start that finds the port in use replaces this line.
pub(crate) fn port_line(port: u16) -> String {
    format!("port = {port}")
}

pub(crate) fn is_port_line(line: &str) -> bool {
    line.starts_with("port = ")
}

/// The arguments of the server program.
pub(crate) fn server_arguments(sandbox: &Sandbox) -> Vec<String> {
    match sandbox.flavour() {
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => mariadb::server_arguments(sandbox),
        Flavour::Postgresql => postgresql::server_arguments(sandbox),
    }
}

/// The options that this server gets unless `deploy -c` sets them.
fn defaults(sandbox: &Sandbox) -> Result<Vec<ServerOption>, Error> {
    let installation = &sandbox.manifest.installation;
    let words = words(Capability::DefaultOption, installation.flavour, &installation.version);
    let defaults: Vec<ServerOption> = words.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let of_origin = sandbox.manifest.origin.as_ref().map(|origin| origin.settings.clone()).unwrap_or_default();
    Ok(overlay(&defaults, &of_origin))
}

/// Fills `data/`, with the account and the database. `server.cnf` and the folders exist already.
pub(crate) fn initialise(sandbox: &Sandbox, password: &str) -> Result<(), Error> {
    match sandbox.flavour() {
        Flavour::Mariadb => mariadb::initialise(sandbox, password),
        Flavour::Mysql | Flavour::Percona => mysql::initialise(sandbox, password),
        Flavour::Postgresql => postgresql::initialise(sandbox, password),
    }
}

/// Runs `make` with a file that only the server's user can read and that holds the password; the file exists only while the data directory is being
/// made.
pub(crate) fn with_secret_file<T>(
    sandbox: &Sandbox,
    name: &str,
    text: &str,
    make: impl FnOnce(&Path) -> Result<T, Error>,
) -> Result<T, Error> {
    let path = sandbox.folder.join(name);
    files::write_atomic(&path, text.as_bytes(), 0o600)?;
    let user = &sandbox.manifest.user;
    if user.identity().is_some() {
        files::set_owner(&path, user.uid, user.gid)?;
    }
    let made = make(&path);
    files::remove_file(&path)?;
    made
}

/// Runs a helper of the server as the server's user, with its output in the sandbox's `log/init.log`.
pub(crate) fn run_as_server_user(
    sandbox: &Sandbox,
    mut command: Command,
    doing: &'static str,
    input: &[u8],
) -> Result<(), Error> {
    let log_path = sandbox.folder.join("log/init.log");
    let log = files::open_log(&log_path)?;
    let copy = log.try_clone().map_err(|source| Error::path("open log", &log_path, source))?;
    let program = command.get_program().to_string_lossy().into_owned();
    command.current_dir(sandbox.data()).stdin(Stdio::piped()).stdout(log).stderr(copy);
    if let Some((uid, gid)) = sandbox.manifest.user.identity() {
        command.uid(uid).gid(gid);
    }
    // the data of a deployment that was killed are removed, so nothing has to be finished; and the next deployment waits until nobody uses them
    end_with_caller(&mut command, Signal::KILL);
    let mut child = command.spawn().map_err(|source| Error::path("start", &program, source))?;
    let sent = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let status = child.wait().map_err(|source| Error::path("wait for", &program, source))?;
    if status.success() && sent.is_ok() {
        return Ok(());
    }
    if host::interrupt::requested() {
        return Err(Error::Interrupted);
    }
    Err(Error::Program { program, doing, status: status.to_string(), log: files::tail(&log_path, 20) })
}
