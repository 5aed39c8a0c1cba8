// SPDX-License-Identifier: Apache-2.0
use crate::server::Query;
use load::Target;
use load::admin::Connection;
use std::time::Duration;

/// More than a statement of ours takes at a server that is well. Who asks us to stop waits as long for a server that has fallen silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a server for a long time: a connection that was lost, or had no answer, is opened anew with the next question.
pub struct Reopening {
    target: Target,
    connection: Option<Connection>,
}

impl Reopening {
    /// Connects with the first question.
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
        // a server that refuses has answered: the conversation goes on
        let goes_on = match &answer {
            Ok(_) => true,
            Err(error) => matches!(error.downcast_ref(), Some(load::Error::Server { .. })),
        };
        self.connection = goes_on.then_some(connection);
        answer
    }
}
