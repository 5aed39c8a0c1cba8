// SPDX-License-Identifier: Apache-2.0
use load::{Endpoint, Protocol};
use std::io;
use std::path::PathBuf;

/// Why nothing was attached to. An error names flags, also where another program than a command line has made the request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `named`: `--dsn` or `--sandbox`.
    #[error("{named} names the server already, and {flag} is given beside it")]
    NamedAlready { named: &'static str, flag: &'static str },
    #[error("{mysql} and {postgresql} name two servers")]
    TwoServers { mysql: &'static str, postgresql: &'static str },
    #[error("{flag} is {}", but(*driver))]
    OtherDriver { flag: &'static str, driver: Protocol },
    #[error("{named} and {flag} speak of different servers: one is {}", is.name())]
    OtherProtocol { named: &'static str, flag: &'static str, is: Protocol },
    /// `flag`: the flag that would name the certificates.
    #[error("the server's certificate cannot be checked: no file with CA certificates was named")]
    NoAuthority { flag: &'static str },
    #[error(transparent)]
    ConnectionString(load::Error),
    /// A variable of the environment with a value that is no way of encrypting.
    #[error("{why}")]
    Encryption { why: String },
    /// An option file that was named.
    #[error("read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {why}", path.display())]
    OptionFile { path: PathBuf, why: String },
    #[error("{why}")]
    ServiceFile { why: String },
    #[error("there is no service '{service}' in {}", paths(looked_into))]
    NoService { service: String, looked_into: Vec<PathBuf> },
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// The server cannot be reached, or refuses.
    #[error(transparent)]
    Connect(load::Error),
    /// The number of a thread is not the number of a process.
    #[error("there is no process {pid}, or none that this user sees")]
    NoProcess { pid: u32 },
    #[error("process {pid} ({name}) listens at {endpoint}, and is not known to be a server")]
    NoServer { pid: u32, name: String, endpoint: Endpoint },
    /// `serves`: the server that does, in words.
    #[error("--pid names process {pid} ({name}), and {serves} serves {endpoint}")]
    OtherServer { pid: u32, name: String, serves: String, endpoint: Endpoint },
    #[error("this connection does not show which process serves {endpoint}")]
    Unseen { endpoint: Endpoint },
}

/// The end of an error's sentence: the server of the flag, and the server of the driver that was asked for.
fn but(driver: Protocol) -> &'static str {
    match driver {
        Protocol::Mysql => "PostgreSQL's, and --db-driver=mysql is MySQL",
        Protocol::Postgresql => "MySQL's, and --db-driver=pgsql is PostgreSQL",
    }
}

fn paths(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" nor in ")
}

/// How a user can name the process.
const HOW_TO_NAME: &str = "--pid \"$(pidof mariadbd)\" (or mysqld) names it; of PostgreSQL, which has many, --pid \"$(head -1 \
                           DATA/postmaster.pid)\"; this runs on the server's own host";

impl Error {
    /// Whether the request is wrong. Otherwise something that it needs is missing.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Sandbox(error) => error.is_usage(),
            Self::Read { .. } | Self::NoService { .. } | Self::Connect(_) => false,
            Self::NoProcess { .. } | Self::NoServer { .. } | Self::Unseen { .. } | Self::OtherServer { .. } => false,
            _ => true,
        }
    }

    /// What would help. `None` for a server that cannot be reached: the caller knows more about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NamedAlready { named: "--dsn", flag } => {
                format!("leave {flag} out, or write it into the connection string")
            }
            Self::NamedAlready { flag, .. } => format!("leave {flag} out: a sandbox's place is known"),
            Self::TwoServers { .. } => "one load has one server".into(),
            Self::OtherDriver { .. } => "leave one of them out".into(),
            Self::OtherProtocol { flag, .. } => format!("leave {flag} out"),
            Self::NoAuthority { flag } => format!("{flag}=FILE, or sslrootcert=FILE in the connection string"),
            Self::NoService { .. } => "PGSERVICEFILE names another file".into(),
            Self::NoProcess { .. } | Self::NoServer { .. } | Self::Unseen { .. } => HOW_TO_NAME.into(),
            Self::OtherServer { .. } => "leave out --pid, or name the server of that process".into(),
            Self::Sandbox(error) => return error.hint(),
            _ => return None,
        })
    }
}
