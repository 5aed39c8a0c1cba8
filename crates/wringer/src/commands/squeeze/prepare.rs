// SPDX-License-Identifier: Apache-2.0
//! Checks everything that may be refused, before anything is changed, and lists the changes.

use super::{Args, host_ram};
use crate::commands::disk::flags;
use crate::commands::doctor::check::{Check, State};
use crate::commands::doctor::checks;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use diskmodel::Model;
use evidence::DiskMechanism;
use host::places::Places;
use run::Resource;
use serde_json::json;
use squeeze::directory::{FILE_SYSTEM, check_for_command, check_reach};
use squeeze::limits::{self, Change, OptionNames, Plan};
use squeeze::preloaded;
use squeeze::ram;
use squeeze::{access_lists, databases};
use std::path::{Path, PathBuf};

/// The plan of a squeeze that this machine allows.
pub struct Prepared {
    pub limits: Plan,
    pub disks: Vec<Disk>,
    pub host_ram: Option<ram::Plan>,
    pub mechanism: DiskMechanism,
    /// The reason if the mechanism is not the usual one, and what is unknown about a directory.
    notes: Vec<String>,
    pub program: PathBuf,
    /// Processes that the command leaves running live on.
    leave: bool,
}

/// The values of `--disk-mechanism`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfPrograms(DiskMechanism);

