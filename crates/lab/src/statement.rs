// SPDX-License-Identifier: Apache-2.0
//! Sends a statement of the user's that may take any time, or wait for ever, and keeps looking whether the walk must end.

use crate::error::Error;
use crate::lab::Lab;
use load::admin::Connection;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time between two checks whether the walk must end.
const LOOK: Duration = Duration::from_millis(50);

impl Lab<'_> {
    /// Returns the connection, when the statement has ended. Where the walk must end first, the statement is left alone: it ends with its server.
    ///
    /// # Errors
    /// The server refuses the statement, or ends; the user or the watchdog asks for the end; a process that holds a squeeze has died.
    pub(crate) fn execute(&self, mut connection: Connection, sql: &str) -> Result<Connection, Error> {
        let (tell, told) = channel();
        let sql = sql.to_owned();
        std::thread::spawn(move || drop(tell.send(connection.execute(&sql).map(|_| connection))));
        loop {
            match told.recv_timeout(LOOK) {
                Ok(ended) => return Ok(ended?),
                Err(RecvTimeoutError::Timeout) => self.check_stop().and_then(|()| self.squeezes.check())?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::NoServer),
            }
        }
    }
}
