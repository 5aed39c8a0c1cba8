// SPDX-License-Identifier: Apache-2.0
use crate::server::Query;
use load::Target;
use load::admin::Connection;
use std::error::Error;
use std::time::Duration;

/// Longer than any of our statements takes on a healthy server. When we are asked to stop, and the server does not answer any more, the stop takes
/// this long.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a server for a long time over one connection: after a lost connection, the next question opens a new one.
pub struct Reopening {
    target: Target,
    /// The longest wait for an answer. `None`: there is no limit.
    patience: Option<Duration>,
    connection: Option<Connection>,
}

impl Reopening {
    /// The first question opens the connection. No answer is waited for longer than [`PATIENCE`].
    pub fn new(target: Target) -> Self {
        Self { target, patience: Some(PATIENCE), connection: None }
    }

    /// As [`Self::new`], over a connection that is open already ([`Connection::open_within`] with [`PATIENCE`]). To close it and open another would need two of
    /// the server's connections for a moment: a server ends one after its client has gone, and a full one refuses the second.
    pub fn over(connection: Connection, target: Target) -> Self {
        Self { connection: Some(connection), ..Self::new(target) }
    }

    /// As [`Self::new`]; each answer is waited for as long as it takes.
    pub fn waiting(target: Target) -> Self {
        Self { target, patience: None, connection: None }
    }

    /// Whether the next question goes over a connection that an earlier one has opened.
    pub fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    pub fn close(&mut self) {
        self.connection = None;
    }

    /// Asks over the kept connection, or over a new one. The connection is kept unless `is_lost` says of an error that the connection is of no use any
    /// more.
    ///
    /// # Errors
    /// Those of the question; the connection cannot be opened.
    pub fn ask<T, E: From<load::Error>>(
        &mut self,
        question: impl FnOnce(&mut Connection) -> Result<T, E>,
        is_lost: impl FnOnce(&E) -> bool,
    ) -> Result<T, E> {
        let mut connection = self.connection.take().map_or_else(|| self.opened(), Ok)?;
        let answer = question(&mut connection);
        if !answer.as_ref().is_err_and(is_lost) {
            self.connection = Some(connection);
        }
        answer
    }

    fn opened(&self) -> Result<Connection, load::Error> {
        match self.patience {
            Some(patience) => Connection::open_within(&self.target, patience),
            None => Connection::open(&self.target),
        }
    }
}

type Failure = Box<dyn Error + Send + Sync>;

impl Query for Reopening {
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        // a server that refuses has answered; without an answer, a late one could be taken for that of the next question
        let is_lost = |error: &Failure| !matches!(error.downcast_ref(), Some(load::Error::Server { .. }));
        self.ask(|connection| connection.rows(sql), is_lost)
    }
}
