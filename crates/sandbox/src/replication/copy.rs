// SPDX-License-Identifier: Apache-2.0
//! Copies a data directory that no server uses. The copy is made as the server's user: root writes nothing below a folder of that user.

use crate::init::run_as_server_user;
use crate::{Error, Sandbox};
use host::tool;
use std::ffi::OsString;

/// Copies with modes, times and holes; on file systems that can do it, the copy shares its blocks with the original (cp(1)).
pub(super) fn data(from: &Sandbox, to: &Sandbox) -> Result<(), Error> {
    let (from, into) = (from.data().join("."), to.data());
    let arguments = ["-a".into(), "--reflink=auto".into(), "--".into(), from.into_os_string(), into.into_os_string()];
    run(to, "cp", arguments.to_vec(), "copying the primary's data directory")
}

/// Removes the file with the UUID: MySQL makes a new UUID when there is none.
pub(super) fn forget_identity(replica: &Sandbox) -> Result<(), Error> {
    let arguments = ["-f".into(), "--".into(), replica.data().join("auto.cnf").into_os_string()];
    run(replica, "rm", arguments.to_vec(), "taking the primary's identity from the copy")
}

/// Makes the copy a standby: PostgreSQL then recovers without end, from its primary.
pub(super) fn mark_standby(replica: &Sandbox) -> Result<(), Error> {
    let arguments = ["--".into(), replica.data().join("standby.signal").into_os_string()];
    run(replica, "touch", arguments.to_vec(), "making the copy a standby")
}

fn run(sandbox: &Sandbox, program: &str, arguments: Vec<OsString>, doing: &'static str) -> Result<(), Error> {
    let found = tool::find(program).ok_or_else(|| host::Error::MissingProgram { program: program.into() })?;
    let mut command = tool::command(found);
    command.args(arguments).env("LC_ALL", "C");
    run_as_server_user(sandbox, command, doing, b"")
}
