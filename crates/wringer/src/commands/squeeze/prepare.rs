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
use squeeze::directory::check_reach;
use squeeze::limits::{Change, LimitRequest, OptionNames};
use squeeze::{Kind, Plan, databases, preloaded};
use std::path::{Path, PathBuf};

/// The plan of a squeeze that this machine allows.
pub struct Prepared {
    /// In the order in which they are applied: disks, limits, RAM of the host.
    pub plans: Vec<Plan>,
    pub limits: LimitRequest,
    /// The facts that the user should know; the second is the reason if the disks' mechanism is not the usual one.
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

impl Prepared {
    pub fn of(args: &Args, places: &Places) -> Result<Self, Failure> {
        let asked = args.limits.asked();
        let hides = args.hide_ram.or(args.leave_ram).is_some();
        if asked.is_nothing() && args.disk.is_empty() && !hides {
            return Err(Failure::message(Exit::Usage, "nothing is to be squeezed")
                .hint("say one or more of --ram, --swap, --cpus, --cpuset, --disk, --hide-ram, --leave-ram"));
        }
        let limits = Plan::limits(&asked, OptionNames::COMMAND)?;
        let limits = if args.leave { limits.leaving()? } else { limits };
        let (mechanism, why) = match args.disk.is_empty() {
            true => (DiskMechanism::Fuse, None),
            false => mechanism(args.disk_mechanism.map(|it| it.0), places)?,
        };
        let disks = disks(args, places, mechanism)?;
        let program = program(args)?;
        if mechanism == DiskMechanism::Preload {
            preloaded::check_program(&program)?;
        }
        let host_ram = host_ram::plan(args, places)?;
        let mut notes = limits.notes()?;
        notes.extend(why);
        for plan in disks.iter().chain(&host_ram) {
            notes.extend(plan.notes()?);
        }
        let plans = disks.into_iter().chain([limits]).chain(host_ram).collect();
        Ok(Self { plans, limits: asked, notes, program, leave: args.leave })
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Those of the host come first.
    pub fn resources(&self) -> Vec<Resource> {
        let of = |kind: Kind| self.plans.iter().filter(move |plan| plan.kind() == kind).flat_map(Plan::resources);
        of(Kind::Ram).chain(of(Kind::Disk)).collect()
    }

    /// The slow directories, with their models.
    pub fn disks(&self) -> impl Iterator<Item = (&Path, &Model)> {
        self.plans.iter().filter_map(|plan| match plan {
            Plan::Layer(layer) => Some((layer.directory.as_path(), layer.model()?)),
            _ => None,
        })
    }

    pub fn show_dry_run(&self, output: Output) {
        let changes = self.changes();
        if output == Output::Json {
            let models: Vec<_> =
                self.disks().map(|(directory, model)| json!({ "directory": directory, "model": model })).collect();
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
        let command = Change {
            change: format!("{} is started, squeezed", self.program.display()),
            undo: match self.leave {
                true => "SIGTERM, 30 s, SIGKILL; what it has left running lives on".into(),
                false => "SIGTERM, 30 s, SIGKILL; and what it has left running: SIGTERM, 10 s, SIGKILL".into(),
            },
        };
        self.plans.iter().flat_map(Plan::changes).chain([command]).collect()
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

fn disks(args: &Args, places: &Places, mechanism: DiskMechanism) -> Result<Vec<Plan>, Failure> {
    if args.disk.is_empty() {
        return Ok(Vec::new());
    }
    let databases = databases::unknown(places)?;
    let (mut disks, mut paths): (Vec<Plan>, Vec<PathBuf>) = Default::default();
    for one in &args.disk {
        let model = flags::model(&one.asked)?;
        let plan = Plan::disk_of_command(&one.path, mechanism, model.clone(), &databases, places)?;
        let Plan::Layer(layer) = &plan else { continue };
        let path = layer.directory.clone();
        refuse_overlap(&path, &paths)?;
        if places.journal.starts_with(&path) {
            let message = format!("{}: Wringer's journals are below it", path.display());
            return Err(Failure::message(Exit::Missing, message).hint("set WRINGER_HOME to another disk"));
        }
        if !args.no_probe && !args.dry_run {
            check_reach(&path, &model, args.strict)?;
        }
        paths.push(path);
        disks.push(plan);
    }
    Ok(disks)
}

fn refuse_overlap(path: &Path, others: &[PathBuf]) -> Outcome {
    let overlaps = |other: &&PathBuf| other.starts_with(path) || path.starts_with(other);
    others.iter().find(overlaps).map_or(Ok(()), |other| {
        let message = format!("--disk {} and {} overlap", other.display(), path.display());
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
