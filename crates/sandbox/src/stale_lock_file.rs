// SPDX-License-Identifier: Apache-2.0
//! Lock files of a server that ended without removing them: by a power cut, or killed. They hold the number of the server's process, and the server does
//! not start while another process has that number, whatever program it is. After a reboot the numbers begin anew, so another server may have it.
//!
//! PostgreSQL has `postmaster.pid` in the data directory and `.s.PGSQL.PORT.lock` beside the socket (`CreateLockFile` in
//! src/backend/utils/init/miscinit.c, 12 to 18); MySQL 5.7 and later has a file beside the socket (`Unix_socket::create_lock_file` in
//! sql/conn_handler/socket_connection.cc). MariaDB has none.

use crate::origin::named_by;
use crate::{Error, Flavour, Sandbox};
use host::files::remove_beginning;
use std::path::{Path, PathBuf};

impl Sandbox {
    /// Removes such files. To be called when no process of the server is there. With a number that no process has, the server removes them itself.
    ///
    /// # Errors
    /// One cannot be removed.
    pub(crate) fn remove_stale_lock_files(&self) -> Result<(), Error> {
        let is_taken = |file: &PathBuf| named_by(file).is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists());
        let taken: Vec<PathBuf> = self.lock_files().into_iter().filter(is_taken).collect();
        // processes of another namespace, which cannot be seen, would have PostgreSQL's shared memory
        if taken.is_empty() || (self.flavour() == Flavour::Postgresql && self.attached()? > 0) {
            return Ok(());
        }
        for file in taken {
            if let Some((folder, name)) = file.parent().zip(file.file_name()) {
                remove_beginning(folder, &name.to_string_lossy())?;
            }
        }
        Ok(())
    }

    fn lock_files(&self) -> Vec<PathBuf> {
        let beside_socket = PathBuf::from(format!("{}.lock", self.socket().display()));
        match self.flavour() {
            Flavour::Mariadb => Vec::new(),
            Flavour::Mysql | Flavour::Percona => vec![beside_socket],
            Flavour::Postgresql => vec![self.data().join("postmaster.pid"), beside_socket],
        }
    }
}
