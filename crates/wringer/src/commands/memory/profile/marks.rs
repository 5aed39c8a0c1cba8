// SPDX-License-Identifier: Apache-2.0
//! Decides when snapshots are taken.

use super::keys::Keys;
use super::subject::{Load, Loading};
use crate::terminal;
use load::admin::Connection;
use profile::{Error, Session};
use std::time::{Duration, Instant};
use units::{Bytes, Span};

/// The times at which the user wants snapshots.
pub(super) struct Wishes<'a> {
    pub(super) sql: &'a [String],
    pub(super) time: Option<Duration>,
    pub(super) every: Option<Duration>,
}

const TICK: Duration = Duration::from_millis(50);
/// The largest number of characters of a statement in the name of its snapshot.
const NAME_CHARACTERS: usize = 60;

pub(super) fn take(session: &mut Session, name: &str) -> Result<(), Error> {
    let mark = session.mark(name)?;
    let at = Span::millis(mark.at_ms);
    let processes =
        if mark.processes.len() > 1 { format!(" in {} processes", mark.processes.len()) } else { String::new() };
    let heap =
        mark.heap_bytes.map_or_else(|| "the heap is known at the end".to_owned(), |it| format!("heap {}", Bytes(it)));
    terminal::say(format_args!("  {:>7}  {}: {heap}{processes}", at.to_string(), mark.name));
    mark.missing.iter().for_each(|why| terminal::say(format_args!("           not asked: {why}")));
    Ok(())
}

/// Runs the statements; then waits until the load has ended, the time is over, the user stops it, or the server has ended. Until then the statements'
/// connection stays open, so that each mark taken here sees what its session holds.
pub(super) fn until_the_end(session: &mut Session, wishes: &Wishes<'_>, load: Option<Load>) -> Result<(), Error> {
    let load = load.map(|load| load.start(session)).transpose()?;
    let connection = if wishes.sql.is_empty() { None } else { Some(statements(session, wishes.sql)?) };
    if connection.is_some() && wishes.time.is_none() && load.is_none() {
        return Ok(());
    }
    let keys = Keys::of_terminal();
    let alone = if load.is_some() { "the load is over" } else { "Ctrl-C" };
    let until = wishes.time.map_or_else(|| alone.to_owned(), |time| format!("{} are over", Span(time)));
    let press = if keys.are_there() { "; Enter takes a snapshot" } else { "" };
    terminal::say(format_args!("  runs     until {until}{press}"));
    let (began, mut last) = (Instant::now(), Instant::now());
    let is_over = || load.as_ref().is_some_and(Loading::is_over) || host::interrupt::requested();
    while !is_over() && session.is_alive() && wishes.time.is_none_or(|time| began.elapsed() < time) {
        if keys.was_pressed() {
            take(session, "Enter")?;
        }
        if wishes.every.is_some_and(|every| last.elapsed() >= every) {
            last = Instant::now();
            take(session, "every")?;
        }
        std::thread::sleep(TICK);
    }
    drop(connection);
    load.map_or(Ok(()), Loading::end)
}

/// The mark when the statements' connection is open.
pub(super) const CONNECTED: &str = "connected";

/// Runs the statements, all over one connection. Returns the connection.
fn statements(session: &mut Session, sql: &[String]) -> Result<Connection, Error> {
    let mut connection = Connection::open(&session.server.target).map_err(Error::Connect)?;
    take(session, CONNECTED)?;
    for statement in sql {
        let began = Instant::now();
        let run = connection.query(statement);
        run.map_err(|source| Error::Statement { statement: statement.clone(), source })?;
        let short: String = statement.chars().take(NAME_CHARACTERS).collect();
        take(session, &format!("after {short} ({:.1} s)", began.elapsed().as_secs_f64()))?;
        if host::interrupt::requested() {
            break;
        }
    }
    Ok(connection)
}
