// SPDX-License-Identifier: Apache-2.0
//! A blocking connection for set-up work: statements as text, rows as bytes, bulk loads.
//!
//! Not for measurements: it allocates, and waits for each answer.

use crate::Error;
use crate::protocol::{self, Discard, Event, Reply};
use crate::target::{Protocol, Target};
use crate::transport::Link;
use std::io;
use std::time::Duration;

/// A bulk load's data is sent in pieces of about this size.
const COPY_PIECE_BYTES: usize = 256 * 1024;

/// The rows of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    pub columns: Vec<String>,
    /// `[row][column]`; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Rows {
    /// The value as text. `None` for NULL, or when there is no such row or column.
    pub fn text(&self, row: usize, column: usize) -> Option<String> {
        let value = self.rows.get(row)?.get(column)?.as_ref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// The value parsed as `T`. `None` also when it cannot be parsed.
    pub fn parse<T: std::str::FromStr>(&self, row: usize, column: usize) -> Option<T> {
        self.text(row, column)?.trim().parse().ok()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

pub struct Connection {
    link: Link,
    protocol: Protocol,
    hung_up: bool,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`Error::Connect`] when nobody listens there; [`Error::Server`] when the server refuses (a wrong password is 1045 or
    /// `28P01`); [`Error::Authentication`] for a method that this client lacks.
    pub fn open(target: &Target) -> Result<Self, Error> {
        Ok(Self { link: Link::open(target)?, protocol: target.protocol, hung_up: false })
    }

    /// The same for a caller who needs the server, and not the target's database: where that is not there, the connection is in another one
    /// ([`Target::elsewhere`]).
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_anywhere(target: &Target) -> Result<Self, Error> {
        match Self::open(target) {
            Err(error) if error.is_unknown_database() => Self::open(&target.elsewhere()),
            opened => opened,
        }
    }

    /// The same for a server that may have stopped answering: no answer is waited for longer than this, neither at login nor later.
    ///
    /// # Errors
    /// As for [`Self::open`]; [`Error::Connect`] and [`Error::Lost`] also after `limit`.
    pub fn open_within(target: &Target, limit: Duration) -> Result<Self, Error> {
        Self::open_telling(target, limit, &mut |_| {})
    }

    /// The same; `connected` is told [`Self::peer_process`] before the login: a server that never answers, or dies meanwhile, is known by it.
    ///
    /// # Errors
    /// As for [`Self::open_within`].
    pub fn open_telling(
        target: &Target,
        limit: Duration,
        connected: &mut dyn FnMut(Option<u32>),
    ) -> Result<Self, Error> {
        let link = Link::open_telling(target, limit, connected)?;
        let mut connection = Self { link, protocol: target.protocol, hung_up: false };
        connection.set_read_limit(Some(limit))?;
        Ok(connection)
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The server's version, as sent at login: `10.11.19-MariaDB-0+deb12u1`, `15.18 (Debian 15.18-0+deb12u1)`.
    pub fn server_version(&self) -> &str {
        self.link.session.server_version()
    }

    /// PostgreSQL: the server's number of the process that serves this connection alone. `None`: the server has none.
    pub fn backend(&self) -> Option<u32> {
        self.link.session.backend()
    }

    /// The process at the other end of a Unix socket: the server, or a proxy in front of it.
    pub fn peer_process(&self) -> Option<u32> {
        self.link.transport.peer_process()
    }

    pub(crate) fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.link.transport)
    }

    /// Whether the server's last error was one after which it closes the connection.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Whether the server has closed the connection, for example because nothing was asked for too long.
    pub fn is_closed(&self) -> bool {
        self.link.transport.is_closed()
    }

    /// Limits the wait for an answer; a longer wait ends with [`Error::Lost`]. `None`, the default: no limit.
    ///
    /// # Errors
    /// The socket refuses.
    pub fn set_read_limit(&mut self, limit: Option<Duration>) -> Result<(), Error> {
        let failed = |source| Error::System { operation: "set a socket's read limit", source };
        self.link.transport.set_read_limit(limit).map_err(failed)
    }

    /// Drops these tables of the schema in which new tables are made, those that are there. Without the schema's name, PostgreSQL would drop tables of the
    /// same names in any schema of the search path.
    ///
    /// # Errors
    /// [`Error::Server`] with the server's code and message; [`Error::Lost`].
    pub fn drop_tables(&mut self, names: &[impl AsRef<str>]) -> Result<(), Error> {
        let schema = match self.protocol {
            Protocol::Mysql => Some(String::new()),
            Protocol::Postgresql => self.query("SELECT quote_ident(current_schema()) || '.'")?.text(0, 0),
        };
        let Some(schema) = schema.filter(|_| !names.is_empty()) else { return Ok(()) };
        let names: Vec<String> = names.iter().map(|name| format!("{schema}{}", name.as_ref())).collect();
        self.execute(&format!("DROP TABLE IF EXISTS {}", names.join(", "))).map(drop)
    }

    /// The rows of `sql`; for several statements the rows of all of them.
    ///
    /// # Errors
    /// [`Error::Server`] with the server's code and message; [`Error::Lost`].
    pub fn query(&mut self, sql: &str) -> Result<Rows, Error> {
        let mut all = Rows::default();
        for result in self.query_each(sql)? {
            all.columns = result.columns;
            all.rows.extend(result.rows);
        }
        Ok(all)
    }

    /// One answer for each statement that returns rows, also if it returns none this time.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn query_each(&mut self, sql: &str) -> Result<Vec<Rows>, Error> {
        let mut collector = Collector { results: Vec::new(), protocol: self.protocol };
        self.run(sql, &mut collector)?;
        Ok(collector.results)
    }

    /// Runs `sql`, ignores its rows, and returns the number of changed rows.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        self.run(sql, &mut Discard).map(|reply| reply.affected)
    }

    /// As [`Self::execute`], for text that need not be UTF-8, such as a dump.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn execute_bytes(&mut self, sql: &[u8]) -> Result<u64, Error> {
        let link = &mut self.link;
        link.session.query(&mut link.outbox, |out| out.extend_from_slice(sql));
        match link.exchange(&mut Discard, "running a statement")? {
            Event::Done(reply) => self.answer(reply).map(|reply| reply.affected),
            Event::CopyIn => Err(Error::Invalid("a bulk load needs data".into())),
            other => Err(unexpected(other)),
        }
    }

    /// Runs a bulk load: `LOAD DATA LOCAL INFILE 'any name' INTO TABLE t ...` or `COPY t FROM STDIN`. Both take the same text by
    /// default: columns end with a tab, rows with a newline, `\` escapes, `\N` is NULL. `more` appends the next rows to an empty
    /// buffer, and returns false when there are none after these. Returns the number of rows loaded.
    ///
    /// # Errors
    /// As [`Self::query`]; a MySQL server may forbid it (`local_infile`, error 3948 or 4166).
    pub fn copy_in(&mut self, sql: &str, more: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, Error> {
        let link = &mut self.link;
        link.session.query(&mut link.outbox, |out| out.extend_from_slice(sql.as_bytes()));
        match link.exchange(&mut Discard, "starting a bulk load")? {
            Event::CopyIn => {}
            Event::Done(reply) => {
                self.answer(reply)?;
                return Err(Error::Invalid(format!("not a bulk load: {sql}")));
            }
            other => return Err(unexpected(other)),
        }
        self.send_rows(more).map_err(|source| Error::Lost { during: "sending a bulk load's data", source })?;
        match self.link.exchange(&mut Discard, "loading data in bulk")? {
            Event::Done(reply) => self.answer(reply).map(|reply| reply.affected),
            other => Err(unexpected(other)),
        }
    }

    fn send_rows(&mut self, more: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> io::Result<()> {
        let link = &mut self.link;
        let mut piece = Vec::with_capacity(COPY_PIECE_BYTES);
        let mut going = true;
        while going {
            piece.clear();
            while going && piece.len() < COPY_PIECE_BYTES {
                going = more(&mut piece);
            }
            if !piece.is_empty() {
                link.session.copy_data(&piece, &mut link.outbox);
                link.flush()?;
            }
        }
        link.session.copy_end(&mut link.outbox);
        link.flush()
    }

    fn run(&mut self, sql: &str, rows: &mut impl protocol::Rows) -> Result<Reply, Error> {
        let link = &mut self.link;
        link.session.query(&mut link.outbox, |out| out.extend_from_slice(sql.as_bytes()));
        match link.exchange(rows, "running a statement")? {
            Event::Done(reply) => self.answer(reply),
            Event::CopyIn => Err(Error::Invalid(format!("a bulk load needs data: {sql}"))),
            other => Err(unexpected(other)),
        }
    }

    fn answer(&mut self, reply: Reply) -> Result<Reply, Error> {
        self.hung_up |= reply.hangs_up;
        match reply.error {
            None => Ok(reply),
            Some(code) => {
                Err(Error::Server { code: code.to_string(), message: self.link.session.message().to_owned() })
            }
        }
    }
}

fn unexpected(event: Event) -> Error {
    Error::Protocol(format!("{event:?} out of turn"))
}

struct Collector {
    results: Vec<Rows>,
    protocol: Protocol,
}

impl protocol::Rows for Collector {
    fn begin(&mut self) {
        self.results.push(Rows::default());
    }

    fn column(&mut self, name: &[u8]) {
        if let Some(rows) = self.results.last_mut() {
            rows.columns.push(String::from_utf8_lossy(name).into_owned());
        }
    }

    fn row(&mut self, raw: &[u8]) {
        let values = match self.protocol {
            Protocol::Mysql => protocol::mysql::text_values(raw),
            Protocol::Postgresql => protocol::postgresql::values(raw),
        };
        if let Some(rows) = self.results.last_mut() {
            rows.rows.push(values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect());
        }
    }
}
