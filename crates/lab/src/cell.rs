// SPDX-License-Identifier: Apache-2.0
//! What one walk does: plain data, complete before anything is made.

use crate::error::Error;
use crate::squeeze_requests::{is_root, limits_of};
use crate::workload_from_file::{WorkloadFromFile, Workloads};
use assertion::Assertion;
use diskmodel::{Bin, Model};
use evidence::DiskMechanism;
use experiment::{Arm, Experiment, Fill, LeftOut, Load, Observe, OnMiss, PgBouncer, RamSqueeze, ServerStart};
use logs::{Format, Recorded};
use sandbox::{Installation, Origin, Request, ServerOption};
use squeeze::limits::LimitRequest;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use units::Bytes;

/// Whether data that were filled before are used, and whether new ones are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeptFills {
    /// The data are filled anew, and not kept.
    #[default]
    Off,
    /// The data are filled anew, and kept instead of the old ones.
    Fresh,
    Use,
    /// Kept data are used after every file was read and its checksum compared.
    Verify,
}

/// A server, its data, what is observed, and the phases in their order.
#[derive(Debug)]
pub struct Cell {
    /// Part of the sandbox's name.
    pub name: String,
    pub server: Request,
    /// The installation of the server, where the caller has found it already.
    pub installation: Option<Installation>,
    /// The data that the server begins with, when they are the user's own.
    pub origin: Option<Origin>,
    pub fill: Fill,
    /// The program that fills the server, where [`Fill::command`] names one.
    pub filler: Option<Program>,
    /// Whether data that were filled before are used.
    pub kept_fills: KeptFills,
    pub observe: Observe,
    /// In the order they run; never empty.
    pub phases: Vec<Phase>,
    /// How the disk is made slow in all phases, if it is.
    pub disk: Option<DiskMechanism>,
    pub left_out: Vec<LeftOut>,
    /// Leave the sandbox behind.
    pub keep: bool,
    /// The command line as it was typed, for the journal and the recording.
    pub command: Vec<String>,
    /// The experiment file as it was written, and the files that it names: for the recording.
    pub text: String,
    pub files: Vec<(String, String)>,
}

/// One squeeze and one load: an arm of an experiment, in one of its turns.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The name in the recording; for an arm that is repeated, followed by its turn.
    pub name: String,
    /// The arm's name without the turn.
    pub arm: String,
    /// The turn, from 0.
    pub repetition: u32,
    /// The settings in which it differs from the other phases, as they were written: for the recording.
    pub settings: BTreeMap<String, String>,
    pub server_options: Vec<ServerOption>,
    /// Variables that are set before the load, while the server runs.
    pub live: BTreeMap<String, String>,
    /// Settings of the server's start beside its variables.
    pub start: ServerStart,
    /// The size of the server's own page cache.
    pub pool: Bytes,
    /// The RAM of the whole host.
    pub ram: Option<RamSqueeze>,
    /// The cgroups' limits in which the server is started.
    pub limits: LimitRequest,
    /// The delay of the disk; it has no effect without a slow layer.
    pub disk: Model,
    pub on_miss: OnMiss,
    pub load: Load,
    /// The load's file, where its workload is one.
    pub written: Option<WorkloadFromFile>,
    /// The files of the loads beside it, by their names.
    pub written_beside: Workloads,
    /// The program that is the load, where [`Load::driver`] names one.
    pub program: Option<Program>,
    /// The log that is the load, where [`Load::replay`] names one.
    pub log: Option<Arc<Log>>,
    pub assertions: Vec<Assertion>,
    /// The server must be started anew before it. The first phase starts it anyway.
    pub restart: bool,
}

/// A load program that is not Wringer's, and that was found.
#[derive(Debug, Clone)]
pub struct Program {
    pub program: PathBuf,
    /// The folder of the experiment's file: the program is started in it.
    pub folder: PathBuf,
    /// The name and text of each script that the program gets.
    pub scripts: Vec<(String, String)>,
}

/// A server's log that was read.
#[derive(Debug)]
pub struct Log {
    /// The name that the experiment's file has for it.
    pub name: String,
    pub format: Format,
    pub recorded: Recorded,
}

/// Workload files, by the names that the experiment's file has for them.
pub type Logs = BTreeMap<String, Arc<Log>>;

/// The files and programs that an experiment names, as they were found on this host.
#[derive(Debug, Default)]
pub struct Found {
    pub workloads: Workloads,
    /// By the arms' names.
    pub programs: BTreeMap<String, Program>,
    /// The program of `fill.command`.
    pub filler: Option<Program>,
    pub logs: Logs,
    pub origin: Option<Origin>,
    /// How the disk is made slow here.
    pub disk: Option<DiskMechanism>,
}

