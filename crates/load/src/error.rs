// SPDX-License-Identifier: Apache-2.0
use crate::target::Endpoint;
use std::io;

/// Why a conversation with a server, or a whole load, ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("connect to {endpoint}")]
    Connect {
        endpoint: Endpoint,
        #[source]
        source: io::Error,
    },
    #[error("connect to {endpoint}: the name has no address")]
    NoAddress { endpoint: Endpoint },
    /// The server refused, with its code and message.
    #[error("the server answered {code}: {message}")]
    Server { code: String, message: String },
    #[error("the connection was lost while {during}")]
    Lost {
        during: &'static str,
        #[source]
        source: io::Error,
    },
    /// Bytes that the protocol does not allow at this point.
    #[error("the server's reply is not understood: {0}")]
    Protocol(String),
    #[error("the server asks for the authentication method '{0}', which this client does not have")]
    Authentication(String),
    #[error("TLS with {endpoint}: {reason}")]
    Tls { endpoint: Endpoint, reason: String },
    #[error(
        "{endpoint} sent {bytes} unencrypted bytes before TLS began; the connection was closed, because anybody on the network may have sent them"
    )]
    BeforeTls { endpoint: Endpoint, bytes: usize },
    #[error("TLS is required, and {endpoint} does not offer it")]
    NoTls { endpoint: Endpoint },
    #[error("'{dsn}' is not a connection string: {reason}")]
    Dsn { dsn: String, reason: String },
    #[error("{operation}")]
    System {
        operation: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(
        "{workload} needs an empty table {table} for itself, but the database has one already, with the columns {columns}; it was not changed"
    )]
    OtherTable { table: String, workload: &'static str, columns: String },
    /// Known before the first connection is made.
    #[error(
        "{connections} connections need {needed} open files, and this process may have {limit}: the hard limit of RLIMIT_NOFILE"
    )]
    Descriptors { connections: u32, needed: u64, limit: u64 },
    /// Known before the load begins.
    #[error("the load wants {wanted} connections, but the server allows {limit} ({setting}), and {in_use} are in use")]
    Full { wanted: u32, limit: u64, in_use: u64, setting: &'static str },
    /// Known before the load begins.
    #[error(
        "{connections} connections prepare {statements} statements together, more than the server keeps: max_prepared_stmt_count \
         is {limit}, in use: {in_use}"
    )]
    Statements { connections: u32, statements: u64, limit: u64, in_use: u64 },
    #[error("{0}")]
    Invalid(String),
    /// Every connection broke, and none could be made again. The result until then is kept.
    #[error("the server went away {after_ms} ms into the {phase}, and no connection could be made for {waited_ms} ms")]
    ServerLost {
        phase: &'static str,
        after_ms: u64,
        waited_ms: u64,
        partial: Box<evidence::LoadResult>,
        /// Why the last attempt failed.
        #[source]
        last: Option<Box<Error>>,
    },
}

impl Error {
    /// The server's error code, if the server refused: `1213`, `40P01`.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Server { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether the server has no database of the target's name: MySQL's `ER_BAD_DB_ERROR`, PostgreSQL's `invalid_catalog_name`.
    pub fn is_unknown_database(&self) -> bool {
        matches!(self.code(), Some("1049" | "3D000"))
    }

    /// Why a later login may succeed, though the server refused this one.
    pub fn busy(&self) -> Option<Busy> {
        self.code().and_then(Busy::of_code)
    }
}

/// Refusals of a login that end by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    Starting,
    /// Nobody, or in PostgreSQL nobody with this role or database, gets a connection now.
    ServerFull,
    AccountFull,
}

impl Busy {
    /// MariaDB and MySQL: `ER_CON_COUNT_ERROR`, `ER_TOO_MANY_USER_CONNECTIONS`, `ER_USER_LIMIT_REACHED`. PostgreSQL: `cannot_connect_now`,
    /// `too_many_connections`, which it also says where a role or a database has all that it may have.
    pub fn of_code(code: &str) -> Option<Self> {
        match code {
            "57P03" => Some(Self::Starting),
            "1040" | "53300" => Some(Self::ServerFull),
            "1203" | "1226" => Some(Self::AccountFull),
            _ => None,
        }
    }
}
