// SPDX-License-Identifier: Apache-2.0
//! `postmaster.pid` of a PostgreSQL server that ended without removing it: by a power cut, or killed. It holds the number of the server's process, and
//! PostgreSQL does not start while a process of its own user has that number, whatever program it is (`CreateLockFile` in
//! src/backend/utils/init/miscinit.c, 12 to 18). After a reboot the numbers begin anew, so another server may have it.

use crate::origin::postmaster;
use crate::{Error, Flavour, Sandbox};
use host::files::remove_beginning;
use std::path::Path;

impl Sandbox {
    /// Removes such a file. To be called when no process of the server is there. With a number that no process has, PostgreSQL removes it itself.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn remove_stale_lock_file(&self) -> Result<(), Error> {
        if self.flavour() != Flavour::Postgresql {
            return Ok(());
        }
        let taken = postmaster(&self.data()).filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
        // processes of another namespace, which cannot be seen, would have the shared memory
        if taken.is_none() || self.attached()? > 0 {
            return Ok(());
        }
        remove_beginning(&self.data(), "postmaster.pid")?;
        Ok(())
    }
}
