// SPDX-License-Identifier: Apache-2.0
//! A sandbox for one arm of an experiment: its server, filled without Valgrind, and its load. Squeezes and repeats of the experiment are not used;
//! `wringer run` has them.

use crate::{Error, Pace};
use experiment::{Arm, Experiment};
use host::places::Places;
use lab::{Progress, WorkloadFromFile};
use load::engine::LoadSpec;
use load::fill::{self, ServerFacts};
use load::prepare::pgbench;
use load::{Protocol, Target};
use run::Run;
use sandbox::{Origin, Sandbox, ServerOption, Spec, StartOptions};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Everything that is ready before the server is started under Massif.
pub struct Prepared {
    /// The end of the run deletes it, unless the caller deletes it before.
    pub sandbox: Sandbox,
    pub pace: Pace,
    pub load: LoadSpec,
    /// The database of the load, when it is not the sandbox's own database.
    pub database: Option<String>,
    pub options: Vec<ServerOption>,
}

/// What to prepare.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub experiment: &'a Experiment,
    pub arm: &'a Arm,
    /// The arm's workload file, where it has one.
    pub written: Option<&'a WorkloadFromFile>,
    /// Data that the server begins with.
    pub origin: Option<&'a Origin>,
    /// The name of the sandbox.
    pub name: &'a str,
}

/// Deploys the sandbox, starts its server without Valgrind, fills the tables, and stops the server again.
///
/// # Errors
/// The server is not on this machine or does not start; the tables cannot be filled.
pub fn prepare(
    wanted: Wanted<'_>,
    run: &mut Run,
    places: &Places,
    progress: &dyn Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Prepared, Error> {
    let Wanted { experiment, arm, origin, name, .. } = wanted;
    let options = lab::server_options(arm).map_err(Error::words)?;
    let sandbox = deploy(experiment, &options, origin, name, run, places, progress)?;
    let options = sandbox.manifest.installation.start_options(&options);
    let database = lab::database(&experiment.fill, &sandbox).map_err(Error::words)?;
    let start = StartOptions { extra_options: options.clone(), ..StartOptions::default() };
    let began = Instant::now();
    let server = sandbox.start(run, &start).map_err(Error::natively)?;
    let started = began.elapsed();
    let mut target = server.target.clone();
    if let Some(database) = &database {
        target.database = Some(database.clone());
    }
    let filled = Pace::measure(&target, started)
        .map_err(Error::Connect)
        .and_then(|pace| Ok((pace, load(wanted, &target, progress, stop)?)));
    server.stop(run).map_err(Error::stop)?;
    let (pace, load) = filled?;
    Ok(Prepared { sandbox, pace, load, database, options })
}

fn deploy(
    experiment: &Experiment,
    options: &[ServerOption],
    origin: Option<&Origin>,
    name: &str,
    run: &Run,
    places: &Places,
    progress: &dyn Progress,
) -> Result<Sandbox, Error> {
    let request = lab::server_request(&experiment.server).map_err(Error::words)?;
    let bar = progress.bar("looking for the server", None);
    let mut say = |what: &str| bar.set_message(what);
    let installation = sandbox::locate(&request, places, &mut say).map_err(|error| Error::Sandbox(error.into()))?;
    let mut spec = Spec::new(installation);
    spec.name = name.to_owned();
    spec.run = Some(run.id().to_string());
    spec.origin = origin.cloned();
    spec.held = true;
    spec.options = spec.installation.init_options(options);
    Sandbox::deploy(spec, places, &mut say).map_err(|error| Error::Sandbox(error.into()))
}

/// The load of the arm. Its tables are there when this returns.
fn load(wanted: Wanted<'_>, target: &Target, progress: &dyn Progress, stop: &AtomicBool) -> Result<LoadSpec, Error> {
    let Wanted { experiment, arm, written, .. } = wanted;
    let protocol: Protocol = target.protocol;
    let rows = match experiment.fill.size {
        None => lab::rows(target),
        Some(size) => {
            let facts = ServerFacts::read(target).map_err(Error::fill)?;
            let spec = lab::fill_spec(&experiment.fill, size, arm.load.seed).map_err(Error::words)?;
            let plan = fill::plan(&spec, &facts).map_err(Error::fill)?;
            let bar = progress.bar("filling", Some(0));
            let report = fill::run(&plan, target, stop, &mut |it| {
                bar.set_length(it.total);
                bar.set_position(it.done);
            });
            report.map_err(Error::fill)?.rows_per_table
        }
    };
    if let Some(scale) = experiment.fill.pgbench {
        pgbench::fill(target, scale, false, stop, &mut |_, _| {}).map_err(Error::fill)?;
    }
    lab::load_spec(&experiment.fill, &arm.load, written, protocol, rows).map_err(Error::words)
}
