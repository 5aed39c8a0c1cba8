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
    fn renew(&mut self) {
        self.connection.take_if(|connection| connection.is_closed());
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        // a server that refuses has answered; without an answer, a late one could be taken for that of the next question
        let is_lost = |error: &Failure| !matches!(error.downcast_ref(), Some(load::Error::Server { .. }));
        self.ask(|connection| connection.rows(sql), is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::witness_counters;
    use capability::Flavour;
    use load::{Endpoint, Password, Protocol, Tls};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::channel;

    const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x16server_version\x0015\0Z\0\0\0\x05I";
    const NO_ROWS: &[u8] = b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I";

    /// As PostgreSQL does: answers the login and two questions, and closes the connection.
    fn serve(mut client: UnixStream) {
        for answer in [LOGGED_IN, NO_ROWS, NO_ROWS] {
            assert_ne!(client.read(&mut [0; 1024]).expect("is asked"), 0);
            client.write_all(answer).expect("answers");
        }
    }

    #[test]
    fn where_the_server_has_closed_an_idle_connection_the_next_reading_has_its_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("binds");
        let (closed, is_closed) = channel();
        let server = std::thread::spawn(move || {
            for client in listener.incoming().take(2).flatten() {
                serve(client);
                closed.send(()).expect("is waited for");
            }
        });
        let target = Target {
            protocol: Protocol::Postgresql,
            endpoint: Endpoint::Socket(socket),
            user: "me".into(),
            password: Password::default(),
            database: None,
            tls: Tls::Disable,
            tls_ca: None,
        };
        let connection = Connection::open_within(&target, PATIENCE).expect("connects");
        let mut connection = Reopening::over(connection, target);
        let mut read = || witness_counters(&mut connection, Flavour::Postgresql).map(|counters| counters.len());
        for _ in 0..2 {
            assert!(matches!((read(), read()), (Ok(0), Ok(0))), "two readings over one connection");
            is_closed.recv().expect("closes it");
        }
        assert!(read().is_err(), "nobody listens any more");
        server.join().expect("ends");
    }
}
