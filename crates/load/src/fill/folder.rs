// SPDX-License-Identifier: Apache-2.0
//! The folder of the server's files: to check the free space of its disk before rows are written.

use crate::admin::Connection;
use crate::{Protocol, Target};
use std::path::PathBuf;

/// The path as the server reports it. For a server on another machine it is not a path of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    pub path: PathBuf,
    /// A file whose first line is the server's process id.
    pub pid_file: PathBuf,
}

impl DataFolder {
    /// `None`: the account has no right to see it, or the server does not answer.
    pub fn read(target: &Target) -> Option<Self> {
        let mut connection = Connection::open(target).ok()?;
        match target.protocol {
            Protocol::Mysql => {
                let rows = connection.query("SELECT @@datadir, @@pid_file").ok()?;
                let path = PathBuf::from(rows.text(0, 0)?);
                let pid_file = path.join(rows.text(0, 1)?); // relative to the folder, or absolute
                Some(Self { path, pid_file })
            }
            Protocol::Postgresql => {
                // An account without the right to see it gets no row.
                let rows = connection.query("SELECT setting FROM pg_settings WHERE name = 'data_directory'").ok()?;
                let path = PathBuf::from(rows.text(0, 0)?);
                Some(Self { pid_file: path.join("postmaster.pid"), path })
            }
        }
    }
}
