// SPDX-License-Identifier: Apache-2.0
//! The connection flags that all commands with a server share. They have sysbench's names and meaning. `process` makes the connection.

mod failure;
mod process;

use crate::exit::{Exit, Failure};
use crate::terminal;
use attach::{Parts, Surroundings, Wanted};
use clap::ValueEnum;
pub use failure::{hint_for, server_failure};
use host::places::Places;
use load::{Password, Protocol, Target, Tls};
pub use process::DYING;
use sandbox::{PoolUser, Sandbox};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// pgBouncer's console is a database of this name.
const CONSOLE: &str = "pgbouncer";

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// The whole connection as one string; then none of these other flags is allowed (but flags take precedence over WRINGER_DSN):
    /// mysql://user@host:3306/sbtest,
    /// postgresql://user@host/sbtest?tls=require, ...?socket=/path. Put a string with a password into WRINGER_DSN, because every user can read flags in the
    /// list of processes [env: WRINGER_DSN]
    #[arg(long, value_name = "URL")]
    dsn: Option<String>,
    /// A sandbox that runs, over its socket; --mysql-db or --pgsql-db may name another database there
    #[arg(long, value_name = "NAME", conflicts_with = "dsn")]
    sandbox: Option<String>,
    /// Protocol to speak [default: pgsql when a --pgsql-* flag is given, or PGHOST, PGPORT or PGSERVICE alone names the server; else
    /// mysql, which is MariaDB's too]
    #[arg(long, alias = "db_driver", value_name = "DRIVER")]
    db_driver: Option<Driver>,
    /// Host name or address [default: the server's usual socket if there is one, else localhost]
    #[arg(long, alias = "mysql_host", value_name = "HOST")]
    mysql_host: Option<String>,
    #[arg(long, alias = "mysql_port", value_name = "PORT", help = "TCP port [default: 3306]")]
    mysql_port: Option<u16>,
    /// The server's Unix socket
    #[arg(long, alias = "mysql_socket", value_name = "PATH")]
    mysql_socket: Option<PathBuf>,
    #[arg(long, alias = "mysql_user", value_name = "NAME", help = "Account [default: sbtest]")]
    mysql_user: Option<String>,
    /// The password. Every user can read it in the list of processes: MYSQL_PWD or ~/.my.cnf is a better place
    #[arg(long, alias = "mysql_password", value_name = "WORD")]
    mysql_password: Option<String>,
    #[arg(long, alias = "mysql_db", value_name = "NAME", help = "Database that holds the tables [default: sbtest]")]
    mysql_db: Option<String>,
    /// Encryption over TCP: disable, prefer, require, verify-ca, verify-identity. The last two check the server's certificate
    /// [default: prefer, or verify-ca with --mysql-ssl-ca]
    #[arg(long, aliases = ["mysql_ssl", "ssl-mode"], value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "require")]
    mysql_ssl: Option<String>,
    /// A file with the certificate of the authority that signed the server's certificate, or with the server's own certificate, in PEM
    #[arg(long, aliases = ["mysql_ssl_ca", "ssl-ca"], value_name = "FILE")]
    mysql_ssl_ca: Option<PathBuf>,
    /// Option file to read instead of ~/.my.cnf: its groups client, client-mariadb, client-server, mysql, mariadb
    #[arg(long, alias = "defaults_file", value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Also read the groups whose names have this ending: `-shop` adds [client-shop] [env: MYSQL_GROUP_SUFFIX]
    #[arg(long, alias = "defaults_group_suffix", value_name = "WORD", allow_hyphen_values = true)]
    defaults_group_suffix: Option<String>,
    /// Service of ~/.pg_service.conf (PGSERVICEFILE, PGSYSCONFDIR) [default: PGSERVICE]
    #[arg(long, alias = "pgsql_service", value_name = "NAME")]
    pgsql_service: Option<String>,
    /// Host name, address, or the folder of the server's socket [default: the usual socket if there is one, else localhost]
    #[arg(long, alias = "pgsql_host", value_name = "HOST")]
    pgsql_host: Option<String>,
    /// TCP port, which is also the number in the name of the socket's file [default: 5432]
    #[arg(long, alias = "pgsql_port", value_name = "PORT")]
    pgsql_port: Option<u16>,
    #[arg(long, alias = "pgsql_user", value_name = "NAME", help = "Account [default: sbtest]")]
    pgsql_user: Option<String>,
    /// The password. Every user can read it in the list of processes: PGPASSWORD or ~/.pgpass is a better place
    #[arg(long, alias = "pgsql_password", value_name = "WORD")]
    pgsql_password: Option<String>,
    #[arg(long, alias = "pgsql_db", value_name = "NAME", help = "Database that holds the tables [default: sbtest]")]
    pgsql_db: Option<String>,
    /// Encryption over TCP: disable, prefer, require, verify-ca, verify-full. The last two check the server's certificate
    /// [default: prefer, or verify-ca with --pgsql-sslrootcert]
    #[arg(long, alias = "pgsql_sslmode", value_name = "MODE")]
    pgsql_sslmode: Option<String>,
    /// A file with the certificate of the authority that signed the server's certificate, or with the server's own certificate, in PEM
    #[arg(long, alias = "pgsql_sslrootcert", value_name = "FILE")]
    pgsql_sslrootcert: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Driver {
    #[value(alias = "mariadb")]
    Mysql,
    #[value(alias = "postgresql", alias = "postgres")]
    Pgsql,
}

