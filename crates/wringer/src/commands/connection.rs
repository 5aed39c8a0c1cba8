// SPDX-License-Identifier: Apache-2.0
//! Which server, where, as whom: the flags that every command with a server shares.
//!
//! They are sysbench's, and mean the same; a connection string says all of it at once. A password may come from the
//! environment, where `ps` does not show it.

use crate::exit::{Exit, Failure};
use clap::ValueEnum;
use load::{Endpoint, Flavour, Password, Target, Tls};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// All of it in one: mysql://user@host:3306/sbtest, postgresql://user@host/sbtest?tls=require, ...?socket=/path
    #[arg(long, value_name = "URL", env = "WRINGER_DSN", hide_env_values = true)]
    dsn: Option<String>,
    /// Protocol to speak [default: pgsql when a --pgsql-* flag is given, else mysql, which is MariaDB's too]
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
    #[arg(long, alias = "mysql_user", value_name = "NAME", help = "Account", default_value = "sbtest")]
    mysql_user: String,
    /// Better given in the environment
    #[arg(long, alias = "mysql_password", value_name = "WORD", env = "MYSQL_PWD", hide_env_values = true)]
    mysql_password: Option<String>,
    #[arg(
        long,
        alias = "mysql_db",
        value_name = "NAME",
        help = "Database that holds the tables",
        default_value = "sbtest"
    )]
    mysql_db: String,
    /// Encryption over TCP: off, prefer, on [default: prefer]
    #[arg(long, alias = "mysql_ssl", value_name = "WHEN", num_args = 0..=1, default_missing_value = "on")]
    mysql_ssl: Option<String>,
    /// Host name, address, or the folder of the server's socket [default: the usual socket if there is one, else localhost]
    #[arg(long, alias = "pgsql_host", value_name = "HOST")]
    pgsql_host: Option<String>,
    #[arg(
        long,
        alias = "pgsql_port",
        value_name = "PORT",
        help = "TCP port, and number in the socket's name [default: 5432]"
    )]
    pgsql_port: Option<u16>,
    #[arg(long, alias = "pgsql_user", value_name = "NAME", help = "Account", default_value = "sbtest")]
    pgsql_user: String,
    /// Better given in the environment
    #[arg(long, alias = "pgsql_password", value_name = "WORD", env = "PGPASSWORD", hide_env_values = true)]
    pgsql_password: Option<String>,
    #[arg(
        long,
        alias = "pgsql_db",
        value_name = "NAME",
        help = "Database that holds the tables",
        default_value = "sbtest"
    )]
    pgsql_db: String,
    /// Encryption over TCP: disable, prefer, require [default: prefer]
    #[arg(long, alias = "pgsql_sslmode", value_name = "MODE")]
    pgsql_sslmode: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Driver {
    #[value(alias = "mariadb")]
    Mysql,
    #[value(alias = "postgresql", alias = "postgres")]
    Pgsql,
}

impl Connection {
    /// # Errors
    /// Usage: what is written is no connection string, or no way of encrypting.
    pub fn target(&self) -> Result<Target, Failure> {
        if let Some(dsn) = &self.dsn {
            return dsn.parse::<Target>().map_err(|error| Failure::new(Exit::Usage, error));
        }
        match self.driver() {
            Driver::Mysql => self.mysql(),
            Driver::Pgsql => self.postgresql(),
        }
    }

    fn driver(&self) -> Driver {
        let postgresql = self.pgsql_host.is_some() || self.pgsql_port.is_some() || self.pgsql_sslmode.is_some();
        self.db_driver.unwrap_or(if postgresql { Driver::Pgsql } else { Driver::Mysql })
    }

    fn mysql(&self) -> Result<Target, Failure> {
        let tcp = |host: &str| Endpoint::Tcp(host.to_owned(), self.mysql_port.unwrap_or(Flavour::Mysql.default_port()));
        let endpoint = match (&self.mysql_socket, self.mysql_host.as_deref()) {
            (Some(socket), _) => Endpoint::Socket(socket.clone()),
            (None, Some(host)) if host != "localhost" || self.mysql_port.is_some() => tcp(host),
            (None, _) if self.mysql_port.is_some() => tcp("localhost"),
            (None, _) => first_socket(&MYSQL_SOCKETS).unwrap_or_else(|| tcp("localhost")),
        };
        Ok(Target {
            flavour: Flavour::Mysql,
            endpoint,
            user: self.mysql_user.clone(),
            password: Password::new(self.mysql_password.clone().unwrap_or_default()),
            database: Some(self.mysql_db.clone()),
            tls: tls(self.mysql_ssl.as_deref())?,
        })
    }

