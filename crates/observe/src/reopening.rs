// SPDX-License-Identifier: Apache-2.0
use crate::server::Query;
use load::Target;
use load::admin::Connection;
use std::time::Duration;

/// Longer than any of our statements takes on a healthy server. When we are asked to stop, and the server does not answer any more, the stop takes
/// this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a server for a long time: after a lost connection, or a question without an answer, the next question opens a new connection.
pub struct Reopening {
    target: Target,
    connection: Option<Connection>,
}

impl Reopening {
    /// The first question opens the connection.
    pub fn new(target: Target) -> Self {
        Self { target, connection: None }
    }

    fn open(&self) -> Result<Connection, load::Error> {
        let mut connection = Connection::open(&self.target)?;
        connection.set_read_limit(Some(PATIENCE))?;
        Ok(connection)
    }
}

impl Query for Reopening {
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let answer = connection.rows(sql);
        // a server that refuses has answered: the connection is kept
        let goes_on = match &answer {
            Ok(_) => true,
            Err(error) => matches!(error.downcast_ref(), Some(load::Error::Server { .. })),
        };
        self.connection = goes_on.then_some(connection);
        answer
    }
}