impl Driver {
    fn protocol(self) -> Protocol {
        match self {
            Self::Mysql => Protocol::Mysql,
            Self::Pgsql => Protocol::Postgresql,
        }
    }
}

impl Connection {
    /// The value of `--sandbox`.
    pub fn named_sandbox(&self) -> Option<&str> {
        self.sandbox.as_deref()
    }

    /// A name that no other server on this host has, for figures of several servers: the sandbox's name, the directory in which the process works, or the
    /// server's address.
    ///
    /// # Errors
    /// The same as for [`Self::target`].
    pub fn label(&self, pid: Option<u32>) -> Result<String, Failure> {
        if let Some(name) = self.named_sandbox() {
            return Ok(name.to_owned());
        }
        let Some(pid) = pid else { return Ok(self.target()?.endpoint.to_string()) };
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok().filter(|it| *it != Path::new("/"));
        // a path within another mount namespace: the servers of two containers may have the same
        let apart = attach::process::other_mount_namespace(pid);
        let within = apart.map_or_else(String::new, |it| format!(" in {}", it.display()));
        Ok(folder.map_or_else(|| format!("process {pid}"), |it| format!("{}{within}", it.display())))
    }

    /// # Errors
    /// Usage: a wrong connection string, a wrong kind of encryption, or a contradiction. 3: a file or a sandbox is missing.
    pub fn target(&self) -> Result<Target, Failure> {
        let places = Places::from_environment();
        Ok(self.wanted()?.target(surroundings(&places))?)
    }

    /// The same as [`Self::target`], but the content that will be sent decides the protocol, unless a flag does.
    ///
    /// # Errors
    /// The same as for [`Self::target`].
    pub fn target_for(&self, protocol: Protocol) -> Result<Target, Failure> {
        let places = Places::from_environment();
        let mut wanted = self.wanted()?;
        if !wanted.names_a_server(surroundings(&places)) {
            wanted.driver = Some(protocol);
        }
        Ok(wanted.target(surroundings(&places))?)
    }

    /// The console of the pgBouncer of the named sandbox. `None`: the sandbox has no pgBouncer.
    pub fn console_of_sandbox(&self, places: &Places) -> Option<Target> {
        let sandbox = Sandbox::open(self.sandbox.as_deref()?, places).ok()?;
        let pooled = sandbox.pooled_connection().ok()??;
        Some(Target { database: Some(CONSOLE.into()), ..pooled })
    }

