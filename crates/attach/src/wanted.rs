// SPDX-License-Identifier: Apache-2.0
//! Which server, where, and with which account: as far as the user has written it, and how the rest is completed.

use crate::{Error, Parts, Surroundings, files};
use host::files::{own_uid, user_name};
use host::places::Places;
use load::{Protocol, Target, Tls};
use sandbox::Sandbox;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What was asked for; a part that is `None` comes from the next source. The flags mean what they mean to sysbench and to the servers' own clients.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Everything in one connection string. Then no other field may be set, except [`Self::pid`].
    pub dsn: Option<String>,
    /// A sandbox that runs, over its socket, as the user with all rights.
    pub sandbox: Option<String>,
    /// The protocol. `None`: the protocol of the flags; else of the variables that name a server; else MySQL's.
    pub driver: Option<Protocol>,
    /// The parts from the flags `--mysql-*`.
    pub mysql: Parts,
    /// The parts from the flags `--pgsql-*`. A host that begins with `/` is the folder of the socket.
    pub postgresql: Parts,
    /// MySQL's option file instead of `~/.my.cnf`, and the ending of further groups to read from it.
    pub defaults_file: Option<PathBuf>,
    pub defaults_group_suffix: Option<String>,
    /// The name of a service in `~/.pg_service.conf`.
    pub service: Option<String>,
    /// The server's process. `None`: the process that listens at the socket, or the sandbox's.
    pub pid: Option<u32>,
}

/// Flags that say where a server is. Other flags name the account and the way of connecting.
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

impl Wanted {
    /// How to connect. Parts that are not set here are taken from the surroundings.
    ///
    /// # Errors
    /// A contradictory request ([`Error::is_usage`]), a missing option file, a sandbox that does not run. Errors of a server or a process do not
    /// occur here.
    pub fn target(&self, around: Surroundings<'_>) -> Result<Target, Error> {
        self.check_for_contradictions()?;
        let mut target = match (&self.sandbox, &self.dsn, self.dsn_of_environment(around)?) {
            (Some(name), _, _) => self.overlaid(of_sandbox(name, around.places)?, around)?,
            (None, Some(dsn), _) => self.of_driver(from_dsn(dsn, around)?)?,
            (None, None, Some(target)) => self.overlaid(target, around)?,
            (None, None, None) => self.target_of_flags(around)?,
        };
        if target.tls.verifies() && target.tls_ca.is_none() {
            let flag = if target.protocol == Protocol::Mysql { "--mysql-ssl-ca" } else { "--pgsql-sslrootcert" };
            return Err(Error::NoAuthority { flag });
        }
        target.database.get_or_insert_with(|| SBTEST.to_owned());
        if target.protocol == Protocol::Postgresql && target.password.is_empty() {
            target.password = files::pgpass(&target, around).unwrap_or_default();
        }
        Ok(target)
    }

    /// Whether the request or WRINGER_DSN names a server. Option files and other variables alone do not; they only complete it.
    pub fn names_a_server(&self, around: Surroundings<'_>) -> bool {
        self.dsn.is_some()
            || around.variable("WRINGER_DSN").is_some()
            || self.sandbox.is_some()
            || self.driver.is_some()
            || !self.mysql_flags().is_empty()
            || !self.postgresql_flags().is_empty()
    }

    /// The target of WRINGER_DSN, unless a flag names another server: flags come before the environment.
    fn dsn_of_environment(&self, around: Surroundings<'_>) -> Result<Option<Target>, Error> {
        let Some(dsn) = around.variable("WRINGER_DSN").filter(|_| self.dsn.is_none() && self.sandbox.is_none()) else {
            return Ok(None);
        };
        let flags = [self.mysql_flags(), self.postgresql_flags()].concat();
        let place = flags.iter().find(|flag| PLACES.contains(flag)).copied();
        let target = from_dsn(&dsn, around)?;
        let Some(flag) = place.or(self.flag_of_the_other(target.protocol)) else { return Ok(Some(target)) };
        (around.say)(&format!("{flag} names the server, and WRINGER_DSN in the environment is left out"));
        Ok(None)
    }

