// SPDX-License-Identifier: Apache-2.0
//! Statements that change a server's own settings, each with the statement that undoes it: all of them, or none.
//!
//! In: the pairs, and the file that is to hold the undoing ones. The file is on the disk, synced, before the first statement is sent, and it stays: whoever
//! kills this program has it. Out: [`Applied`], how it ended. A server's refusal undoes what was done, the newest first.
//!
//! It is no step of the undo journal: `wringer undo` must work without a server, and a journal holds no passwords.

use crate::Error;
use crate::admin::Connection;
use crate::target::{Protocol, Target};
use std::path::Path;
use std::time::Duration;

/// The server gives up waiting for a lock after this, and says so; the answer to that is waited for.
const LOCK_LIMIT_S: u64 = 5;
const READ_LIMIT: Duration = Duration::from_secs(30);

/// A statement and its undoing. Both may be sent again without harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversible {
    pub statement: String,
    pub undo: String,
}

/// How it ended.
#[derive(Debug)]
pub enum Applied {
    All,
    /// Nothing is changed: before the statement of this number `done` were, and they were undone. `why: None`: the caller asked to stop.
    Undone {
        done: usize,
        why: Option<Error>,
    },
    /// Some of them are changed still.
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

/// `head`: stands at the beginning of the file, as comments. `is_over`: asked before each statement.
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
    host::files::write_atomic(file, text(all, head).as_bytes(), 0o600).map_err(NotBegun::File)?;
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
            // nobody knows whether it was done
            Err(why) => return Ok(undo(target, None, &all[..=done], done, Some(why))),
        }
    }
    Ok(Applied::All)
}

/// What undoes all of it, also by hand.
fn text(all: &[Reversible], head: &str) -> String {
    let comments = head.lines().map(|line| format!("-- {}\n", line.replace(char::is_control, " ")));
    comments.chain(all.iter().map(|one| format!("{};\n", one.undo))).collect()
}

fn open(target: &Target) -> Result<Connection, Error> {
    let mut connection = Connection::open(target)?;
    connection.set_read_limit(Some(READ_LIMIT))?;
    if target.protocol == Protocol::Mysql {
        connection.execute(&format!("SET SESSION lock_wait_timeout = {LOCK_LIMIT_S}"))?;
    }
    Ok(connection)
}

/// One transaction: a pooler may give each of them to another server connection, and a setting would stay with that one.
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

/// Tries each of them; the first error is told.
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
        assert_eq!(text(&one, "of x\u{b}\ny"), "-- of x \n-- y\nb;\n");
    }
}
