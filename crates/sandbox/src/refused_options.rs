// SPDX-License-Identifier: Apache-2.0
//! Options that a server's program refuses: the program reads its options and ends, and the server is not started.

use crate::{Error, Flavour, Installation, ServerOption};
use std::path::Path;
use std::process::Stdio;

/// A data directory for the command line; this folder does not exist, and is not made.
const NO_FOLDER: &str = "/nonexistent/wringer";

/// An option with which the server would not start, and the program's own words about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub option: ServerOption,
    pub why: String,
    /// It is the init program that would refuse it, which was not asked: its values are known.
    pub is_by_init: bool,
}

impl Installation {
    /// The options among `options` that this server would refuse.
    ///
    /// # Errors
    /// The program cannot be run, or is too old for this question; or an option cannot be written for it.
    pub fn refuses(&self, options: &[ServerOption]) -> Result<Vec<Refused>, Error> {
        let mut refused: Vec<Refused> = options.iter().filter_map(|option| self.refused_by_init(option)).collect();
        let options = &self.start_options(options);
        if options.is_empty() || self.complaint(options)?.is_none() {
            return Ok(refused);
        }
        for option in options {
            if let Some(why) = self.complaint(std::slice::from_ref(option))? {
                refused.push(Refused { option: option.clone(), why, is_by_init: false });
            }
        }
        Ok(refused)
    }

    /// An option of the init program, which the server itself would refuse with any value.
    fn refused_by_init(&self, option: &ServerOption) -> Option<Refused> {
        match self.init_argument(option) {
            Err(Error::ServerOption { why, .. }) => {
                Some(Refused { option: option.clone(), why: why.to_owned(), is_by_init: true })
            }
            _ => None,
        }
    }

    fn complaint(&self, options: &[ServerOption]) -> Result<Option<String>, Error> {
        let mut arguments = self.asking();
        for option in options {
            arguments.extend(option.to_arguments(self.flavour)?);
        }
        let mut command = self.command(&self.program);
        command.args(&arguments).env_remove("PGDATA").stdin(Stdio::null()).stdout(Stdio::null());
        let output =
            command.output().map_err(|source| Error::Path { operation: "run", path: self.program.clone(), source })?;
        Ok(complaint_in(self.flavour, &String::from_utf8_lossy(&output.stderr)))
    }

    /// The arguments that make the program read its options and end. This also works as root: MySQL then needs `--user=root`, and PostgreSQL needs
    /// `-C` as its first argument.
    fn asking(&self) -> Vec<String> {
        let messages = format!("--lc-messages-dir={}", self.share.display());
        let no_folder = format!("--datadir={NO_FOLDER}");
        let words: Vec<&str> = match self.flavour {
            Flavour::Mariadb => vec!["--no-defaults", &no_folder, &messages, "--help", "--verbose"],
            Flavour::Mysql | Flavour::Percona => vec![
                "--no-defaults",
                "--user=root",
                &no_folder,
                &messages,
                "--secure-file-priv=",
                "--log-error-verbosity=1",
                "--validate-config",
            ],
            Flavour::Postgresql => vec!["-C", "data_directory"],
        };
        words.into_iter().filter(|word| !word.ends_with("user=root") || is_root()).map(str::to_owned).collect()
    }

    /// Whether its program can answer this question: MySQL's can from 8.0.16 on.
    pub fn can_be_asked(&self) -> bool {
        let oldest = "8.0.16".parse().ok();
        let is_mysql = matches!(self.flavour, Flavour::Mysql | Flavour::Percona);
        Path::new(&self.program).exists() && (!is_mysql || oldest.is_some_and(|oldest| self.version >= oldest))
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The first line that is about an option. The programs also complain about other things: no data directory, no table of plugins.
fn complaint_in(flavour: Flavour, stderr: &str) -> Option<String> {
    const ABOUT: [&str; 6] = [
        "unknown variable",
        "unknown option",
        "Error while setting value",
        "ambiguous option",
        "requires an argument",
        "doesn't take an argument",
    ];
    let from = |line: &str, words: &str| line.find(words).map(|at| line[at..].trim_end_matches('.').to_owned());
    stderr.lines().find_map(|line| match flavour {
        Flavour::Postgresql => line.split_once("FATAL:").map(|(_, why)| why.trim().to_owned()),
        _ => ABOUT.iter().find_map(|words| from(line, words)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines as the programs print them: MariaDB 10.11, MySQL 9.7, PostgreSQL 15.
    #[test]
    fn a_complaint_is_told_from_other_talk() {
        let mariadb = "2026-11-22 12:13:16 0 [Warning] Could not open mysql.plugin table: \"Table 'mysql.plugin' doesn't exist\". \
                       Some options may be missing from the help text\n";
        assert_eq!(complaint_in(Flavour::Mariadb, mariadb), None);
        let unknown = format!("{mariadb}2026-11-22 12:13:16 0 [ERROR] /usr/sbin/mariadbd: unknown variable 'x=1'\n");
        assert_eq!(complaint_in(Flavour::Mariadb, &unknown).as_deref(), Some("unknown variable 'x=1'"));
        let mysql = "2026-11-22T12:13:52.387563Z 0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.\n";
        assert_eq!(complaint_in(Flavour::Mysql, mysql).as_deref(), Some("unknown variable 'x=1'"));
        let postgresql =
            "postgres does not know where to find the server configuration file.\nYou must specify the --config-file\n";
        assert_eq!(complaint_in(Flavour::Postgresql, postgresql), None);
        let fatal =
            "2026-11-22 12:13:17.441 GMT [1] FATAL:  invalid value for parameter \"shared_buffers\": \"banana\"\n";
        let said = complaint_in(Flavour::Postgresql, fatal);
        assert_eq!(said.as_deref(), Some("invalid value for parameter \"shared_buffers\": \"banana\""));
    }
}