    /// A flag that says that the server is of another protocol.
    fn flag_of_the_other(&self, protocol: Protocol) -> Option<&'static str> {
        let flags = match protocol {
            Protocol::Mysql => self.postgresql_flags(),
            Protocol::Postgresql => self.mysql_flags(),
        };
        let driver = self.driver.filter(|driver| *driver != protocol).map(|_| "--db-driver");
        flags.first().copied().or(driver)
    }

    /// The server of `target`, with the account, database and encryption of the flags.
    fn overlaid(&self, mut target: Target, around: Surroundings<'_>) -> Result<Target, Error> {
        let flags = self.flags(target.protocol).clone();
        if let Some(user) = flags.user {
            // the password there belongs to another account
            target.password = around.parts(target.protocol).password.unwrap_or_default();
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

    fn of_driver(&self, target: Target) -> Result<Target, Error> {
        let Some(flag) = self.flag_of_the_other(target.protocol) else { return Ok(target) };
        let named = if self.sandbox.is_some() { "--sandbox" } else { "--dsn" };
        Err(Error::OtherProtocol { named, flag, is: target.protocol })
    }

    /// Refuses parts that would be silently ignored: a load on another server than the one that was meant, or without the encryption that was
    /// asked for, is worse than no load.
    fn check_for_contradictions(&self) -> Result<(), Error> {
        let (mysql, postgresql) = (self.mysql_flags(), self.postgresql_flags());
        let flags = [mysql.clone(), postgresql.clone()].concat();
        if let (Some(_), Some(flag)) = (&self.dsn, flags.first().copied()) {
            return Err(Error::NamedAlready { named: "--dsn", flag });
        }
        if let (Some(_), Some(flag)) = (&self.sandbox, flags.iter().copied().find(|flag| PLACES.contains(flag))) {
            return Err(Error::NamedAlready { named: "--sandbox", flag });
        }
        match (mysql.first().copied(), postgresql.first().copied(), self.driver) {
            (Some(mysql), Some(postgresql), _) => Err(Error::TwoServers { mysql, postgresql }),
            (Some(flag), _, Some(driver @ Protocol::Postgresql)) | (_, Some(flag), Some(driver @ Protocol::Mysql)) => {
                Err(Error::OtherDriver { flag, driver })
            }
            _ => Ok(()),
        }
    }

    fn mysql_flags(&self) -> Vec<&'static str> {
        said([
            (self.mysql.host.is_some(), "--mysql-host"),
            (self.mysql.port.is_some(), "--mysql-port"),
            (self.mysql.socket.is_some(), "--mysql-socket"),
            (self.mysql.user.is_some(), "--mysql-user"),
            (self.mysql.password.is_some(), "--mysql-password"),
            (self.mysql.database.is_some(), "--mysql-db"),
            (self.mysql.tls.is_some(), "--mysql-ssl"),
            (self.mysql.tls_ca.is_some(), "--mysql-ssl-ca"),
            (self.defaults_file.is_some(), "--defaults-file"),
            (self.defaults_group_suffix.is_some(), "--defaults-group-suffix"),
        ])
    }

    fn postgresql_flags(&self) -> Vec<&'static str> {
        said([
            (self.service.is_some(), "--pgsql-service"),
            (self.postgresql.host.is_some(), "--pgsql-host"),
            (self.postgresql.port.is_some(), "--pgsql-port"),
            (self.postgresql.user.is_some(), "--pgsql-user"),
            (self.postgresql.password.is_some(), "--pgsql-password"),
            (self.postgresql.database.is_some(), "--pgsql-db"),
            (self.postgresql.tls.is_some(), "--pgsql-sslmode"),
            (self.postgresql.tls_ca.is_some(), "--pgsql-sslrootcert"),
        ])
    }

    fn flags(&self, protocol: Protocol) -> &Parts {
        match protocol {
            Protocol::Mysql => &self.mysql,
            Protocol::Postgresql => &self.postgresql,
        }
    }

    fn target_of_flags(&self, around: Surroundings<'_>) -> Result<Target, Error> {
        let protocol = self.protocol(around);
        let (flags, environment) = (self.flags(protocol).clone(), around.parts(protocol));
        let parts = match protocol {
            Protocol::Mysql => {
                let suffix = self.defaults_group_suffix.clone().or_else(|| around.variable("MYSQL_GROUP_SUFFIX"));
                let file = files::my_cnf(self.defaults_file.as_deref(), &suffix.unwrap_or_default(), around)?;
                // a file that was named comes before the environment
                match &self.defaults_file {
                    Some(_) => flags.or(file).or(environment),
                    None => flags.or(environment).or(file),
                }
            }
            Protocol::Postgresql => {
                // libpq refuses a word that it does not know: ignored, it would mean less encryption than was asked for
                let mode = around.variable("PGSSLMODE").map(|mode| mode.parse::<Tls>()).transpose();
                mode.map_err(|why| Error::Encryption { why })?;
                let service = self.service.clone().or_else(|| around.variable("PGSERVICE"));
                flags.or(files::service(service, around)?).or(environment)
            }
        };
        Ok(parts.into_target(protocol, SBTEST, is_servers_socket))
    }

    /// The protocol. Where no flag tells it, the environment may: PGHOST alone means PostgreSQL, as it does for psql.
    fn protocol(&self, around: Surroundings<'_>) -> Protocol {
        let is_set = |names: &[&str]| names.iter().any(|name| around.variable(name).is_some());
        match self.driver {
            Some(driver) => driver,
            None if !self.postgresql_flags().is_empty() => Protocol::Postgresql,
            None if !self.mysql_flags().is_empty() || is_set(&["MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT"]) => {
                Protocol::Mysql
            }
            None if is_set(&["PGHOST", "PGPORT", "PGSERVICE"]) => Protocol::Postgresql,
            None => Protocol::Mysql,
        }
    }
}

/// Whether a socket is there that may be a server's. In `/tmp` everybody can listen at the usual name, and would be told the account, and perhaps the
/// password: there it belongs to root, to the caller, or to the user of a server's package.
fn is_servers_socket(path: &Path) -> bool {
    let Ok(found) = path.metadata() else { return false };
    !path.starts_with("/tmp") || is_servers_user(found.uid())
}

fn is_servers_user(uid: u32) -> bool {
    let packages = || user_name(uid).is_some_and(|name| ["mysql", "postgres"].contains(&name.as_str()));
    uid == 0 || uid == own_uid() || packages()
}

fn said<const N: usize>(flags: [(bool, &'static str); N]) -> Vec<&'static str> {
    flags.into_iter().filter_map(|(is_there, name)| is_there.then_some(name)).collect()
}

fn from_dsn(dsn: &str, around: Surroundings<'_>) -> Result<Target, Error> {
    let mut target: Target = dsn.parse().map_err(Error::ConnectionString)?;
    if target.password.is_empty() {
        target.password = around.parts(target.protocol).password.unwrap_or_default();
    }
    Ok(target)
}

/// The server itself, over its socket, with all rights.
fn of_sandbox(name: &str, places: &Places) -> Result<Target, Error> {
    Ok(Sandbox::open_running(name, places)?.connection()?)
}