    fn postgresql(&self) -> Result<Target, Failure> {
        let port = self.pgsql_port.unwrap_or(Flavour::Postgresql.default_port());
        let socket = |folder: &str| Path::new(folder).join(format!(".s.PGSQL.{port}"));
        let tcp = |host: &str| Endpoint::Tcp(host.to_owned(), port);
        let endpoint = match self.pgsql_host.as_deref() {
            Some(folder) if folder.starts_with('/') => Endpoint::Socket(socket(folder)),
            Some(host) => tcp(host),
            None => {
                let usual = POSTGRESQL_FOLDERS.map(socket);
                first_socket(&usual).unwrap_or_else(|| tcp("localhost"))
            }
        };
        Ok(Target {
            flavour: Flavour::Postgresql,
            endpoint,
            user: self.pgsql_user.clone(),
            password: Password::new(self.pgsql_password.clone().unwrap_or_default()),
            database: Some(self.pgsql_db.clone()),
            tls: tls(self.pgsql_sslmode.as_deref())?,
        })
    }
}

/// Where Debian's, Red Hat's and the makers' packages put them.
const MYSQL_SOCKETS: [&str; 3] = ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];
const POSTGRESQL_FOLDERS: [&str; 2] = ["/run/postgresql", "/tmp"];

fn first_socket(paths: &[impl AsRef<Path>]) -> Option<Endpoint> {
    let path = paths.iter().map(AsRef::as_ref).find(|path| path.exists())?;
    Some(Endpoint::Socket(path.to_owned()))
}

fn tls(written: Option<&str>) -> Result<Tls, Failure> {
    match written {
        None => Ok(Tls::default()),
        Some("off") => Ok(Tls::Disable),
        Some("on") => Ok(Tls::Require),
        Some(mode) => mode.parse().map_err(|reason: String| Failure::message(Exit::Usage, reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        connection: Connection,
    }

    fn target(flags: &[&str]) -> Target {
        Line::parse_from([&["test"], flags].concat()).connection.target().unwrap()
    }

    #[test]
    fn sysbenchs_flags_with_either_dash() {
        let mysql = target(&["--mysql_socket=/s.sock", "--mysql-user=msandbox", "--mysql-db=sbtest"]);
        assert_eq!((mysql.flavour, mysql.endpoint), (Flavour::Mysql, Endpoint::Socket("/s.sock".into())));
        assert_eq!(mysql.user, "msandbox");
        let tcp = target(&["--mysql-host=localhost", "--mysql-port=3307", "--mysql-ssl"]);
        assert_eq!((tcp.endpoint, tcp.tls), (Endpoint::Tcp("localhost".into(), 3307), Tls::Require));
    }

    #[test]
    fn a_postgresql_flag_means_postgresql() {
        let socket = target(&["--pgsql-host=/var/run/pg", "--pgsql-port=5433"]);
        assert_eq!(
            (socket.flavour, socket.endpoint),
            (Flavour::Postgresql, Endpoint::Socket("/var/run/pg/.s.PGSQL.5433".into()))
        );
        assert_eq!(target(&["--db-driver=pgsql", "--pgsql-sslmode=disable"]).tls, Tls::Disable);
    }

    #[test]
    fn a_connection_string_says_it_all() {
        let target = target(&["--dsn=postgresql://me:secret@db.local:5555/sbtest"]);
        assert_eq!(target.endpoint, Endpoint::Tcp("db.local".into(), 5555));
        assert_eq!(target.password.reveal(), "secret");
        assert!(!format!("{target:?}").contains("secret"));
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        let line = Line::parse_from(["test", "--dsn=oracle://x"]);
        assert_eq!(line.connection.target().unwrap_err().exit, Exit::Usage);
        let line = Line::parse_from(["test", "--mysql-ssl=maybe"]);
        assert_eq!(line.connection.target().unwrap_err().exit, Exit::Usage);
    }
}
