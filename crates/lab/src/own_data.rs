// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: a server that begins with a copy of the user's own data.

use crate::error::Error;
use experiment::Fill;
use load::Target;
use load::admin::Connection;
use load::fill;
use sandbox::Sandbox;

/// The database of the loads: the one that the file names, or the only one in the data. `None`: the sandbox's own.
///
/// # Errors
/// Several came, and nothing says which.
pub(crate) fn database(fill: &Fill, sandbox: &Sandbox) -> Result<Option<String>, Error> {
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

/// Databases that no user made: the sandbox's, and that of every cluster of PostgreSQL.
const OURS: [&str; 2] = ["sbtest", "postgres"];

/// For a program that fills a database which the file names: on a new server there is none of that name.
///
/// # Errors
/// The server refuses it.
pub(crate) fn make_database(target: &Target) -> Result<(), Error> {
    Ok(fill::ensure_database(target).map(drop)?)
}

/// Of sysbench's first table, where the data have one: what a load's `table_size` is. 0: they have none.
pub(crate) fn rows(target: &Target) -> u64 {
    let count = |mut connection: Connection| connection.query("SELECT max(id) FROM sbtest1");
    Connection::open(target).and_then(count).ok().and_then(|rows| rows.parse(0, 0)).unwrap_or_default()
}
