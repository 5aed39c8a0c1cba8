// SPDX-License-Identifier: Apache-2.0
//! Which server, where, as whom: the flags that every command with a server shares.
//!
//! They are sysbench's, and mean the same; a connection string says all of it at once. What neither says is taken from where
//! people have it already: the environment (`MYSQL_PWD`, `PGHOST`, ...), `~/.my.cnf`, `~/.pg_service.conf`, `~/.pgpass`. `ps` does not show these.

mod failure;

use crate::exit::{Exit, Failure};
use crate::{input, terminal};
use clap::ValueEnum;
pub use failure::{hint_for, server_failure};
use host::places::Places;
use load::target::options::{Parts, from_service_file, password_from_pgpass};
use load::{Password, Protocol, Target, Tls};
use sandbox::Sandbox;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// All of it in one, and then no other flag of these (but flags win over WRINGER_DSN): mysql://user@host:3306/sbtest,
    /// postgresql://user@host/sbtest?tls=require, ...?socket=/path. One with a password belongs into WRINGER_DSN: every user can read
    /// flags in the list of processes [env: WRINGER_DSN]
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
    /// Every user can read it in the list of processes: better in MYSQL_PWD or ~/.my.cnf
    #[arg(long, alias = "mysql_password", value_name = "WORD")]
    mysql_password: Option<String>,
    #[arg(long, alias = "mysql_db", value_name = "NAME", help = "Database that holds the tables [default: sbtest]")]
    mysql_db: Option<String>,
    /// Encryption over TCP: disable, prefer, require, verify-ca, verify-identity. The last two check the server's certificate
    /// [default: prefer, or verify-ca with --mysql-ssl-ca]
    #[arg(long, aliases = ["mysql_ssl", "ssl-mode"], value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "require")]
    mysql_ssl: Option<String>,
    /// The certificate of the authority that signed the server's, or the server's own, in PEM
    #[arg(long, aliases = ["mysql_ssl_ca", "ssl-ca"], value_name = "FILE")]
    mysql_ssl_ca: Option<PathBuf>,
    /// Option file to read instead of ~/.my.cnf: its groups client, client-mariadb, client-server, mysql, mariadb
    #[arg(long, alias = "defaults_file", value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Read the groups of this ending, too: `-shop` is [client-shop] [env: MYSQL_GROUP_SUFFIX]
    #[arg(long, alias = "defaults_group_suffix", value_name = "WORD", allow_hyphen_values = true)]
    defaults_group_suffix: Option<String>,
    /// Service of ~/.pg_service.conf (PGSERVICEFILE, PGSYSCONFDIR) [default: PGSERVICE]
    #[arg(long, alias = "pgsql_service", value_name = "NAME")]
    pgsql_service: Option<String>,
    /// Host name, address, or the folder of the server's socket [default: the usual socket if there is one, else localhost]
    #[arg(long, alias = "pgsql_host", value_name = "HOST")]
    pgsql_host: Option<String>,
    /// TCP port, and number in the socket's name [default: 5432]
    #[arg(long, alias = "pgsql_port", value_name = "PORT")]
    pgsql_port: Option<u16>,
    #[arg(long, alias = "pgsql_user", value_name = "NAME", help = "Account [default: sbtest]")]
    pgsql_user: Option<String>,
    /// Every user can read it in the list of processes: better in PGPASSWORD or ~/.pgpass
    #[arg(long, alias = "pgsql_password", value_name = "WORD")]
    pgsql_password: Option<String>,
    #[arg(long, alias = "pgsql_db", value_name = "NAME", help = "Database that holds the tables [default: sbtest]")]
    pgsql_db: Option<String>,
    /// Encryption over TCP: disable, prefer, require, verify-ca, verify-full. The last two check the server's certificate
    /// [default: prefer, or verify-ca with --pgsql-sslrootcert]
    #[arg(long, alias = "pgsql_sslmode", value_name = "MODE")]
    pgsql_sslmode: Option<String>,
    /// The certificate of the authority that signed the server's, or the server's own, in PEM
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

/// Finds a variable of the environment; one without a value is none.
type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The flags that say where a server is; the others say as whom, and how, it is talked to.
const PLACES: [&str; 8] = [
    "--mysql-host",
    "--mysql-port",
    "--mysql-socket",
    "--defaults-file",
    "--defaults-group-suffix",
    "--pgsql-service",
    "--pgsql-host",
    "--pgsql-port",
];

/// sysbench's default for account and database.
const SBTEST: &str = "sbtest";

impl Connection {
    /// # Errors
    /// Usage: what is written is no connection string, or no way of encrypting.
    pub fn target(&self) -> Result<Target, Failure> {
        self.target_with(variable)
    }

