// SPDX-License-Identifier: Apache-2.0
//! Limits of connections and the sessions of each account, over SQL: a [`connections::ServerReading`]. The crate `connections` has the arithmetic.
//!
//! [`begin`] reads what does not change, [`look`] the present sessions, [`end`] the counters; [`pooler`] asks pgBouncer's console. Nothing is
//! changed. A refused statement becomes a [`Missing`] with the right that would allow it; a server that does not answer is an error.

mod asking;
mod memory;
mod mysql;
mod pooler;
mod postgresql;
mod roles;

pub use memory::backends;
pub use pooler::Pooler;

use crate::server::{Query, ServerKind};
use asking::Asking;
use capability::Protocol;
use connections::ServerReading;
use ledger::Missing;
use std::collections::BTreeMap;

/// Why there is no answer: the connection was lost, or the server did not answer any more.
pub type Lost = Box<dyn std::error::Error + Send + Sync>;

/// Reads settings, accounts and databases.
///
/// # Errors
/// [`Lost`].
pub fn begin(connection: &mut dyn Query, kind: &ServerKind) -> Result<ServerReading, Lost> {
    let mut seen = ServerReading {
        flavour: kind.flavour,
        version: kind.version.clone(),
        variables: BTreeMap::new(),
        status: BTreeMap::new(),
        own: None,
        accounts: None,
        databases: Vec::new(),
        looks: Vec::new(),
        pooler: None,
        missing: Vec::new(),
    };
    connection.renew();
    let mut asking = Asking { connection, missing: Vec::new() };
    match kind.flavour.protocol() {
        Protocol::Mysql => mysql::begin(&mut asking, &mut seen)?,
        Protocol::Postgresql => postgresql::begin(&mut asking, &mut seen)?,
    }
    let Asking { missing, .. } = asking;
    note(&mut seen, missing);
    Ok(seen)
}

/// Adds the present sessions. `at_us`: the time since the first look.
///
/// # Errors
/// [`Lost`].
pub fn look(connection: &mut dyn Query, seen: &mut ServerReading, at_us: u64) -> Result<(), Lost> {
    connection.renew();
    let mut asking = Asking { connection, missing: Vec::new() };
    let mut look = match seen.flavour.protocol() {
        Protocol::Mysql => mysql::look(&mut asking, seen.flavour)?,
        Protocol::Postgresql => postgresql::look(&mut asking, &seen.version)?,
    };
    look.at_us = at_us;
    let Asking { missing, .. } = asking;
    note(seen, missing);
    // the processes of the last look are still needed for reading their memory, so only the look before is grouped
    seen.looks.last_mut().into_iter().for_each(connections::Look::group);
    seen.looks.push(look);
    Ok(())
}

/// Reads the counters, after the last look.
///
/// # Errors
/// [`Lost`].
pub fn end(connection: &mut dyn Query, seen: &mut ServerReading) -> Result<(), Lost> {
    connection.renew();
    let mut asking = Asking { connection, missing: Vec::new() };
    if seen.flavour.protocol() == Protocol::Mysql {
        mysql::end(&mut asking, seen)?;
    }
    let Asking { missing, .. } = asking;
    note(seen, missing);
    unseen(seen);
    Ok(())
}

/// The same is missing at every look, and is noted once.
fn note(seen: &mut ServerReading, missing: Vec<Missing>) {
    for one in missing {
        if !seen.missing.contains(&one) {
            seen.missing.push(one);
        }
    }
}

/// Without an error, a server shows only its own sessions to an account that lacks the right to see others.
fn unseen(seen: &mut ServerReading) {
    let hidden = |look: &connections::Look| {
        let shown: u64 = look.sessions.iter().map(|sessions| sessions.count).sum();
        look.in_use.map(|in_use| (in_use.saturating_sub(shown), in_use))
    };
    // sessions that begin or end between two questions are not missing at each look, so the least number is used
    let least = seen.looks.iter().filter_map(hidden).min();
    let Some((hidden, of)) = least.filter(|(hidden, _)| *hidden > 0) else { return };
    let remedy = match seen.flavour.protocol() {
        Protocol::Mysql => "GRANT PROCESS ON *.* TO the account that asks",
        Protocol::Postgresql => "GRANT pg_monitor TO the account that asks",
    };
    seen.missing.push(Missing {
        what: "whose connections they are".into(),
        why: format!("{hidden} of {of} connections are in no list of sessions"),
        remedy: Some(remedy.into()),
    });
}

#[cfg(test)]
mod tests;