impl ValueEnum for OfPrograms {
    fn value_variants<'a>() -> &'a [Self] {
        const { &[Self(DiskMechanism::OF_PROGRAMS[0]), Self(DiskMechanism::OF_PROGRAMS[1])] }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

pub struct Disk {
    pub path: PathBuf,
    pub model: Model,
}

impl Prepared {
    pub fn of(args: &Args, places: &Places) -> Result<Self, Failure> {
        let asked = args.limits.asked();
        let hides = args.hide_ram.or(args.leave_ram).is_some();
        if asked.is_nothing() && args.disk.is_empty() && !hides {
            return Err(Failure::message(Exit::Usage, "nothing is to be squeezed")
                .hint("say one or more of --ram, --swap, --cpus, --cpuset, --disk, --hide-ram, --leave-ram"));
        }
        let limits = limits::plan(&asked, OptionNames::COMMAND)?;
        let limits = if args.leave { limits.leaving()? } else { limits };
        let (mechanism, why) = match args.disk.is_empty() {
            true => (DiskMechanism::Fuse, None),
            false => mechanism(args.disk_mechanism.map(|it| it.0), places)?,
        };
        let (disks, unknown) = disks(args, places, mechanism)?;
        let program = program(args)?;
        if mechanism == DiskMechanism::Preload {
            preloaded::check_program(&program)?;
        }
        let notes = why.into_iter().chain(unknown).collect();
        let (host_ram, leave) = (host_ram::plan(args, places)?, args.leave);
        Ok(Self { limits, disks, host_ram, mechanism, notes, program, leave })
    }

    pub fn notes(&self) -> Vec<String> {
        let warnings = self.host_ram.iter().flat_map(|plan| plan.warnings.clone());
        self.limits.notes.iter().cloned().chain(self.notes.clone()).chain(warnings).collect()
    }

    pub fn resources(&self) -> Vec<Resource> {
        let host = self.host_ram.iter().map(|_| Resource::HostRam);
        host.chain(self.disks.iter().map(|disk| Resource::Directory(disk.path.clone()))).collect()
    }

    pub fn show_dry_run(&self, output: Output) {
        let changes = self.changes();
        if output == Output::Json {
            let models: Vec<_> =
                self.disks.iter().map(|disk| json!({ "directory": disk.path, "model": disk.model })).collect();
            let value =
                json!({ "schema": 1, "dry_run": true, "changes": changes, "disks": models, "notes": self.notes() });
            return terminal::json(&value);
        }
        for change in changes {
            terminal::data(format_args!("{}\n    undo: {}", change.change, change.undo));
        }
        self.notes().iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    }

    fn changes(&self) -> Vec<Change> {
        let layers = self.disks.iter().map(|disk| match self.mechanism {
            DiskMechanism::Preload => Change {
                change: format!(
                    "a library (LD_PRELOAD) in the command and what it starts, for files below {}: {}",
                    disk.path.display(),
                    disk.model
                ),
                undo: "the delay goes to 0, and the library goes with the command".into(),
            },
            _ => Change {
                change: format!(
                    "a slow layer ({FILE_SYSTEM}) over {}, in a mount namespace of the command's own: {}",
                    disk.path.display(),
                    disk.model
                ),
                undo: "the delay goes to 0, it is unmounted, and the namespace goes with the command".into(),
            },
        });
        let command = Change {
            change: format!("{} is started, squeezed", self.program.display()),
            undo: match self.leave {
                true => "SIGTERM, 30 s, SIGKILL; what it has left running lives on".into(),
                false => "SIGTERM, 30 s, SIGKILL; and what it has left running: SIGTERM, 10 s, SIGKILL".into(),
            },
        };
        let host_ram = self.host_ram.iter().flat_map(ram::Plan::changes);
        layers.chain(self.limits.changes()).chain(host_ram).chain([command]).collect()
    }
}

/// The asked mechanism, if it is available; if the user asked for none, the available mechanism, with a note that tells the reason.
pub fn mechanism(asked: Option<DiskMechanism>, places: &Places) -> Result<(DiskMechanism, Option<String>), Failure> {
    let fuse = [checks::fuse(), checks::namespaces()].into_iter().find(|check| check.state == State::Missing);
    let preload = checks::preload(places);
    match (asked, fuse) {
        (Some(DiskMechanism::Preload), _) if preload.state == State::Missing => Err(cannot_be_had(preload)),
        (Some(DiskMechanism::Preload), _) => Ok((DiskMechanism::Preload, None)),
        (Some(_), Some(missing)) => Err(cannot_be_had(missing)),
        (_, None) => Ok((DiskMechanism::Fuse, None)),
        (None, Some(missing)) if preload.state == State::Missing => {
            let failure = cannot_be_had(missing);
            Err(failure.hint(format!("nor can a library be preloaded: {}", preload.found)))
        }
        (None, Some(missing)) => {
            let note = format!(
                "--disk by a preloaded library, for a FUSE layer cannot be had here: {}. What the command reads by mmap, \
                 libaio, io_uring or C streams is not slowed: docs/preload.md",
                missing.found
            );
            Ok((DiskMechanism::Preload, Some(note)))
        }
    }
}

fn cannot_be_had(check: Check) -> Failure {
    let failure = Failure::message(Exit::Missing, format_args!("--disk cannot be had here: {}", check.found));
    check.remedy.into_iter().fold(failure, Failure::hint)
}

/// The slow disks, and a list of what could not be checked.
fn disks(args: &Args, places: &Places, mechanism: DiskMechanism) -> Result<(Vec<Disk>, Vec<String>), Failure> {
    if args.disk.is_empty() {
        return Ok(Default::default());
    }
    let databases = databases::unknown(places)?;
    let (mut disks, mut unknown): (Vec<Disk>, Vec<String>) = Default::default();
    for one in &args.disk {
        let model = flags::model(&one.asked)?;
        let path = match mechanism {
            DiskMechanism::Preload => preloaded::check_directory(&one.path)?,
            _ => check_for_command(&one.path, &databases)?,
        };
        refuse_overlap(&path, &disks)?;
        if places.journal.starts_with(&path) {
            let message = format!("{}: Wringer's journals are below it", path.display());
            return Err(Failure::message(Exit::Missing, message).hint("set WRINGER_HOME to another disk"));
        }
        if mechanism == DiskMechanism::Fuse {
            unknown.extend(access_lists::refuse(&path)?);
        }
        if !args.no_probe && !args.dry_run {
            check_reach(&path, &model, args.strict)?;
        }
        disks.push(Disk { path, model });
    }
    Ok((disks, unknown))
}

fn refuse_overlap(path: &Path, disks: &[Disk]) -> Outcome {
    let overlaps = |disk: &&Disk| disk.path.starts_with(path) || path.starts_with(&disk.path);
    disks.iter().find(overlaps).map_or(Ok(()), |other| {
        let message = format!("--disk {} and {} overlap", other.path.display(), path.display());
        Err(Failure::message(Exit::Usage, message).hint("name directories of which none lies inside another"))
    })
}

/// A name with a slash is a path, as for every shell.
fn program(args: &Args) -> Result<PathBuf, Failure> {
    let name = args.command.first().map(PathBuf::from).unwrap_or_default();
    let shown = name.display();
    if name.components().count() == 1 && !name.to_string_lossy().contains('/') {
        return host::tool::find(&name.to_string_lossy())
            .ok_or_else(|| Failure::message(Exit::Missing, format!("there is no program {shown} in PATH")));
    }
    if rustix::fs::access(&name, rustix::fs::Access::EXEC_OK).is_ok() && name.is_file() {
        return Ok(std::path::absolute(&name).unwrap_or(name));
    }
    Err(Failure::message(Exit::Missing, format!("{shown} is no program that can be executed")))
}
