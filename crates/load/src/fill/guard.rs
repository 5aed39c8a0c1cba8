// SPDX-License-Identifier: Apache-2.0
//! Allows one fill at a time in a database: of two fills with `--replace`, each would drop the other's tables.

use super::Error;
use crate::admin::Connection;
use crate::{Protocol, Target};
use std::time::{Duration, Instant};

/// For how long to try: a killed fill's lock ends when the server notices that its connection is gone.
const LET_GO: Duration = Duration::from_secs(3);

/// The lock, held as long as this value lives. It is a named lock of the server, which only other fills ask for.
pub(crate) struct Guard {
    _held_by: Option<Connection>,
}

impl Guard {
    /// Takes the lock. A server without such locks, or without a free connection, is filled without one.
    ///
    /// # Errors
    /// [`Error::Busy`]: another fill holds the lock.
    pub(crate) fn take(target: &Target) -> Result<Self, Error> {
        let Ok(mut connection) = Connection::open(target) else { return Ok(Self { _held_by: None }) };
        let sql = match target.protocol {
            Protocol::Mysql => "SELECT GET_LOCK(CONCAT('wringer fill ', CRC32(DATABASE())), 0)",
            Protocol::Postgresql => {
                // A lock of a transaction, not of a session: behind pgBouncer several clients may share a session. The transaction
                // has no snapshot that would keep VACUUM from its work.
                for sql in ["BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 0"] {
                    if connection.execute(sql).is_err() {
                        return Ok(Self { _held_by: None });
                    }
                }
                // Such keys belong to one database.
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
