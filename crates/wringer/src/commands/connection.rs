// SPDX-License-Identifier: Apache-2.0
//! Which server, where, as whom: the flags that every command with a server shares.
//!
//! They are sysbench's, and mean the same; a connection string says all of it at once. What neither says is taken from where
//! people have it already: the environment (`MYSQL_PWD`, `PGHOST`, ...), `~/.my.cnf`, `~/.pg_service.conf`, `~/.pgpass`. `ps` does not show these.

use crate::exit::{Exit, Failure};
use crate::input;
use clap::ValueEnum;
use load::target::options::{Parts, from_service_file, password_from_pgpass};
use load::{Flavour, Password, Target, Tls};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// All of it in one, and then no other flag of these: mysql://user@host:3306/sbtest,
    /// postgresql://user@host/sbtest?tls=require, ...?socket=/path. One with a password belongs into WRINGER_DSN: every user can read
    /// flags in the list of processes [env: WRINGER_DSN]
    #[arg(long, value_name = "URL")]
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
        let dsn = match &self.dsn {
            Some(dsn) => Some(("--dsn", dsn.clone())),
            None => variable("WRINGER_DSN").map(|dsn| ("WRINGER_DSN in the environment", dsn)),
        };
        self.check_for_contradictions(dsn.as_ref().map(|(name, _)| *name))?;
        let mut target = match dsn {
            Some((name, dsn)) => {
                let target = from_dsn(&dsn)?;
                if self.db_driver.is_some() && self.flavour() != target.flavour {
                    let message = format!("{name} and --db-driver speak of different servers");
                    return Err(Failure::message(Exit::Usage, message).hint("leave --db-driver out"));
                }
                target
            }
            None => self.target_of_flags()?,
        };
        if target.tls.verifies() && target.tls_ca.is_none() {
            let flag = if target.flavour == Flavour::Mysql { "--mysql-ssl-ca" } else { "--pgsql-sslrootcert" };
            return Err(Failure::message(Exit::Usage, "no authority to check the server's certificate against")
                .hint(format!("{flag}=FILE, or sslrootcert=FILE in the connection string")));
        }
        target.database.get_or_insert_with(|| SBTEST.to_owned());
        if target.flavour == Flavour::Postgresql && target.password.is_empty() {
            target.password = pgpass(&target).unwrap_or_default();
        }
        Ok(target)
    }

    /// What would be left out without a word, is refused: a load that goes to another server than the one that was meant, or goes
    /// there without the encryption that was asked for, is worse than none.
    fn check_for_contradictions(&self, dsn: Option<&str>) -> Result<(), Failure> {
        let (mysql, postgresql) = (self.mysql_flags(), self.postgresql_flags());
        let refuse = |message: String, hint: &str| Err(Failure::message(Exit::Usage, message).hint(hint));
        match (dsn, mysql.first(), postgresql.first()) {
            (Some(dsn), first, second) if first.or(second).is_some() => {
                let flag = first.or(second).copied().unwrap_or_default();
                let hint = match dsn {
                    "--dsn" => format!("leave {flag} out, or write it into the connection string"),
                    _ => format!("`unset WRINGER_DSN`, or leave {flag} out"),
                };
                refuse(format!("{dsn} names the server already, and {flag} is given beside it"), &hint)
            }
            (_, Some(mysql), Some(postgresql)) => {
                refuse(format!("{mysql} and {postgresql} name two servers"), "one load has one server")
            }
            (_, Some(flag), _) if self.db_driver == Some(Driver::Pgsql) => {
                refuse(format!("{flag} is MySQL's, and --db-driver=pgsql is PostgreSQL"), "leave one of them out")
            }
            (_, _, Some(flag)) if self.db_driver == Some(Driver::Mysql) => {
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
    pub fn target_for(mut self, flavour: Flavour) -> Result<Target, Failure> {
        if !self.names_a_server() {
            self.db_driver = Some(if flavour == Flavour::Mysql { Driver::Mysql } else { Driver::Pgsql });
        }
        self.target()
    }

    /// Whether a flag or WRINGER_DSN says that there is a server; option files and other variables say which, once there is.
    pub fn names_a_server(&self) -> bool {
        let has_dsn = self.dsn.is_some() || variable("WRINGER_DSN").is_some();
        has_dsn || self.db_driver.is_some() || !self.mysql_flags().is_empty() || !self.postgresql_flags().is_empty()
    }

    fn target_of_flags(&self) -> Result<Target, Failure> {
        let flavour = self.flavour();
        let parts = match flavour {
            Flavour::Mysql => {
                let suffix = self.defaults_group_suffix.clone().or_else(|| variable("MYSQL_GROUP_SUFFIX"));
                let suffix = suffix.unwrap_or_default();
                let file = self.my_cnf(&suffix)?;
                // a file that was named comes before what happens to be in the environment
                match &self.defaults_file {
                    Some(_) => self.mysql()?.or(file).or(environment(flavour)),
                    None => self.mysql()?.or(environment(flavour)).or(file),
                }
            }
            Flavour::Postgresql => {
                // libpq refuses a word that it does not know: taken for none, it would mean less encryption than was asked for
                variable("PGSSLMODE").map_or(Ok(None), |mode| tls(Some(&mode)))?;
                self.postgresql()?.or(self.service()?).or(environment(flavour))
            }
        };
        Ok(parts.into_target(flavour, SBTEST, Path::exists))
    }

    fn flavour(&self) -> Flavour {
        match self.db_driver {
            Some(Driver::Mysql) => Flavour::Mysql,
            Some(Driver::Pgsql) => Flavour::Postgresql,
            None if !self.postgresql_flags().is_empty() => Flavour::Postgresql,
            None => Flavour::Mysql,
        }
    }

    /// What the option file says: the one that was named, else the user's.
    fn my_cnf(&self, suffix: &str) -> Result<Parts, Failure> {
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
    fn service(&self) -> Result<Parts, Failure> {
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

/// Classifies what went wrong with a server: when it cannot be reached, or refuses, nothing has been done.
pub fn server_failure(error: load::Error) -> Failure {
    use load::Error as E;
    let hint = match &error {
        E::Connect { .. } | E::NoAddress { .. } => {
            "is the server up, and is this its address? `wringer sandbox list` shows the sandboxes and their sockets"
        }
        E::Lost { during: LOGGING_IN, .. } => {
            "is it a server of this kind (--db-driver), does it answer its own client, and does it let this host in?"
        }
        E::Statements { .. } => hint_for("1461"),
        E::Descriptors { .. } => {
            "raise the hard limit: as root `ulimit -Hn 65536`, LimitNOFILE= in a systemd unit, or /etc/security/limits.conf"
        }
        E::Full { setting: "max_connections", .. } => {
            "MySQL and MariaDB: SET GLOBAL max_connections = N, within open_files_limit; a sandbox: `sandbox deploy ... -c \
             max_connections=N`"
        }
        E::Full { setting: "max_user_connections", .. } => {
            "SET GLOBAL max_user_connections = N, or ALTER USER ... WITH MAX_USER_CONNECTIONS N"
        }
        E::Full { .. } => {
            "PostgreSQL: max_connections in postgresql.conf and a restart, ALTER ROLE ... CONNECTION LIMIT N; a sandbox: \
             `sandbox deploy ... -c max_connections=N`"
        }
        E::OtherTable { .. } => "name another database, or drop that table",
        E::Tls { .. } => {
            "verify-ca wants the certificate of the authority that signed the server's, verify-full (verify-identity) also that it names \
             the host as it was said; require takes any certificate"
        }
        E::NoTls { .. } => "the server must have a certificate, or say prefer or disable",
        error => error.code().map_or("", hint_for),
    };
    let exit = match &error {
        E::Invalid(_) | E::Dsn { .. } => Exit::Usage,
        E::Lost { during: LOGGING_IN, .. } => Exit::Missing,
        E::ServerLost { .. } | E::Lost { .. } | E::System { .. } => Exit::Failed,
        _ => Exit::Missing,
    };
    let failure = Failure::new(exit, error);
    if hint.is_empty() { failure } else { failure.hint(hint) }
}

/// Nothing was done yet.
const LOGGING_IN: &str = "logging in";

/// What helps against an error of a server, by its code; empty where its own words must do.
pub(super) fn hint_for(code: &str) -> &'static str {
    match code {
        "1045" | "28P01" | "28000" => {
            "give user and password: --mysql-user and MYSQL_PWD, or --pgsql-user and PGPASSWORD, or ~/.my.cnf, ~/.pgpass"
        }
        "1044" | "1142" | "1143" | "1227" | "42501" => {
            "the account lacks a right: GRANT it, as an administrator (SELECT, INSERT, UPDATE, DELETE on the tables; CREATE, DROP for \
             bulk_insert)"
        }
        "1820" | "1862" => "ALTER USER ... IDENTIFIED BY '...', as that user with the server's own client",
        "1054" | "42703" => "the table has other columns than the workload's: `wringer fill` makes tables that fit",
        "1146" | "42P01" => "`wringer fill` makes the tables",
        "1049" | "3D000" => "the database must be there first: CREATE DATABASE sbtest",
        "1461" => {
            "SET GLOBAL max_prepared_stmt_count = N, fewer --threads or --tables, or --db-ps-mode=disable; a sandbox: `sandbox \
             deploy ... -c max_prepared_stmt_count=N`"
        }
        "26000" | "42P05" => {
            "behind pgBouncer in transaction or statement mode a prepared statement belongs to whichever server connection it was \
             made on: say --db-ps-mode=disable, or deploy with --pool-mode session"
        }
        "1040" | "53300" | "1203" | "1226" => {
            "raise the server's max_connections (max_user_connections), or use fewer --threads"
        }
        _ => "",
    }
}

fn from_dsn(dsn: &str) -> Result<Target, Failure> {
    let mut target: Target = dsn.parse().map_err(|error| Failure::new(Exit::Usage, error))?;
    if target.password.is_empty() {
        target.password = environment(target.flavour).password.unwrap_or_default();
    }
    Ok(target)
}

fn environment(flavour: Flavour) -> Parts {
    Parts::from_environment(flavour, |name| std::env::var(name).ok())
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
mod tests {
    use super::*;
    use clap::Parser;
    use load::Endpoint;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        connection: Connection,
    }

    fn target(flags: &[&str]) -> Target {
        Line::parse_from([&["test"], flags].concat()).connection.target().unwrap()
    }

    #[test]
    fn one_server_is_named_once() {
        for flag in ["--mysql-host=h", "--mysql-db=d", "--pgsql-port=1", "--pgsql-sslmode=require", "--defaults-file=f"]
        {
            let refused = Line::parse_from(["test", "--dsn=mysql://me@here", flag]).connection.target().unwrap_err();
            let name = flag.split('=').next().unwrap();
            assert!(refused.error.to_string().contains(name), "{refused:?}");
            assert_eq!(refused.exit, Exit::Usage);
        }
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
    fn certificates_by_the_names_that_the_servers_clients_know() {
        let mysql = target(&["--mysql-host=db", "--ssl-mode=VERIFY_IDENTITY", "--ssl-ca=/ca.pem"]);
        assert_eq!((mysql.tls, mysql.tls_ca), (Tls::VerifyFull, Some("/ca.pem".into())));
        let pgsql = target(&["--pgsql-host=db", "--pgsql-sslrootcert=/ca.pem"]);
        assert_eq!((pgsql.flavour, pgsql.tls), (Flavour::Postgresql, Tls::VerifyCa));
        let line = Line::parse_from(["test", "--pgsql-sslmode=verify-full"]);
        let refused = line.connection.target().unwrap_err();
        assert!(refused.exit == Exit::Usage && refused.hints[0].contains("--pgsql-sslrootcert"), "{refused:?}");
    }

    #[test]
    fn an_option_file_that_was_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("shop.cnf");
        let text = "[client]\nuser=me\npassword=word\n[client-shop]\nsocket=/s.sock\n[mysql]\ndatabase=shop\n";
        #[allow(clippy::disallowed_methods)] // a file of the test's own
        std::fs::write(&path, text).unwrap();
        let file = format!("--defaults-file={}", path.display());
        let shop = target(&[&file, "--defaults-group-suffix=-shop", "--mysql-user=you"]);
        assert_eq!((shop.endpoint, shop.user.as_str()), (Endpoint::Socket("/s.sock".into()), "you"));
        assert_eq!((shop.password.reveal(), shop.database.as_deref()), ("word", Some("shop")));
        let missing = Line::parse_from(["test", "--defaults-file=/none"]).connection.target().unwrap_err();
        assert_eq!(missing.exit, Exit::Missing);
        let unknown = Line::parse_from(["test", "--pgsql-service=none"]).connection.target().unwrap_err();
        assert!(unknown.exit == Exit::Missing && unknown.error.to_string().contains("pg_service.conf"), "{unknown:?}");
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_both_names() {
        let refusal = |flags: &[&str], dsn: Option<&str>| {
            let line = Line::parse_from([&["test"], flags].concat());
            let refused = line.connection.target_with(|_| dsn.map(str::to_owned)).unwrap_err();
            assert_eq!(refused.exit, Exit::Usage);
            refused.error.to_string()
        };
        let dsn = "--dsn=mysql://me@db/sbtest";
        for flag in ["--mysql-ssl=verify-ca", "--pgsql-host=other", "--defaults-file=/x", "--db-driver=pgsql"] {
            let name = flag.split('=').next().unwrap();
            for said in [refusal(&[dsn, flag], None), refusal(&[flag], Some("mysql://me@db/sbtest"))] {
                assert!(
                    said.contains(name) && said.contains(if said.contains("--dsn") { "--dsn" } else { "WRINGER_DSN" }),
                    "{said}"
                );
            }
        }
        assert!(refusal(&["--mysql-host=a", "--pgsql-host=b"], None).contains("--mysql-host and --pgsql-host"));
        assert!(refusal(&["--mysql-host=a", "--db-driver=pgsql"], None).contains("--db-driver=pgsql"));
        assert!(refusal(&["--pgsql-db=a", "--db-driver=mysql"], None).contains("--pgsql-db"));
        let from_environment = Line::parse_from(["test"]).connection;
        let target = from_environment.target_with(|_| Some("mysql://me@db:3333/sbtest".into())).unwrap();
        assert_eq!(target.endpoint, Endpoint::Tcp("db".into(), 3333));
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        let line = Line::parse_from(["test", "--dsn=oracle://x"]);
        assert_eq!(line.connection.target().unwrap_err().exit, Exit::Usage);
        let line = Line::parse_from(["test", "--mysql-ssl=maybe"]);
        assert_eq!(line.connection.target().unwrap_err().exit, Exit::Usage);
    }
}
