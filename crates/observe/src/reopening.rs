// SPDX-License-Identifier: Apache-2.0
use crate::server::Query;
use host::process::{Identity, children_of};
use load::admin::Connection;
use load::{Protocol, Target};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer than any of our statements takes on a healthy server. When we are asked to stop, and the server does not answer any more, the stop takes
/// this long.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A session of PostgreSQL that is told to end does so within a few milliseconds.
const SESSION_ENDS: Duration = Duration::from_millis(500);

/// Asks a server for a long time over one connection: after a lost connection, the next question opens a new one.
pub struct Reopening {
    target: Target,
    /// The longest wait for an answer. `None`: there is no limit.
    patience: Option<Duration>,
    connection: Option<Connection>,
    /// Where the number of each connection is put down. `None`: nobody needs it.
    own: Option<OwnConnections>,
    /// Whether the number of the kept connection was asked for.
    is_named: bool,
}

/// The numbers that a server gave to connections of this program's own: a watch for stalls takes them for no clients.
#[derive(Debug, Clone, Default)]
pub struct OwnConnections(Arc<Mutex<Vec<u64>>>);

impl OwnConnections {
    /// Asks the server for the number of this connection.
    ///
    /// # Errors
    /// The connection is lost. A server that refuses the question is no error.
    pub fn name(&self, connection: &mut Connection) -> Result<(), load::Error> {
        match connection.query(own_number(connection.protocol())) {
            Ok(rows) => rows.parse(0, 0).into_iter().for_each(|number| self.add(number)),
            Err(load::Error::Server { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn add(&self, number: u64) {
        self.numbers().push(number);
    }

    /// The numbers after the first `known` ones.
    pub(crate) fn after(&self, known: usize) -> Vec<u64> {
        self.numbers().get(known..).unwrap_or_default().to_vec()
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statement that asks a server for its number of the connection.
pub(crate) fn own_number(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Mysql => "SELECT CONNECTION_ID()",
        Protocol::Postgresql => "SELECT pg_backend_pid()",
    }
}

impl Reopening {
    /// The first question opens the connection. No answer is waited for longer than [`PATIENCE`].
    pub fn new(target: Target) -> Self {
        Self { target, patience: Some(PATIENCE), connection: None, own: None, is_named: false }
    }

    /// As [`Self::new`], over a connection that is open already ([`Connection::open_within`] with [`PATIENCE`]). To close it and open another would need two of
    /// the server's connections for a moment: a server ends one after its client has gone, and a full one refuses the second.
    pub fn over(connection: Connection, target: Target) -> Self {
        Self { connection: Some(connection), ..Self::new(target) }
    }

    /// As [`Self::new`]; each answer is waited for as long as it takes.
    pub fn waiting(target: Target) -> Self {
        Self { patience: None, ..Self::new(target) }
    }

    /// Each connection is asked for its number before the first question, and the number is put down there.
    pub fn named_in(self, own: &OwnConnections) -> Self {
        Self { own: Some(own.clone()), is_named: false, ..self }
    }

    /// Whether the next question goes over a connection that an earlier one has opened.
    pub fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// PostgreSQL: closes the kept connection, and waits until the process that served it has ended. A reading of the processes then lacks this session, and the
    /// next question opens another one.
    pub(crate) fn end_session(&mut self, server: u32) {
        let Some(backend) = self.connection.as_ref().and_then(Connection::backend) else { return };
        // in a container the server has another number for it, and behind a pooler there is none
        let serving = Identity::of(backend).filter(|it| children_of(server).contains(&it.pid));
        self.close();
        let deadline = Instant::now() + SESSION_ENDS;
        while serving.is_some_and(|it| it.is_alive()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
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
        let mut connection = self.named()?;
        let answer = question(&mut connection);
        if !answer.as_ref().is_err_and(is_lost) {
            self.connection = Some(connection);
        }
        answer
    }

    fn named(&mut self) -> Result<Connection, load::Error> {
        let kept = self.connection.take();
        let was_named = self.is_named && kept.is_some();
        let mut connection = kept.map_or_else(|| self.opened(), Ok)?;
        if let Some(own) = self.own.as_ref().filter(|_| !was_named) {
            own.name(&mut connection)?;
        }
        self.is_named = true;
        Ok(connection)
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
    use load::{Endpoint, Password, Tls};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::channel;

    const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x16server_version\x0015\0Z\0\0\0\x05I";
    const NO_ROWS: &[u8] = b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I";

    /// As PostgreSQL does: answers the login and two questions, and closes the connection.
    fn serve_two_questions(mut client: UnixStream) {
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
                serve_two_questions(client);
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

    /// Answers as PostgreSQL does: each question with this number of four digits. It ends, with the statements, when the client does.
    fn serve(mut stream: UnixStream, number: &str) -> Vec<String> {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut read = |length: usize| {
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).ok().map(|()| bytes)
        };
        let length = |bytes: Vec<u8>| u32::from_be_bytes(bytes.try_into().expect("four")) as usize - 4;
        let startup = read(4).map(length).expect("a login");
        read(startup);
        let message = |kind: u8, body: &[u8]| {
            let length = u32::try_from(body.len() + 4).expect("small").to_be_bytes();
            [&[kind], length.as_slice(), body].concat()
        };
        let value = [b"\0\x01\0\0\0\x04", number.as_bytes()].concat();
        let ready = message(b'Z', b"I");
        let answer =
            [message(b'T', &[0, 0]), message(b'D', &value), message(b'C', b"SELECT 1\0"), ready.clone()].concat();
        writer.write_all(&[message(b'R', &[0; 4]), ready].concat()).expect("a client");
        let mut asked = Vec::new();
        while let Some(b"Q") = read(1).as_deref() {
            let body = read(4).map(length).and_then(&mut read).expect("a statement");
            asked.push(String::from_utf8_lossy(&body).trim_end_matches('\0').to_owned());
            writer.write_all(&answer).expect("a client");
        }
        asked
    }

    #[test]
    fn each_connection_is_asked_for_its_number_once_before_the_first_question() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let served = std::thread::spawn(move || {
            ["4711", "4712"].map(|number| serve(listener.accept().expect("a client").0, number))
        });
        let target: Target = format!("postgresql://me@/x?socket={}", socket.display()).parse().expect("a target");
        let own = OwnConnections::default();
        let mut connection = Reopening::new(target).named_in(&own);
        for question in ["SELECT 1", "SELECT 2"] {
            assert!(connection.rows(question).is_ok());
        }
        assert_eq!(own.after(0), [4711]);
        connection.close();
        assert!(connection.rows("SELECT 3").is_ok());
        assert_eq!((own.after(1), own.after(2), own.after(9)), (vec![4712], vec![], vec![]));
        drop(connection);
        let number = "SELECT pg_backend_pid()";
        let asked = served.join().expect("the server");
        assert_eq!(asked, [vec![number, "SELECT 1", "SELECT 2"], vec![number, "SELECT 3"]]);
    }
}
