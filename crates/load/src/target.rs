// SPDX-License-Identifier: Apache-2.0
//! A server, its address, and the account.

mod dsn;

pub use capability::Protocol;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// The path of the socket file itself, also for PostgreSQL (`/run/postgresql/.s.PGSQL.5432`).
    Socket(PathBuf),
    /// Host name or address, and port.
    Tcp(String, u16),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Transport encryption. Nothing is encrypted on a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Never.
    Disable,
    /// If the server offers it; the certificate is not checked.
    #[default]
    Prefer,
    /// Always, else no connection; the certificate is not checked.
    Require,
    /// Always; the certificate must come from the authority in [`Target::tls_ca`].
    VerifyCa,
    /// As [`Self::VerifyCa`], and the certificate must name the host.
    VerifyFull,
}

impl Tls {
    pub fn is_required(self) -> bool {
        matches!(self, Self::Require | Self::VerifyCa | Self::VerifyFull)
    }

    /// Whether the server's certificate is checked; that needs a [`Target::tls_ca`].
    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// A password that is never shown: neither in `Debug` nor when serialised.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// The password in clear text, for the authentication exchange only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "(none)" } else { "(hidden)" })
    }
}

/// One server, one account, one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    pub endpoint: Endpoint,
    pub user: String,
    pub password: Password,
    /// `None`: no default database (MySQL), or the one named like the user (PostgreSQL).
    pub database: Option<String>,
    pub tls: Tls,
    /// Certificates in PEM: of trusted authorities, or of the server itself.
    pub tls_ca: Option<PathBuf>,
}

impl Target {
    /// The same account, in a database that every server has: none (MySQL), `postgres` (PostgreSQL).
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        let database = match self.protocol {
            Protocol::Mysql => None,
            Protocol::Postgresql => Some("postgres".to_owned()),
        };
        Self { database, ..self.clone() }
    }
}
