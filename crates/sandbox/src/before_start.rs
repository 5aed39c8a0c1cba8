// SPDX-License-Identifier: Apache-2.0
//! The settings that a server would have if it were started now, as its own program tells them. No server is started.

use crate::{Error, Sandbox, init};
use capability::Flavour;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

impl Sandbox {
    /// The settings of these names, in the program's words: `postgres -C NAME`, `mariadbd --verbose --help`. A setting that the program does not know
    /// is left out. PostgreSQL's sizes have units as in its configuration.
    ///
    /// # Errors
    /// [`Error::Running`]: the server itself can be asked. [`Error::Path`]: the program cannot be executed.
    pub fn settings_before_start(&self, names: &[&str]) -> Result<BTreeMap<String, String>, Error> {
        if let Some(pid) = self.server_process() {
            return Err(Error::Running { name: self.name().into(), pid });
        }
        if self.flavour() != Flavour::Postgresql {
            let mut command = self.program(&[]);
            command.args(["--verbose", "--help"]);
            return Ok(of_help(&said(command)?, names));
        }
        let mut found = BTreeMap::new();
        for name in names {
            let value = said(self.program(&["-C", name]))?.trim().to_owned();
            if !value.is_empty() {
                found.insert((*name).to_owned(), value);
            }
        }
        Ok(found)
    }

    /// The server's program with the arguments `first`, then those with which the server is started. It runs in the data directory, and as the
    /// server's user, because the program checks whether that user owns the data directory.
    pub(crate) fn program(&self, first: &[&str]) -> Command {
        let installation = &self.manifest.installation;
        let mut command = installation.command(&installation.program);
        command.args(first).args(init::server_arguments(self)).current_dir(self.data());
        if let Some((uid, gid)) = self.manifest.user.identity() {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// The output of a program, even if it ends with an error: a setting that it does not know is left out.
fn said(mut command: Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|source| Error::path("start", &program, source))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The values of these names in lines of name and value, with dashes in the names: `innodb-buffer-pool-size  134217728`.
fn of_help(text: &str, names: &[&str]) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let (name, value) = (name.replace('-', "_"), value.trim().to_owned());
        names.contains(&name.as_str()).then_some((name, value))
    };
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_in_the_help() {
        let text = "  --large-pages       Enable support for large pages\n\nVariables (--variable-name=value)\n----- ---\n\
                    innodb-buffer-pool-size     268435456\nlarge-pages                 TRUE\nlog-bin          (No default value)\n";
        let found = of_help(text, &["innodb_buffer_pool_size", "large_pages"]);
        assert_eq!(
            (found["innodb_buffer_pool_size"].as_str(), found["large_pages"].as_str(), found.len()),
            ("268435456", "TRUE", 2)
        );
    }
}
