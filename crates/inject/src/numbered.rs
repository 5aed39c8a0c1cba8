// SPDX-License-Identifier: Apache-2.0
//! A connection to the server, and the number that the server has for it: a watch of the server names it by this number.

use crate::Error;
use load::admin::Connection;
use load::{Protocol, Target};

pub(crate) struct Numbered {
    pub(crate) connection: Connection,
    /// `None`: the server's answer was no number.
    pub(crate) number: Option<u64>,
}

impl Numbered {
    /// # Errors
    /// The server's errors.
    pub(crate) fn open(target: &Target) -> Result<Self, Error> {
        let mut connection = Connection::open(target)?;
        let number = connection.query(match target.protocol {
            Protocol::Mysql => "SELECT CONNECTION_ID()",
            Protocol::Postgresql => "SELECT pg_backend_pid()",
        })?;
        Ok(Self { connection, number: number.parse(0, 0) })
    }
}
