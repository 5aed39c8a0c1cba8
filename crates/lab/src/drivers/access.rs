// SPDX-License-Identifier: Apache-2.0
//! How a driver connects to the arm's server: its arguments and its environment. The password is passed where `ps` does not show it.

use crate::error::Error;
use crate::server::Serving;
use experiment::{Driver, DriverProgram};
use load::{Endpoint, Protocol};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// sysbench's own scripts, which all take the number of tables and their size. Other scripts may refuse options that they do not know.
const SCRIPTS_WITH_TABLES: [&str; 10] = [
    "oltp_delete",
    "oltp_insert",
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_write_only",
    "select_random_points",
    "select_random_ranges",
];

/// A placeholder in a command's arguments: the file that contains only the password.
const PASSWORD_FILE: &str = "{password_file}";
/// A placeholder: a file with sysbench's options for the server and the account.
const SYSBENCH_CONFIG: &str = "{sysbench_config}";

fn password_file(folder: &Path) -> PathBuf {
    folder.join("password")
}

fn sysbench_file(folder: &Path) -> PathBuf {
    folder.join("sysbench.conf")
}

/// The name of the option file that clients of the MySQL family read in the folder that `MYSQL_HOME` names.
const OPTION_FILE: &str = "my.cnf";

fn option_file(socket: &str, port: u16, user: &str, password: &str) -> String {
    let [socket, user, password] = [socket, user, password].map(attach::option_file::written);
    format!("[client]\nhost = localhost\nport = {port}\nsocket = {socket}\nuser = {user}\npassword = {password}\n")
}

/// Whether a user's own option file says where a client goes, or as whom. A file that is not understood may.
fn leads_away(text: &str) -> bool {
    let Ok(parts) = attach::Parts::from_my_cnf(text, "") else { return true };
    let is_place = parts.host.is_some() || parts.port.is_some() || parts.socket.is_some();
    is_place || parts.user.is_some() || parts.password.is_some()
}

/// The account and the database of the arm's server, and the tables in it.
pub(super) struct Access {
    protocol: Protocol,
    user: String,
    password: String,
    database: String,
    socket: String,
    socket_folder: String,
    port: u16,
    tables: u32,
    table_size: u64,
}