impl Cell {
    /// The cell that an experiment describes: its arms, as often as it repeats them. `bins` reads a histogram of a disk's times.
    ///
    /// # Errors
    /// A version, a server option or a description of a disk that is not valid.
    pub fn of(
        experiment: &Experiment,
        found: Found,
        bins: &mut dyn FnMut(&str) -> Result<Vec<Bin>, String>,
    ) -> Result<Self, Error> {
        let Found { workloads, programs, filler, logs, origin, disk } = found;
        let files = workloads.iter().map(|(name, written)| (name.clone(), written.file.text.clone()));
        let scripts = programs.values().flat_map(|program| program.scripts.clone());
        let files = files.chain(scripts).collect();
        let mut phases = Vec::new();
        for repetition in 0..experiment.repeat {
            for arm in &experiment.arms {
                let asked = arm.squeeze.disk.clone().filter(|_| disk.is_some()).unwrap_or_default();
                let words = |error: diskmodel::SpecError| Error::Words { message: error.message, hint: error.hint };
                phases.push(Phase {
                    name: named(experiment, arm, repetition),
                    arm: arm.name.clone(),
                    repetition,
                    settings: arm.overrides.clone(),
                    server_options: server_options(arm)?,
                    live: arm.live.clone(),
                    start: arm.start.clone(),
                    pool: experiment.pool(arm),
                    ram: arm.squeeze.ram,
                    limits: limits_of(experiment, arm),
                    disk: asked.model(&mut *bins).map_err(words)?,
                    on_miss: arm.squeeze.on_miss,
                    load: arm.load.clone(),
                    written: workloads.get(&arm.load.workload).cloned(),
                    written_beside: beside(&arm.load, &workloads),
                    program: programs.get(&arm.name).cloned(),
                    log: arm.load.replay.as_ref().and_then(|replay| logs.get(&replay.log).cloned()),
                    assertions: arm.assertions.iter().map(|asserted| asserted.assertion.clone()).collect(),
                    restart: arm.restart,
                });
            }
        }
        Ok(Self {
            name: experiment.name.clone(),
            server: server_request(&experiment.server)?,
            installation: None,
            origin,
            fill: experiment.fill.clone(),
            filler,
            kept_fills: KeptFills::Off,
            observe: experiment.observe,
            phases,
            disk,
            left_out: Vec::new(),
            keep: false,
            command: Vec::new(),
            text: String::new(),
            files,
        })
    }

    /// Whether the host's pool of huge pages is made larger for the server.
    pub(crate) fn takes_huge_pages(&self) -> bool {
        self.phases.iter().any(|phase| phase.start.wants_huge_pages()) && is_root()
    }

    /// The pgBouncer of the first phase that has one in front of its server.
    pub(crate) fn pgbouncer(&self) -> Option<PgBouncer> {
        self.phases.iter().find_map(|phase| phase.start.pgbouncer)
    }

    /// Whether all programs of the host have less RAM, or other settings of huge pages, meanwhile: then the caller must ask for consent first.
    pub fn changes_host(&self) -> bool {
        self.hides_ram() || self.sets_host_thp()
    }

    /// Whether RAM is hidden from the whole host.
    pub fn hides_ram(&self) -> bool {
        self.phases.iter().any(|phase| phase.ram.is_some()) && is_root()
    }
}

/// The files of the loads beside a load.
fn beside(load: &Load, workloads: &Workloads) -> Workloads {
    let names = load.loads_beside.iter().map(|beside| &beside.load.workload);
    names.filter_map(|name| Some((name.clone(), workloads.get(name)?.clone()))).collect()
}

fn named(experiment: &Experiment, arm: &Arm, repetition: u32) -> String {
    match experiment.repeat {
        1 => arm.name.clone(),
        _ => format!("{} #{}", arm.name, repetition + 1),
    }
}

/// # Errors
/// A setting that this server does not have.
pub fn server_options(arm: &Arm) -> Result<Vec<ServerOption>, Error> {
    let options = arm.server_options.iter().map(|(key, value)| ServerOption::new(key, Some(value)));
    Ok(options.collect::<Result<_, _>>()?)
}

/// What the experiment file asks for.
///
/// # Errors
/// The version is not valid.
pub fn server_request(server: &experiment::Server) -> Result<Request, Error> {
    let version = server.version.as_deref().map(str::parse).transpose().map_err(sandbox::Error::from)?;
    Ok(Request { flavour: server.flavour, version })
}
