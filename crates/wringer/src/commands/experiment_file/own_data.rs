// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: the user's own data that the server begins with. Checked before anything is made.

use crate::exit::{Exit, Failure};
use experiment::Experiment;
use lab::server_request;
use sandbox::Origin;
use std::path::Path;

/// The data that `fill.from` names, relative to the folder of the experiment's file.
///
/// # Errors
/// Exit code 2: it is data of another server than the experiment's. 3: it does not exist, or its kind is unknown.
pub fn look(file: &Path, experiment: &Experiment) -> Result<Option<Origin>, Failure> {
    let Some(from) = &experiment.fill.from else { return Ok(None) };
    let path = file.parent().unwrap_or(Path::new("")).join(from);
    let missing = |error: std::io::Error| {
        Failure::new(Exit::Missing, anyhow::Error::new(error).context(format!("look at fill.from, {}", path.display())))
    };
    path.metadata().map_err(missing)?;
    let origin = Origin::look(&path)?;
    let server = server_request(&experiment.server)?;
    // if the version is only found later, the deployment compares it with the data
    if let Some(version) = &server.version {
        origin.check_server(server.flavour, version)?;
    }
    Ok(Some(origin))
}