    /// `variable` looks one up in the environment.
    fn target_with(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Target, Failure> {
        let variable: &Lookup<'_> = &|name| variable(name).filter(|value| !value.is_empty());
        self.check_for_contradictions()?;
        let mut target = match (&self.sandbox, &self.dsn, self.dsn_of_environment(variable)?) {
            (Some(name), _, _) => self.overlaid(of_sandbox(name)?)?,
            (None, Some(dsn), _) => self.of_driver(from_dsn(dsn, variable)?)?,
            (None, None, Some(target)) => self.overlaid(target)?,
            (None, None, None) => self.target_of_flags(variable)?,
        };
        if target.tls.verifies() && target.tls_ca.is_none() {
            let flag = if target.protocol == Protocol::Mysql { "--mysql-ssl-ca" } else { "--pgsql-sslrootcert" };
            return Err(Failure::message(
                Exit::Usage,
                "the server's certificate cannot be checked: no file with CA certificates was named",
            )
            .hint(format!("{flag}=FILE, or sslrootcert=FILE in the connection string")));
        }
        target.database.get_or_insert_with(|| SBTEST.to_owned());
        if target.protocol == Protocol::Postgresql && target.password.is_empty() {
            target.password = pgpass(&target).unwrap_or_default();
        }
        Ok(target)
    }

    /// What WRINGER_DSN says, unless a flag names another server: a flag is nearer than the environment.
    fn dsn_of_environment(&self, variable: &Lookup<'_>) -> Result<Option<Target>, Failure> {
        let Some(dsn) = variable("WRINGER_DSN").filter(|_| self.dsn.is_none() && self.sandbox.is_none()) else {
            return Ok(None);
        };
        let flags = [self.mysql_flags(), self.postgresql_flags()].concat();
        let place = flags.iter().find(|flag| PLACES.contains(flag)).copied();
        let target = from_dsn(&dsn, variable)?;
        let other = match target.protocol {
            Protocol::Mysql => self.postgresql_flags().first().copied(),
            Protocol::Postgresql => self.mysql_flags().first().copied(),
        };
        let driver = self.db_driver.filter(|driver| driver.protocol() != target.protocol).map(|_| "--db-driver");
        let Some(flag) = place.or(other).or(driver) else { return Ok(Some(target)) };
        terminal::say(format_args!("note: {flag} names the server, and WRINGER_DSN in the environment is left out"));
        Ok(None)
    }

    /// The server of `target`, with what flags say of account, database and encryption.
    fn overlaid(&self, mut target: Target) -> Result<Target, Failure> {
        let flags = match target.protocol {
            Protocol::Mysql => self.mysql()?,
            Protocol::Postgresql => self.postgresql()?,
        };
        if let Some(user) = flags.user {
            // the password there is another account's
            target.password = environment(target.protocol, &variable).password.unwrap_or_default();
            target.user = user;
        }
        target.password = flags.password.unwrap_or(target.password);
        target.database = flags.database.or(target.database);
        if flags.tls.is_some() || flags.tls_ca.is_some() {
            target.tls = Tls::chosen(flags.tls.or(Some(target.tls)), flags.tls_ca.is_some());
            target.tls_ca = flags.tls_ca.or(target.tls_ca);
        }
        self.of_driver(target)
    }

    fn of_driver(&self, target: Target) -> Result<Target, Failure> {
        let flags = match target.protocol {
            Protocol::Mysql => self.postgresql_flags(),
            Protocol::Postgresql => self.mysql_flags(),
        };
        let driver = self.db_driver.filter(|driver| driver.protocol() != target.protocol).map(|_| "--db-driver");
        let Some(flag) = driver.or(flags.first().copied()) else { return Ok(target) };
        let named = if self.sandbox.is_some() { "--sandbox" } else { "--dsn" };
        let message = format!("{named} and {flag} speak of different servers: one is {}", target.protocol.name());
        Err(Failure::message(Exit::Usage, message).hint(format!("leave {flag} out")))
    }

    /// What would be left out without a word, is refused: a load that goes to another server than the one that was meant, or goes
    /// there without the encryption that was asked for, is worse than none.
    fn check_for_contradictions(&self) -> Result<(), Failure> {
        let (mysql, postgresql) = (self.mysql_flags(), self.postgresql_flags());
        let refuse = |message: String, hint: &str| Err(Failure::message(Exit::Usage, message).hint(hint));
        let flags = [mysql.clone(), postgresql.clone()].concat();
        if let (Some(_), Some(flag)) = (&self.dsn, flags.first()) {
            let hint = format!("leave {flag} out, or write it into the connection string");
            return refuse(format!("--dsn names the server already, and {flag} is given beside it"), &hint);
        }
        if let (Some(_), Some(flag)) = (&self.sandbox, flags.iter().find(|flag| PLACES.contains(flag))) {
            let hint = format!("leave {flag} out: a sandbox's place is known");
            return refuse(format!("--sandbox names the server already, and {flag} is given beside it"), &hint);
        }
        match (mysql.first(), postgresql.first()) {
            (Some(mysql), Some(postgresql)) => {
                refuse(format!("{mysql} and {postgresql} name two servers"), "one load has one server")
            }
            (Some(flag), _) if self.db_driver == Some(Driver::Pgsql) => {
                refuse(format!("{flag} is MySQL's, and --db-driver=pgsql is PostgreSQL"), "leave one of them out")
            }
            (_, Some(flag)) if self.db_driver == Some(Driver::Mysql) => {
                refuse(format!("{flag} is PostgreSQL's, and --db-driver=mysql is MySQL"), "leave one of them out")
            }
            _ => Ok(()),
        }
    }

    fn mysql_flags(&self) -> Vec<&'static str> {
        said([
            (self.mysql_host.is_some(), "--mysql-host"),
            (self.mysql_port.is_some(), "--mysql-port"),
            (self.mysql_socket.is_some(), "--mysql-socket"),
            (self.mysql_user.is_some(), "--mysql-user"),
            (self.mysql_password.is_some(), "--mysql-password"),
            (self.mysql_db.is_some(), "--mysql-db"),
            (self.mysql_ssl.is_some(), "--mysql-ssl"),
            (self.mysql_ssl_ca.is_some(), "--mysql-ssl-ca"),
            (self.defaults_file.is_some(), "--defaults-file"),
            (self.defaults_group_suffix.is_some(), "--defaults-group-suffix"),
        ])
    }

