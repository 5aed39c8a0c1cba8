// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: a server that begins with a copy of the user's own data.

use super::lab::server_request;
use crate::exit::{Exit, Failure};
use experiment::Experiment;
use load::Target;
use load::admin::Connection;
use sandbox::{Origin, Sandbox};
use std::path::Path;

/// What `fill.from` names, from the folder of the experiment's file.
///
/// # Errors
/// Exit code 2: it is data of another server than the experiment's. 3: it is not there, or is nothing that is known.
pub fn look(file: &Path, experiment: &Experiment) -> Result<Option<Origin>, Failure> {
    let Some(from) = &experiment.fill.from else { return Ok(None) };
    let path = file.parent().unwrap_or(Path::new("")).join(from);
    let missing = |error: std::io::Error| {
        Failure::new(Exit::Missing, anyhow::Error::new(error).context(format!("look at fill.from, {}", path.display())))
    };
    path.metadata().map_err(missing)?;
    let origin = Origin::look(&path)?;
    let server = server_request(&experiment.server)?;
    // the version that will be found is held against the data by the deployment
    if let Some(version) = &server.version {
        origin.check_server(server.flavour, version)?;
    }
    Ok(Some(origin))
}

/// Where the loads go: what the file says, or the only database that came with the data. `None`: into the sandbox's own.
///
/// # Errors
/// Exit code 2: several came, and nothing says which.
pub fn database(experiment: &Experiment, sandbox: &Sandbox) -> Result<Option<String>, Failure> {
    let fill = &experiment.fill;
    let Some(imported) = &sandbox.manifest.origin else { return Ok(fill.database.clone()) };
    if fill.database.is_some() || fill.size.is_some() {
        return Ok(fill.database.clone());
    }
    let users: Vec<&str> = imported.databases.iter().map(String::as_str).filter(|name| !OURS.contains(name)).collect();
    match users.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).to_owned())),
        several => {
            let message =
                format!("the data have several databases, and nothing says which is loaded: {}", several.join(", "));
            let hint = format!("below [fill]: database = \"{}\"", several[0]);
            Err(Failure::message(Exit::Usage, message).hint(hint))
        }
    }
}

/// Databases that no user made: the sandbox's, and that of every cluster of PostgreSQL.
const OURS: [&str; 2] = ["sbtest", "postgres"];

/// Of sysbench's first table, where the data have one: what a load's `table_size` is. 0: they have none.
pub fn rows(target: &Target) -> u64 {
    let count = |mut connection: Connection| connection.query("SELECT max(id) FROM sbtest1");
    Connection::open(target).and_then(count).ok().and_then(|rows| rows.parse(0, 0)).unwrap_or_default()
}