    /// The limits that the pgBouncer of the named sandbox has for single users. Its start has written them, so no console need show them. `None`: the sandbox
    /// has no pgBouncer.
    pub fn pool_limits_of_sandbox(&self, places: &Places) -> Option<BTreeMap<String, u64>> {
        let sandbox = Sandbox::open(self.sandbox.as_deref()?, places).ok()?;
        let users = &sandbox.manifest.pooler.as_ref()?.settings.users;
        let limit = |user: &PoolUser| {
            let setting = user.settings.iter().find(|it| it.key() == "max_user_connections")?;
            Some((user.name.clone(), setting.value()?.parse().ok()?))
        };
        Some(users.iter().filter_map(limit).collect())
    }

    /// The console that a connection string names.
    ///
    /// # Errors
    /// The same as for [`Self::target`].
    pub fn console(dsn: &str, places: &Places) -> Result<Target, Failure> {
        let wanted = Wanted { dsn: Some(dsn.to_owned()), ..Wanted::default() };
        let target = wanted.target(surroundings(places))?;
        let named = dsn.parse::<Target>().ok().and_then(|target| target.database);
        Ok(Target { database: named.or(Some(CONSOLE.into())), ..target })
    }

    /// The named sandbox, if its server does not run.
    pub fn stopped_sandbox(&self, places: &Places) -> Option<Sandbox> {
        let sandbox = Sandbox::open(self.sandbox.as_deref()?, places).ok()?;
        sandbox.server_process().is_none().then_some(sandbox)
    }

    /// The process of the server of the named sandbox.
    pub fn process_of_sandbox(&self, places: &Places) -> Option<u32> {
        Sandbox::open(self.sandbox.as_deref()?, places).ok()?.server_process()
    }

    /// # Errors
    /// Usage: a wrong kind of encryption.
    fn wanted(&self) -> Result<Wanted, Failure> {
        Ok(Wanted {
            dsn: self.dsn.clone(),
            sandbox: self.sandbox.clone(),
            driver: self.db_driver.map(Driver::protocol),
            mysql: Parts {
                host: self.mysql_host.clone(),
                port: self.mysql_port,
                socket: self.mysql_socket.clone(),
                user: self.mysql_user.clone(),
                password: self.mysql_password.clone().map(Password::new),
                database: self.mysql_db.clone(),
                tls: tls(self.mysql_ssl.as_deref())?,
                tls_ca: self.mysql_ssl_ca.clone(),
            },
            postgresql: Parts {
                host: self.pgsql_host.clone(),
                port: self.pgsql_port,
                socket: None,
                user: self.pgsql_user.clone(),
                password: self.pgsql_password.clone().map(Password::new),
                database: self.pgsql_db.clone(),
                tls: tls(self.pgsql_sslmode.as_deref())?,
                tls_ca: self.pgsql_sslrootcert.clone(),
            },
            defaults_file: self.defaults_file.clone(),
            defaults_group_suffix: self.defaults_group_suffix.clone(),
            service: self.pgsql_service.clone(),
            pid: None,
        })
    }
}

/// The failure of a command that needs a server or its process when neither is named. `what`: the thing that the command reads, for the message.
pub fn whose(what: &str) -> Failure {
    Failure::message(Exit::Usage, format!("whose {what}? Neither a server nor a process is named"))
        .hint("--sandbox NAME, a connection (--dsn, --mysql-socket, --pgsql-host, ...), or --pid")
}

fn surroundings(places: &Places) -> Surroundings<'_> {
    Surroundings { places, variable: &attach::variable, say: &|text| terminal::say(format_args!("note: {text}")) }
}

fn tls(written: Option<&str>) -> Result<Option<Tls>, Failure> {
    written.map(|mode| mode.parse().map_err(|reason: String| Failure::message(Exit::Usage, reason))).transpose()
}

#[cfg(test)]
mod tests;
