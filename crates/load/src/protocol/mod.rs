// SPDX-License-Identifier: Apache-2.0
//! The client side of the MySQL and PostgreSQL protocols, as state machines: bytes in, bytes out, no I/O, no clock.
//!
//! A [`Session`] is told what to send ([`Session::query`], [`Session::execute`], ...) and appends the bytes to the caller's
//! buffer. What the server answers goes into [`Session::feed`], in chunks of any size: it consumes whole messages, leaves the
//! rest to be offered again with more bytes behind it, and yields an [`Event`] when something is complete. One statement is in
//! flight at a time. Rows are counted and handed to a [`Rows`] as raw bytes; nothing is allocated for them here.
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
    /// Rows changed, as the server counts them.
    pub affected: u64,
    /// Size of the rows as sent, without message headers.
    pub row_bytes: u64,
    /// The message that goes with it is in [`Session::message`].
    pub error: Option<Code>,
    /// A transaction is open on this connection; for PostgreSQL also a failed one.
    pub in_transaction: bool,
    /// The error is the server's last word: it closes the connection.
    pub hangs_up: bool,
}

/// Something that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Start TLS on this connection, then call [`Session::secured`].
    StartTls,
    LoggedIn,
    /// The statement has an index now: how many were prepared before it.
    Prepared,
    /// The server wants the data of a bulk load: [`Session::copy_data`], [`Session::copy_end`].
    CopyIn,
    Done(Reply),
}

/// What one call of [`Session::feed`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes used up; the rest is to be offered again.
    pub consumed: usize,
    /// `None`: more bytes are needed.
    pub event: Option<Event>,
}

/// Why the conversation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Malformed(String),
    /// The server refused to let us in.
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
    #[error("authentication method '{0}' is not known here")]
    Method(String),
    #[error("the server offers no TLS")]
    NoTls,
}

/// Takes rows as they come by.
pub trait Rows {
    /// A result begins; its columns follow.
    fn begin(&mut self) {}
    fn column(&mut self, _name: &[u8]) {}
    /// The row as sent; [`mysql::text_values`] and [`postgresql::values`] take it apart.
    fn row(&mut self, _raw: &[u8]) {}
}

/// Rows that nobody looks at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl Rows for Discard {}

/// How the bytes travel; it decides what may be sent in clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Socket,
    Tcp,
}

/// Who we are, and where the talk takes place.
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

/// One connection's conversation.
pub enum Session {
    Mysql(mysql::Session),
    Postgresql(postgresql::Session),
}

/// The same call on either protocol.
macro_rules! either {
    ($session:expr, $s:ident => $call:expr) => {
        match $session {
            Session::Mysql($s) => $call,
            Session::Postgresql($s) => $call,
        }
    };
}

impl Session {
    /// Appends to `out` what the client says first, if it is the client that speaks first.
    pub fn new(protocol: Protocol, login: Login, out: &mut Vec<u8>) -> Self {
        match protocol {
            Protocol::Mysql => Self::Mysql(mysql::Session::new(login)),
            Protocol::Postgresql => Self::Postgresql(postgresql::Session::new(login, out)),
        }
    }

    /// TLS is up: goes on with the login.
    ///
    /// # Errors
    /// The login cannot be written down (a name with a zero byte in it).
    pub fn secured(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        either!(self, s => s.secured(out))
    }

    /// Takes bytes from the server, up to the next [`Event`]. `out` gets what must be sent in answer (while logging in).
    ///
    /// # Errors
    /// The conversation is over; the connection is of no more use.
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

    /// What the server said with its last error.
    pub fn message(&self) -> &str {
        either!(self, s => s.message())
    }

    /// As the server names it at login.
    pub fn server_version(&self) -> &str {
        either!(self, s => s.server_version())
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
