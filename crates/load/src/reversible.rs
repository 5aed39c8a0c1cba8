// SPDX-License-Identifier: Apache-2.0
//! Statements that change a server's own settings, each with the statement that undoes it: either all are done, or none.
//!
//! In: the pairs, and the path of the file for the undoing statements. The file is synced to the disk before the first statement is sent, and it is
//! not deleted: when this program is killed, the undoing statements are in the file. Out: [`Applied`], the outcome. When the server refuses a
//! statement, the statements before it are undone, the newest first.
//!
//! This is no step of the undo journal: `wringer undo` must work without a server, and a journal holds no passwords.

use crate::Error;
use crate::admin::Connection;
use crate::target::{Protocol, Target};
use std::path::Path;
use std::time::Duration;

/// The server waits this long for a lock, and then sends an error. This program waits longer, so that it gets that error.
const LOCK_LIMIT_S: u64 = 5;
const READ_LIMIT: Duration = Duration::from_secs(30);

/// A statement and the statement that undoes it. Both may be sent again without harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversible {
    pub statement: String,
    pub undo: String,
}

/// The outcome.
#[derive(Debug)]
pub enum Applied {
    All,
    /// Nothing is changed: the first `done` statements were done, and then undone. `why: None`: the caller asked to stop.
    Undone {
        done: usize,
        why: Option<Error>,
    },
    /// Some of the settings are still changed.
    NotUndone {
        done: usize,
        why: Option<Error>,
        undo_failed: Error,
    },
}

/// Why nothing was begun.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    #[error("the file of statements that restore")]
    File(#[source] host::Error),
    #[error(transparent)]
    Connect(Error),
}

/// `head` is written to the beginning of the file, as comments. `is_over` is asked before each statement whether to stop.
///
/// # Errors
/// [`NotBegun`]: nothing was sent.
pub fn apply(
    target: &Target,
    all: &[Reversible],
    file: &Path,
    head: &str,
    is_over: &dyn Fn() -> bool,
) -> Result<Applied, NotBegun> {
    let mut connection = open(target).map_err(NotBegun::Connect)?;
    host::files::write_atomic(file, text(all, head, target.protocol).as_bytes(), 0o600).map_err(NotBegun::File)?;
    for (done, one) in all.iter().enumerate() {
        if is_over() {
            return Ok(undo(target, Some(connection), &all[..done], done, None));
        }
        host::failpoint("before a statement of a plan");
        match connection.execute(&limited(target, &one.statement)) {
            Ok(_) => {}
            Err(why @ Error::Server { .. }) => {
                return Ok(undo(target, Some(connection), &all[..done], done, Some(why)));
            }
            // it is not known whether this statement was done
            Err(why) => return Ok(undo(target, None, &all[..=done], done, Some(why))),
        }
    }
    Ok(Applied::All)
}

/// The text of the file: all undoing statements. A user can also run this file by hand, with a client of any character set: the file names its own.
fn text(all: &[Reversible], head: &str, protocol: Protocol) -> String {
    let comments = head.lines().map(|line| format!("-- {}\n", line.replace(char::is_control, " ")));
    let encoding = match protocol {
        Protocol::Mysql => "SET NAMES utf8mb4;\n",
        Protocol::Postgresql => "SET client_encoding = 'UTF8';\n",
    };
    let undo = all.iter().map(|one| format!("{};\n", one.undo));
    comments.chain([encoding.to_owned()]).chain(undo).collect()
}

fn open(target: &Target) -> Result<Connection, Error> {
    let mut connection = Connection::open(target)?;
    connection.set_read_limit(Some(READ_LIMIT))?;
    if target.protocol == Protocol::Mysql {
        connection.execute(&format!("SET SESSION lock_wait_timeout = {LOCK_LIMIT_S}"))?;
    }
    Ok(connection)
}

/// The limit and the statement are one transaction: a pooler may give each transaction to another server connection, and a setting of the session
/// would stay with that connection.
fn limited(target: &Target, statement: &str) -> String {
    match target.protocol {
        Protocol::Mysql => statement.to_owned(),
        Protocol::Postgresql => format!("SET LOCAL lock_timeout = '{LOCK_LIMIT_S}s'; {statement}"),
    }
}

fn undo(
    target: &Target,
    connection: Option<Connection>,
    all: &[Reversible],
    done: usize,
    why: Option<Error>,
) -> Applied {
    match undo_all(target, connection, all) {
        Ok(()) => Applied::Undone { done, why },
        Err(undo_failed) => Applied::NotUndone { done, why, undo_failed },
    }
}

/// Tries each undoing statement, and returns the first error.
fn undo_all(target: &Target, connection: Option<Connection>, all: &[Reversible]) -> Result<(), Error> {
    if all.is_empty() {
        return Ok(());
    }
    let mut connection = connection.map_or_else(|| open(target), Ok)?;
    let mut first = None;
    for one in all.iter().rev() {
        if let Err(error) = connection.execute(&limited(target, &one.undo)) {
            first.get_or_insert(error);
        }
    }
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_only_when_somebody_answers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("restore.sql");
        let target: Target = "mysql://me@/x?socket=/nowhere.sock".parse().unwrap();
        let one = [Reversible { statement: "SELECT 1".into(), undo: "SELECT 2".into() }];
        let ended = apply(&target, &one, &file, "", &|| false);
        assert!(matches!(ended, Err(NotBegun::Connect(_))) && !file.exists());
    }

    #[test]
    fn a_head_cannot_leave_its_comment() {
        let one = [Reversible { statement: "a".into(), undo: "b".into() }];
        assert_eq!(text(&one, "of x\u{b}\ny", Protocol::Mysql), "-- of x \n-- y\nSET NAMES utf8mb4;\nb;\n");
        assert_eq!(text(&one, "", Protocol::Postgresql), "SET client_encoding = 'UTF8';\nb;\n");
    }
}