impl Access {
    pub(super) fn of(serving: &Serving, tables: u32, table_size: u64) -> Self {
        let (running, target) = (&serving.running, serving.load_target());
        let socket = match &target.endpoint {
            Endpoint::Socket(path) => path,
            Endpoint::Tcp(..) => &running.socket,
        };
        Self {
            protocol: target.protocol,
            user: target.user.clone(),
            password: target.password.reveal().to_owned(),
            database: target.database.clone().unwrap_or_default(),
            socket: socket.display().to_string(),
            socket_folder: socket.parent().unwrap_or(Path::new("/")).display().to_string(),
            port: running.pooler.map_or(running.port, |(_, port)| port),
            tables,
            table_size,
        }
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    /// The complete arguments of the program. Secrets are written into files in `folder`.
    ///
    /// # Errors
    /// Such a file cannot be written.
    pub(super) fn words(&self, driver: &Driver, folder: &Path) -> Result<Vec<String>, Error> {
        if driver.arguments.iter().any(|word| word.contains(PASSWORD_FILE)) {
            host::files::write_atomic(&password_file(folder), format!("{}\n", self.password).as_bytes(), 0o600)?;
        }
        if driver.arguments.iter().any(|word| word.contains(SYSBENCH_CONFIG)) {
            self.sysbench_file(folder)?;
        }
        let own = driver.arguments.iter().map(|word| self.filled_in(word, folder));
        Ok(match driver.program {
            DriverProgram::Sysbench => {
                let mut words = self.sysbench_connection(folder)?;
                words.extend(own);
                words.extend(self.sysbench_tables(driver));
                words.push("run".into());
                words
            }
            DriverProgram::Pgbench => {
                let mut words = Vec::new();
                // its scripts' tables are new; without them a VACUUM of them would fail
                if !driver.arguments.iter().any(|word| word == "-n" || word == "--no-vacuum") {
                    words.push("--no-vacuum".to_owned());
                }
                words.extend(own);
                let progress = |word: &String| word.starts_with("-P") || word.starts_with("--progress");
                if !driver.arguments.iter().any(progress) {
                    words.push("--progress=1".to_owned());
                }
                if driver.logs() {
                    words.push(format!("--log-prefix={}", folder.join("pgbench_log").display()));
                }
                words
            }
            DriverProgram::Command => own.skip(1).collect(),
        })
    }

    /// All options for the server and the account, for a command whose sysbench reads them: `--config-file={sysbench_config}`.
    fn sysbench_file(&self, folder: &Path) -> Result<(), Error> {
        let (options, secret) = self.sysbench_options();
        let lines = options.iter().map(|option| format!("{}\n", option.trim_start_matches('-')));
        let text: String = lines.chain([secret]).collect();
        Ok(host::files::write_atomic(&sysbench_file(folder), text.as_bytes(), 0o600)?)
    }

    /// sysbench takes no password from the environment on the MySQL family, and any option from a file.
    fn sysbench_connection(&self, folder: &Path) -> Result<Vec<String>, Error> {
        let file = folder.join("connection.conf");
        let (options, secret) = self.sysbench_options();
        host::files::write_atomic(&file, secret.as_bytes(), 0o600)?;
        Ok(std::iter::once(format!("--config-file={}", file.display())).chain(options).collect())
    }

    /// The options that everybody may see, and the line of a file with the password.
    fn sysbench_options(&self) -> (Vec<String>, String) {
        let Self { user, password, database, socket, socket_folder, port, .. } = self;
        match self.protocol {
            Protocol::Mysql => (
                vec![
                    "--db-driver=mysql".to_owned(),
                    format!("--mysql-socket={socket}"),
                    format!("--mysql-user={user}"),
                    format!("--mysql-db={database}"),
                ],
                format!("mysql-password=\"{password}\"\n"),
            ),
            Protocol::Postgresql => (
                vec![
                    "--db-driver=pgsql".to_owned(),
                    format!("--pgsql-host={socket_folder}"),
                    format!("--pgsql-port={port}"),
                    format!("--pgsql-user={user}"),
                    format!("--pgsql-db={database}"),
                ],
                format!("pgsql-password=\"{password}\"\n"),
            ),
        }
    }

    fn sysbench_tables(&self, driver: &Driver) -> Vec<String> {
        let says = |name: &str| {
            let names = driver.arguments.iter().filter_map(|word| word.split('=').next());
            names.map(|word| word.replace('_', "-")).any(|word| word == name)
        };
        let mut words = Vec::new();
        if driver.script().is_some_and(|script| SCRIPTS_WITH_TABLES.contains(&script)) {
            words.extend((!says("--tables")).then(|| format!("--tables={}", self.tables)));
            words.extend((!says("--table-size")).then(|| format!("--table-size={}", self.table_size)));
        }
        words.extend((!says("--histogram")).then(|| "--histogram=on".to_owned()));
        words.extend((!says("--report-interval")).then(|| "--report-interval=1".to_owned()));
        words
    }

    /// The argument with the server's address instead of `{dsn}` and similar placeholders; other braces stay.
    fn filled_in(&self, word: &str, folder: &Path) -> String {
        let values = [
            ("{dsn}", self.dsn(false)),
            ("{host}", "127.0.0.1".to_owned()),
            ("{port}", self.port.to_string()),
            ("{socket}", self.socket.clone()),
            ("{user}", self.user.clone()),
            (SYSBENCH_CONFIG, sysbench_file(folder).display().to_string()),
            (PASSWORD_FILE, password_file(folder).display().to_string()),
            ("{database}", self.database.clone()),
            ("{tables}", self.tables.to_string()),
            ("{table_size}", self.table_size.to_string()),
        ];
        values.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
    }

    fn dsn(&self, with_password: bool) -> String {
        let Self { user, password, database, port, .. } = self;
        let password = if with_password { format!(":{password}") } else { String::new() };
        format!("{}://{user}{password}@127.0.0.1:{port}/{database}", self.protocol.name())
    }

    /// The variables that the server's own clients read, and one with the whole connection string. Clients of the MySQL family read option files as well, which
    /// come before variables (Debian's names the socket of the machine's own server): the option file in `folder`, which is written here, comes after those.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn environment(&self, folder: &Path) -> Result<Vec<(OsString, OsString)>, Error> {
        let Self { user, password, database, socket, socket_folder, port, .. } = self;
        if self.protocol == Protocol::Mysql {
            let path = folder.join(OPTION_FILE);
            host::files::write_atomic(&path, option_file(socket, *port, user, password).as_bytes(), 0o600)?;
        }
        let (port, folder, login) =
            (port.to_string(), folder.display().to_string(), folder.join("login").display().to_string());
        let pairs: Vec<(&str, &str)> = match self.protocol {
            Protocol::Mysql => vec![
                ("MYSQL_HOME", &folder),
                // there is no such file: MySQL's clients would read the user's, after all others
                ("MYSQL_TEST_LOGIN_FILE", &login),
                ("MYSQL_UNIX_PORT", socket),
                ("MYSQL_TCP_PORT", &port),
                ("MYSQL_USER", user),
                ("MYSQL_PWD", password),
                ("MYSQL_DATABASE", database),
            ],
            Protocol::Postgresql => vec![
                ("PGHOST", socket_folder),
                ("PGPORT", &port),
                ("PGUSER", user),
                ("PGPASSWORD", password),
                ("PGDATABASE", database),
            ],
        };
        let dsn = ("WRINGER_DSN".into(), self.dsn(true).into());
        Ok(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).chain([dsn]).collect())
    }

    /// Why a client that a script starts may go to another server all the same. `None`: nothing is known that leads it there.
    pub(super) fn led_away(&self) -> Option<String> {
        let own = Path::new(&attach::variable("HOME")?).join(".my.cnf");
        let text = host::input::read(&own).ok().filter(|_| self.protocol == Protocol::Mysql)?;
        leads_away(&text).then(|| {
            format!(
                "note: {} names a server or an account, and clients read it last: one that the program starts goes there, and not to the sandbox, unless \
                 it gets --defaults-file=\"$MYSQL_HOME/{OPTION_FILE}\"",
                own.display()
            )
        })
    }

    /// The arguments for the recording, without the password, which may be part of them.
    pub(super) fn without_password(&self, words: impl Iterator<Item = String>) -> Vec<String> {
        words.map(|word| super::outputs::masked(&word, &self.password)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::leads_away;

    #[test]
    fn only_an_option_file_that_names_a_server_or_an_account_leads_away() {
        assert!(!leads_away("[client]\ndefault-character-set = utf8mb4\n[mysqld]\nsocket = /run/a.sock\n"));
        for text in ["[client]\nsocket = /run/a.sock", "[mysql]\nhost=db", "[client]\nuser=me", "[client]\nport=many"] {
            assert!(leads_away(text), "{text}");
        }
    }
}