    fn postgresql_flags(&self) -> Vec<&'static str> {
        said([
            (self.pgsql_service.is_some(), "--pgsql-service"),
            (self.pgsql_host.is_some(), "--pgsql-host"),
            (self.pgsql_port.is_some(), "--pgsql-port"),
            (self.pgsql_user.is_some(), "--pgsql-user"),
            (self.pgsql_password.is_some(), "--pgsql-password"),
            (self.pgsql_db.is_some(), "--pgsql-db"),
            (self.pgsql_sslmode.is_some(), "--pgsql-sslmode"),
            (self.pgsql_sslrootcert.is_some(), "--pgsql-sslrootcert"),
        ])
    }

    /// As [`Self::target`], where what is to be sent decides the protocol unless a flag says another.
    ///
    /// # Errors
    /// As [`Self::target`].
    pub fn target_for(mut self, protocol: Protocol) -> Result<Target, Failure> {
        if !self.names_a_server() {
            self.db_driver = Some(if protocol == Protocol::Mysql { Driver::Mysql } else { Driver::Pgsql });
        }
        self.target()
    }

    /// Whether a flag or WRINGER_DSN says that there is a server; option files and other variables say which, once there is.
    pub fn names_a_server(&self) -> bool {
        let has_dsn = self.dsn.is_some() || variable("WRINGER_DSN").is_some();
        has_dsn
            || self.sandbox.is_some()
            || self.db_driver.is_some()
            || !self.mysql_flags().is_empty()
            || !self.postgresql_flags().is_empty()
    }

    fn target_of_flags(&self, variable: &Lookup<'_>) -> Result<Target, Failure> {
        let protocol = self.protocol(variable);
        let parts = match protocol {
            Protocol::Mysql => {
                let suffix = self.defaults_group_suffix.clone().or_else(|| variable("MYSQL_GROUP_SUFFIX"));
                let suffix = suffix.unwrap_or_default();
                let file = self.my_cnf(&suffix, variable)?;
                // a file that was named comes before what happens to be in the environment
                match &self.defaults_file {
                    Some(_) => self.mysql()?.or(file).or(environment(protocol, variable)),
                    None => self.mysql()?.or(environment(protocol, variable)).or(file),
                }
            }
            Protocol::Postgresql => {
                // libpq refuses a word that it does not know: taken for none, it would mean less encryption than was asked for
                variable("PGSSLMODE").map_or(Ok(None), |mode| tls(Some(&mode)))?;
                self.postgresql()?.or(self.service(variable)?).or(environment(protocol, variable))
            }
        };
        Ok(parts.into_target(protocol, SBTEST, Path::exists))
    }

    /// What no flag says, the environment may: PGHOST alone means PostgreSQL, as it does for psql.
    fn protocol(&self, variable: &Lookup<'_>) -> Protocol {
        let is_set = |names: &[&str]| names.iter().any(|name| variable(name).is_some());
        match self.db_driver {
            Some(driver) => driver.protocol(),
            None if !self.postgresql_flags().is_empty() => Protocol::Postgresql,
            None if !self.mysql_flags().is_empty() || is_set(&["MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT"]) => {
                Protocol::Mysql
            }
            None if is_set(&["PGHOST", "PGPORT", "PGSERVICE"]) => Protocol::Postgresql,
            None => Protocol::Mysql,
        }
    }

    /// What the option file says: the one that was named, else the user's.
    fn my_cnf(&self, suffix: &str, variable: &Lookup<'_>) -> Result<Parts, Failure> {
        let home = || variable("HOME").map(|home| Path::new(&home).join(".my.cnf"));
        let (path, text) = match (&self.defaults_file, home()) {
            (Some(named), _) => {
                (named.clone(), input::read(named).map_err(|error| Failure::new(Exit::Missing, error))?)
            }
            (None, Some(path)) => match input::read(&path) {
                Ok(text) => (path, text),
                Err(_) => return Ok(Parts::default()),
            },
            (None, None) => return Ok(Parts::default()),
        };
        Parts::from_my_cnf(&text, suffix)
            .map_err(|why| Failure::message(Exit::Usage, format!("{}: {why}", path.display())))
    }

    /// libpq looks into the user's file, then into the system's; a service comes before the environment.
    fn service(&self, variable: &Lookup<'_>) -> Result<Parts, Failure> {
        let Some(service) = self.pgsql_service.clone().or_else(|| variable("PGSERVICE")) else {
            return Ok(Parts::default());
        };
        let home = variable("HOME").map(|home| Path::new(&home).join(".pg_service.conf"));
        let own = variable("PGSERVICEFILE").map(PathBuf::from).or(home);
        let folder = variable("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".into());
        let files: Vec<PathBuf> = own.into_iter().chain([Path::new(&folder).join("pg_service.conf")]).collect();
        for text in files.iter().filter_map(|path| input::read(path).ok()) {
            let found = from_service_file(&text, &service).map_err(|why| Failure::message(Exit::Usage, why))?;
            if let Some(parts) = found {
                return Ok(parts);
            }
        }
        let places: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        let message = format!("there is no service '{service}' in {}", places.join(" nor in "));
        Err(Failure::message(Exit::Missing, message).hint("PGSERVICEFILE names another file"))
    }

    fn mysql(&self) -> Result<Parts, Failure> {
        Ok(Parts {
            host: self.mysql_host.clone(),
            port: self.mysql_port,
            socket: self.mysql_socket.clone(),
            user: self.mysql_user.clone(),
            password: self.mysql_password.clone().map(Password::new),
            database: self.mysql_db.clone(),
            tls: tls(self.mysql_ssl.as_deref())?,
            tls_ca: self.mysql_ssl_ca.clone(),
        })
    }

    fn postgresql(&self) -> Result<Parts, Failure> {
        Ok(Parts {
            host: self.pgsql_host.clone(),
            port: self.pgsql_port,
            socket: None,
            user: self.pgsql_user.clone(),
            password: self.pgsql_password.clone().map(Password::new),
            database: self.pgsql_db.clone(),
            tls: tls(self.pgsql_sslmode.as_deref())?,
            tls_ca: self.pgsql_sslrootcert.clone(),
        })
    }
}

