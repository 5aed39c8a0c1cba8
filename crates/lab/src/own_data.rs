// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: a server that begins with a copy of the user's own data.

use crate::error::Error;
use crate::notes::Notes;
use experiment::Fill;
use load::Target;
use load::admin::Connection;
use load::fill;
use sandbox::Sandbox;

/// The database of the loads: the database that the file names, or the only one in the data. `None`: the sandbox's own.
///
/// # Errors
/// The data have several databases, and the file names none.
pub fn database(fill: &Fill, sandbox: &Sandbox) -> Result<Option<String>, Error> {
    let Some(imported) = &sandbox.manifest.origin else { return Ok(fill.database.clone()) };
    if fill.database.is_some() || fill.size.is_some() {
        return Ok(fill.database.clone());
    }
    let users: Vec<&str> = imported.databases.iter().map(String::as_str).filter(|name| !OURS.contains(name)).collect();
    match users.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).to_owned())),
        several => Err(Error::Databases { names: several.iter().map(|name| (*name).to_owned()).collect() }),
    }
}

/// Tells what the data are a copy of, and in what they differ from it.
pub(crate) fn tell(sandbox: &Sandbox, notes: &Notes<'_>) -> Result<(), Error> {
    let Some(imported) = &sandbox.manifest.origin else { return Ok(()) };
    let changes: String = imported.changes.iter().map(|change| format!("; {change}")).collect();
    notes.event("fill", format!("a copy of {}: {}{changes}", imported.path.display(), imported.what))
}

/// Databases that no user has made: the sandbox's, and the one that every cluster of PostgreSQL has.
const OURS: [&str; 2] = ["sbtest", "postgres"];

/// Makes the database that the file names, for a program that fills it: a new server does not have it.
///
/// # Errors
/// The server refuses it.
pub(crate) fn make_database(target: &Target) -> Result<(), Error> {
    Ok(fill::ensure_database(target).map(drop)?)
}

/// The rows of sysbench's first table, where the data have it: the `table_size` of a load. 0: they do not have it.
pub fn rows(target: &Target) -> u64 {
    let count = |mut connection: Connection| connection.query("SELECT max(id) FROM sbtest1");
    Connection::open(target).and_then(count).ok().and_then(|rows| rows.parse(0, 0)).unwrap_or_default()
}
