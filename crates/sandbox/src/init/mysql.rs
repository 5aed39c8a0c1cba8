// SPDX-License-Identifier: Apache-2.0
//! MySQL makes its data directory itself (`--initialize`), with keys and certificates for TLS in it.

use super::{mariadb, run_as_server_user, with_secret_file};
use crate::options::quote_mariadb;
use crate::{Error, Sandbox};

pub(super) fn configuration(sandbox: &Sandbox) -> Result<String, Error> {
    // Files that SQL writes and reads stay in the sandbox; the compiled-in folder belongs to the package, and the start fails if it is missing.
    let folder = sandbox.folder.join("tmp");
    mariadb::with_lines(sandbox, &[format!("secure_file_priv = {}", quote_mariadb(&folder.to_string_lossy()))])
}

/// The initialisation runs the statements of `--init-file`: our account replaces `root`, which has no password until then.
pub(super) fn initialise(sandbox: &Sandbox, password: &str) -> Result<(), Error> {
    let sql = format!("DROP USER 'root'@'localhost';\n{}", mariadb::account_and_database(password));
    with_secret_file(sandbox, "init.sql", &sql, |file| {
        let installation = &sandbox.manifest.installation;
        let mut command = installation.command(&installation.program);
        command.args(super::server_arguments(sandbox)).arg("--initialize-insecure");
        command.arg(format!("--init-file={}", file.display()));
        run_as_server_user(sandbox, command, "making the data directory", b"")
    })
}
