// SPDX-License-Identifier: Apache-2.0
//! One fill at a time in a database: of two with `--replace`, each would drop what the other writes.

use super::Error;
use crate::admin::Connection;
use crate::{Protocol, Target};
use std::time::{Duration, Instant};

/// A fill that was killed lets go when the server sees that its connection is gone.
const LET_GO: Duration = Duration::from_secs(3);

/// Held as long as this lives: a lock of the server's with a name of ours, which keeps nobody else from anything.
pub(crate) struct Guard {
    _held_by: Option<Connection>,
}

impl Guard {
    /// A server that gives no such lock, or no further connection, is filled without.
    ///
    /// # Errors
    /// [`Error::Busy`]: another fill has it.
    pub(crate) fn take(target: &Target) -> Result<Self, Error> {
        let Ok(mut connection) = Connection::open(target) else { return Ok(Self { _held_by: None }) };
        let sql = match target.protocol {
            Protocol::Mysql => "SELECT GET_LOCK(CONCAT('wringer fill ', CRC32(DATABASE())), 0)",
            Protocol::Postgresql => {
                // of a transaction, not of a session: behind pgBouncer a session may be several clients'. It has no snapshot that would keep
                // VACUUM from its work.
                for sql in ["BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 0"] {
                    if connection.execute(sql).is_err() {
                        return Ok(Self { _held_by: None });
                    }
                }
                // keys are of one database
                "SELECT pg_try_advisory_xact_lock(7777616719)::int"
            }
        };
        let until = Instant::now() + LET_GO;
        loop {
            match connection.query(sql).ok().and_then(|rows| rows.parse::<u8>(0, 0)) {
                Some(0) if Instant::now() < until => std::thread::sleep(Duration::from_millis(100)),
                Some(0) => return Err(Error::Busy),
                Some(_) => return Ok(Self { _held_by: Some(connection) }),
                None => return Ok(Self { _held_by: None }),
            }
        }
    }
}
