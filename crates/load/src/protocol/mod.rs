// SPDX-License-Identifier: Apache-2.0
//! The client side of the MySQL and PostgreSQL protocols, as state machines: bytes in, bytes out, no I/O, no clock.
//!
//! The caller tells a [`Session`] what to send ([`Session::query`], [`Session::execute`], ...), and it appends the bytes to the
//! caller's buffer. The server's bytes go into [`Session::feed`], in chunks of any size. It consumes whole messages, leaves the
//! rest to be offered again with more bytes after it, and returns an [`Event`] when something is complete. One statement is in
//! flight at a time. Rows are counted and handed to a [`Rows`] as raw bytes, without allocation.
//!
//! Authentication, password scrambles and message layouts come from `mysql_common` and `postgres-protocol`.

pub mod mysql;
pub mod postgresql;
mod template;

pub use template::Template;
pub use workload::Code;

use crate::target::{Protocol, Target, Tls};
use workload::Param;

/// The end of one statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply {
    pub rows: u64,
    /// Changed rows, by the server's count.
    pub affected: u64,
    /// Bytes of the rows as sent, without message headers.
    pub row_bytes: u64,
    /// The server's error. Its message is in [`Session::message`].
    pub error: Option<Code>,
    /// A transaction is open on this connection; for PostgreSQL also a failed transaction.
    pub in_transaction: bool,
    /// The server closes the connection after this error.
    pub hangs_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Start TLS on this connection, then call [`Session::secured`].
    StartTls,
    LoggedIn,
    /// The statement is prepared. Its index is the number of statements prepared before it.
    Prepared,
    /// The server wants the data of a bulk load: [`Session::copy_data`], [`Session::copy_end`].
    CopyIn,
    Done(Reply),
}

/// The result of one call of [`Session::feed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Consumed bytes; the rest must be offered again.
    pub consumed: usize,
    /// `None`: more bytes are needed.
    pub event: Option<Event>,
}

/// Why the connection cannot be used any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Malformed(String),
    /// The server refused the login.
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
    #[error("authentication method '{0}' is not known here")]
    Method(String),
    #[error("the server offers no TLS")]
    NoTls,
}

/// Receives rows as they arrive.
pub trait Rows {
    /// A result begins, with its columns.
    fn begin(&mut self) {}
    fn column(&mut self, _name: &[u8]) {}
    /// A row as sent; [`mysql::text_values`] and [`postgresql::values`] parse it.
    fn row(&mut self, _raw: &[u8]) {}
}

/// Ignores all rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl Rows for Discard {}

/// How the bytes travel: it decides what may be sent in clear text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Socket,
    Tcp,
}

/// The account, and how the connection travels.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: crate::target::Password,
    pub database: Option<String>,
    pub tls: Tls,
    pub channel: Channel,
}

impl Login {
    pub fn new(target: &Target) -> Self {
        let channel = match target.endpoint {
            crate::target::Endpoint::Socket(_) => Channel::Socket,
            crate::target::Endpoint::Tcp(..) => Channel::Tcp,
        };
        Self {
            user: target.user.clone(),
            password: target.password.clone(),
            database: target.database.clone(),
            tls: if channel == Channel::Socket { Tls::Disable } else { target.tls },
            channel,
        }
    }
}

/// The protocol state of one connection.
pub enum Session {
    Mysql(mysql::Session),
    Postgresql(postgresql::Session),
}

/// Calls the same function of either protocol.
macro_rules! either {
    ($session:expr, $s:ident => $call:expr) => {
        match $session {
            Session::Mysql($s) => $call,
            Session::Postgresql($s) => $call,
        }
    };
}

impl Session {
    /// Appends the client's first bytes to `out`, if the client speaks first.
    pub fn new(protocol: Protocol, login: Login, out: &mut Vec<u8>) -> Self {
        match protocol {
            Protocol::Mysql => Self::Mysql(mysql::Session::new(login)),
            Protocol::Postgresql => Self::Postgresql(postgresql::Session::new(login, out)),
        }
    }

    /// Continues the login after TLS is established.
    ///
    /// # Errors
    /// The login cannot be encoded (a name with a zero byte in it).
    pub fn secured(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        either!(self, s => s.secured(out))
    }

    /// Takes bytes from the server, up to the next [`Event`]. Answers that must be sent (while logging in) are appended to `out`.
    ///
    /// # Errors
    /// The connection is of no further use.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], rows: &mut impl Rows, out: &mut Vec<u8>) -> Result<Fed, Broken> {
        either!(self, s => s.feed(bytes, rows, out))
    }

    /// Sends `sql` as text; `write` appends it.
    #[inline]
    pub fn query(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        either!(self, s => s.query(out, write));
    }

    /// Asks the server to prepare `sql`.
    pub fn prepare(&mut self, sql: &str, out: &mut Vec<u8>) {
        either!(self, s => s.prepare(sql, out));
    }

    /// Runs prepared statement `index`.
    #[inline]
    pub fn execute(&mut self, index: usize, params: &[Param], texts: &[u8], out: &mut Vec<u8>) {
        either!(self, s => s.execute(index, params, texts, out));
    }

    /// One piece of a bulk load's data, after [`Event::CopyIn`].
    pub fn copy_data(&mut self, data: &[u8], out: &mut Vec<u8>) {
        either!(self, s => s.copy_data(data, out));
    }

    /// The end of a bulk load's data; [`Event::Done`] follows.
    pub fn copy_end(&mut self, out: &mut Vec<u8>) {
        either!(self, s => s.copy_end(out));
    }

    /// Says goodbye, so that the server does not count an aborted client.
    pub fn quit(&mut self, out: &mut Vec<u8>) {
        either!(self, s => s.quit(out));
    }

    pub fn message(&self) -> &str {
        either!(self, s => s.message())
    }

    /// The server's version, as sent at login.
    pub fn server_version(&self) -> &str {
        either!(self, s => s.server_version())
    }

    /// The server's number of the process that serves this connection alone, as sent at login. A pooler sends a number of its own.
    pub fn backend(&self) -> Option<u32> {
        match self {
            Self::Mysql(_) => None,
            Self::Postgresql(session) => session.backend(),
        }
    }

    /// The values of a row of [`Session::query`], `None` for NULL.
    pub fn values<'a>(&self, raw: &'a [u8]) -> Vec<Option<&'a [u8]>> {
        match self {
            Self::Mysql(_) => mysql::text_values(raw),
            Self::Postgresql(_) => postgresql::values(raw),
        }
    }
}

#[cfg(test)]
mod tests;