fn said<const N: usize>(flags: [(bool, &'static str); N]) -> Vec<&'static str> {
    flags.into_iter().filter_map(|(is_there, name)| is_there.then_some(name)).collect()
}

/// Of the environment; one without a value is none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn from_dsn(dsn: &str, variable: &Lookup<'_>) -> Result<Target, Failure> {
    let mut target: Target = dsn.parse().map_err(|error| Failure::new(Exit::Usage, error))?;
    if target.password.is_empty() {
        target.password = environment(target.protocol, variable).password.unwrap_or_default();
    }
    Ok(target)
}

/// The server itself, over its socket, with all rights.
fn of_sandbox(name: &str) -> Result<Target, Failure> {
    let places = Places::from_environment();
    let sandbox = Sandbox::open(name, &places)?;
    // one that cannot be seen may answer
    if sandbox.server_now(&places)?.is_stopped() {
        return Err(sandbox::Error::NotRunning { name: name.to_owned() }.into());
    }
    Ok(sandbox.connection()?)
}

fn environment(protocol: Protocol, variable: &Lookup<'_>) -> Parts {
    Parts::from_environment(protocol, variable)
}

fn pgpass(target: &Target) -> Option<Password> {
    let text = match std::env::var_os("PGPASSFILE") {
        Some(path) => input::read(Path::new(&path)).ok()?,
        None => input::read(&Path::new(&std::env::var_os("HOME")?).join(".pgpass")).ok()?,
    };
    password_from_pgpass(&text, target)
}

fn tls(written: Option<&str>) -> Result<Option<Tls>, Failure> {
    written.map(|mode| mode.parse().map_err(|reason: String| Failure::message(Exit::Usage, reason))).transpose()
}

#[cfg(test)]
mod tests;
