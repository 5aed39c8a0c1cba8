// SPDX-License-Identifier: Apache-2.0
//! `fill.from`: data of the user's own that the server begins with, looked at before anything is made.

use crate::exit::{Exit, Failure};
use experiment::Experiment;
use lab::server_request;
use sandbox::Origin;
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
