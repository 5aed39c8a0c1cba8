// SPDX-License-Identifier: Apache-2.0
//! Where the pooler of a sandbox is reached, and where it logs.

use crate::account::DATABASE;
use crate::{Error, Sandbox};
use load::{Endpoint, Target};
use std::path::PathBuf;

impl Sandbox {
    /// pgBouncer's socket, beside the server's.
    pub fn pooler_socket(&self) -> Option<PathBuf> {
        let pooler = self.manifest.pooler.as_ref()?;
        Some(self.manifest.socket_folder.join(format!(".s.PGSQL.{}", pooler.port)))
    }

    pub fn pooler_log(&self) -> PathBuf {
        self.folder.join("log/pgbouncer.log")
    }

    /// The target for a connection through pgBouncer, over its socket.
    ///
    /// # Errors
    /// The secret cannot be read.
    pub fn pooled_connection(&self) -> Result<Option<Target>, Error> {
        let Some(socket) = self.pooler_socket() else { return Ok(None) };
        let direct = self.connection()?;
        Ok(Some(Target { endpoint: Endpoint::Socket(socket), database: Some(DATABASE.into()), ..direct }))
    }
}
