// SPDX-License-Identifier: Apache-2.0
//! An open recording, and the queries that all readers share.

use crate::Error;
use crate::cell::Counter;
use crate::schema::{APPLICATION_ID, SCHEMA};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Row};
use serde::de::DeserializeOwned;
use std::path::Path;

pub(crate) struct Reader<'a> {
    path: &'a Path,
    connection: Connection,
}

impl<'a> Reader<'a> {
    pub(crate) fn open(path: &'a Path) -> Result<Self, Error> {
        let connection = open(path).map_err(Error::sqlite("open", path))?;
        let reader = Self { path, connection };
        reader.check()?;
        Ok(reader)
    }

    fn check(&self) -> Result<(), Error> {
        let application: rusqlite::Result<i64> =
            self.connection.pragma_query_value(None, "application_id", |row| row.get(0));
        match application {
            Ok(APPLICATION_ID) => {}
            Ok(0) if std::fs::metadata(self.path).is_ok_and(|file| file.len() == 0) => {
                return Err(self.not_a_recording("the file is empty"));
            }
            Ok(_) => return Err(self.not_a_recording("it is the database of another program")),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                return Err(self.not_a_recording("the file has other content"));
            }
            Err(error) => return Err(Error::sqlite("read", self.path)(error)),
        }
        let found = self.meta("schema")?.and_then(|text| text.parse::<i64>().ok());
        match found {
            None => Err(self.not_a_recording("it does not say by which version it was written")),
            Some(found) if found > SCHEMA => Err(Error::Newer { path: self.path.to_owned(), found, known: SCHEMA }),
            Some(_) => Ok(()),
        }
    }

    fn not_a_recording(&self, why: &'static str) -> Error {
        Error::NotARecording { path: self.path.to_owned(), why }
    }

    pub(crate) fn meta(&self, key: &str) -> Result<Option<String>, Error> {
        self.connection
            .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
            .optional()
            .map_err(Error::sqlite("read", self.path))
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let query = || self.connection.prepare(sql)?.query_map([], read)?.collect::<rusqlite::Result<Vec<T>>>();
        query().map_err(Error::sqlite("read", self.path))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, text: &str) -> Result<T, Error> {
        serde_json::from_str(text).map_err(Error::json("read", self.path))
    }

    pub(crate) fn optional_json<T: DeserializeOwned>(&self, text: Option<String>) -> Result<Option<T>, Error> {
        text.map(|text| self.json(&text)).transpose()
    }

    /// False in a recording that is older than the column.
    pub(crate) fn has_column(&self, table: &str, column: &str) -> Result<bool, Error> {
        let sql = format!("SELECT 1 FROM pragma_table_info('{table}') WHERE name = '{column}'");
        Ok(!self.rows(&sql, |_| Ok(()))?.is_empty())
    }

    pub(crate) fn has_table(&self, name: &str) -> Result<bool, Error> {
        let sql = format!("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{name}'");
        Ok(!self.rows(&sql, |_| Ok(()))?.is_empty())
    }
}

/// A finished recording is opened read-only. When the writer was killed, the write-ahead log is still beside the file. SQLite must write its `-shm`
/// file to read that log; nothing in the recording changes.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let write_needed = Path::new(&log).exists();
    let access = if write_needed { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

pub(crate) fn counter(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, Counter>(column).map(|counter| counter.0)
}
