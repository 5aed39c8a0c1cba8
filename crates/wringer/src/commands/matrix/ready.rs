// SPDX-License-Identifier: Apache-2.0
//! Everything that the cells of a matrix need, looked for before the first one runs.

use super::contents::Contents;
use crate::commands::experiment_file::{
    Require, assertions, disks, own_data, programs, read_text, refused, replays, workloads,
};
use crate::commands::{command_line, disk, plan};
use crate::exit::{Exit, Failure};
use ::matrix::{Matrix, Setting};
use experiment::{Experiment, HostFacts, LeftOut, Plan, Problem};
use host::places::Places;
use lab::{Cell, Found, KeptFills, refuse_limits, refuse_ram};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use sweep::{Budget, Planned};

/// A matrix on this host, with nothing changed yet.
pub(super) struct Ready {
    pub(super) matrix: Matrix,
    /// One cell for each setting, in the order of the settings.
    pub(super) cells: Vec<Cell>,
    pub(super) plans: Vec<Plan>,
    pub(super) plan: sweep::Plan,
    /// Files that the settings' ids do not count, each as one sentence.
    pub(super) unseen: BTreeSet<String>,
    /// The files that the settings' ids count: their names, and checksums of their contents.
    pub(super) files: BTreeSet<(String, String)>,
}

/// Reads the file as a matrix.
///
/// # Errors
/// Exit code 2: the file is wrong, or has no `[matrix]`.
pub(super) fn read(file: &Path) -> Result<Matrix, Failure> {
    of_text(file, &read_text(file)?)
}

/// # Errors
/// The same as for [`read`].
pub(super) fn of_text(file: &Path, text: &str) -> Result<Matrix, Failure> {
    let matrix = Matrix::parse(text).map_err(|problems| refused(file, text, &problems))?;
    Ok(matrix)
}

impl Ready {
    /// # Errors
    /// Exit code 2: a file that the experiment names is wrong. 3: something that a setting needs is missing, or something is in the way.
    pub(super) fn look(file: &Path, text: &str, require: &Require, kept_fills: KeptFills) -> Result<Self, Failure> {
        let mut matrix = of_text(file, text)?;
        require_of(require, &mut matrix)?;
        let places = Places::from_environment();
        let (mut cells, mut plans, mut settings) = (Vec::new(), Vec::new(), Vec::new());
        let mut asked = Asked { places: &places, facts: None, servers: BTreeMap::new(), options: BTreeMap::new() };
        let mut blocked: Vec<String> = Vec::new();
        let mut contents = Contents::new(&places);
        let mut counted = BTreeSet::new();
        for setting in &matrix.settings {
            let experiment = &setting.experiment;
            let workloads = workloads::read(file, experiment)?;
            assertions::check(file, text, experiment, &workloads)?;
            disks::check(file, text, experiment)?;
            let logs = replays::read(file, experiment)?;
            let facts = asked.facts(experiment).of_logs(replays::seconds(&logs));
            let mut plan = experiment::plan(experiment, &facts);
            asked.options(experiment, &mut plan);
            blocked.extend(plan.blockers.iter().map(|problem| format!("{}:{problem}", file.display())));
            refuse_left_out(&matrix.keys, experiment, &plan.left_out)?;
            refuse_ram(experiment)?;
            refuse_limits(experiment)?;
            let programs = programs::find(file, experiment)?;
            let filler = programs::filler(file, experiment)?;
            let origin = own_data::look(file, experiment)?;
            plan.disk_bytes = contents.disk_bytes(&plan, origin.as_ref())?;
            let disk = experiment::disk_mechanism(experiment, &facts);
            let found = Found { workloads, programs, filler, logs, origin, disk };
            let named = contents.of(file, experiment, &found)?;
            counted.extend(named.iter().cloned());
            let cell = Cell {
                left_out: plan.left_out.clone(),
                kept_fills,
                command: command_line(),
                text: setting.text.clone(),
                ..Cell::of(experiment, found, &mut disk::flags::read_bins)?
            };
            let id = id_of(setting, &cell, named);
            settings.push(Planned { id, values: setting.values.clone(), disk_bytes: plan.disk_bytes });
            cells.push(cell);
            plans.push(plan);
        }
        refuse_blocked(blocked)?;
        let unseen = contents.unseen;
        let plan = sweep::Plan {
            name: matrix.name.clone(),
            description: matrix.description.clone(),
            keys: matrix.keys.clone(),
            groups: matrix.groups.clone(),
            settings,
            blocks: matrix.blocks,
            seed: matrix.seed,
            budget: Budget {
                time_us: matrix.budget.time.map(units::Span::as_us),
                disk_bytes: matrix.budget.disk.map(|disk| disk.0),
            },
        };
        Ok(Self { matrix, cells, plans, plan, unseen, files: counted })
    }

    /// Files that changed since the settings got their ids, as one sentence. `None`: none did, or they cannot be read.
    pub(super) fn changed(&self, file: &Path) -> Option<String> {
        let places = Places::from_environment();
        let mut contents = Contents::new(&places);
        let (mut others, mut files) = (0, BTreeSet::new());
        for ((setting, cell), planned) in self.matrix.settings.iter().zip(&self.cells).zip(&self.plan.settings) {
            let named = contents.of(file, &setting.experiment, &programs_of(cell)).ok()?;
            files.extend(named.iter().cloned());
            others += usize::from(id_of(setting, cell, named) != planned.id);
        }
        (others > 0).then(|| told_of(&files_changed(&self.files, &files), others, self.cells.len()))
    }

    /// The squeezes that are left out of any setting, each once.
    pub(super) fn left_out(&self) -> Vec<&LeftOut> {
        let mut all: Vec<&LeftOut> = Vec::new();
        for one in self.plans.iter().flat_map(|plan| &plan.left_out) {
            if !all.iter().any(|other| other.what == one.what) {
                all.push(one);
            }
        }
        all
    }

    /// The doubts about any setting, each once.
    pub(super) fn doubts(&self) -> Vec<&Problem> {
        let mut all: Vec<&Problem> = self.plans.iter().flat_map(|plan| &plan.doubts).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// `named`: what [`Contents`] has counted for it.
pub(in crate::commands) fn id_of(setting: &Setting, cell: &Cell, named: Vec<(String, String)>) -> String {
    let files: Vec<(String, String)> = cell.files.iter().cloned().chain(named).collect();
    setting.id_with(&files)
}

/// The programs and the data of a cell, as they were found.
pub(in crate::commands) fn programs_of(cell: &Cell) -> Found {
    let of_phases = cell.phases.iter().filter_map(|phase| Some((phase.arm.clone(), phase.program.clone()?)));
    Found {
        programs: of_phases.collect(),
        filler: cell.filler.clone(),
        origin: cell.origin.clone(),
        ..Found::default()
    }
}

/// The names of files that are new, gone, or have another content.
fn files_changed(before: &BTreeSet<(String, String)>, after: &BTreeSet<(String, String)>) -> BTreeSet<String> {
    before.symmetric_difference(after).map(|(name, _)| name.clone()).collect()
}

fn told_of(files: &BTreeSet<String>, others: usize, settings: usize) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = files.iter().take(SHOWN).map(String::as_str).collect();
    let more = files.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "files of the experiment changed while the cells ran ({}{more}): the same command would run {others} of {settings} settings again. Let programs write to a \
         folder that is not below that of the experiment",
        shown.join(", ")
    )
}

/// Answers of the host and the server. Most settings ask the same questions; each is asked once.
struct Asked<'a> {
    places: &'a Places,
    facts: Option<HostFacts>,
    /// The program of each server, by the server that was asked for.
    servers: BTreeMap<String, Option<String>>,
    /// The answers of the server's program to options.
    options: BTreeMap<String, (Vec<Problem>, Vec<String>)>,
}

impl Asked<'_> {
    fn facts(&mut self, experiment: &Experiment) -> HostFacts {
        let facts = self.facts.get_or_insert_with(|| plan::host_facts(experiment, self.places)).clone();
        let server = format!("{} {:?}", experiment.server.flavour, experiment.server.version);
        let program = self.servers.entry(server).or_insert_with(|| plan::server_binary(experiment, self.places));
        HostFacts { server_binary: program.clone(), ..facts }
    }

    fn options(&mut self, experiment: &Experiment, plan: &mut Plan) {
        let arms: Vec<_> = experiment.arms.iter().map(|arm| (&arm.server_options, &arm.start)).collect();
        let key = format!("{} {:?} {arms:?}", experiment.server.flavour, experiment.server.version);
        if let Some((blockers, not_asked)) = self.options.get(&key) {
            plan.blockers.extend(blockers.iter().cloned());
            plan.not_asked.extend(not_asked.iter().cloned());
            return;
        }
        let before = (std::mem::take(&mut plan.blockers), std::mem::take(&mut plan.not_asked));
        plan::ask_options(experiment, self.places, plan);
        self.options.insert(key, (plan.blockers.clone(), plan.not_asked.clone()));
        plan.blockers.extend(before.0);
        plan.not_asked.extend(before.1);
    }
}

/// Applies `--require` to those settings that have the required squeeze.
fn require_of(require: &Require, matrix: &mut Matrix) -> Result<(), Failure> {
    let mut refused = None;
    let mut is_held = false;
    for Setting { experiment, .. } in &mut matrix.settings {
        match require.of(experiment) {
            Ok(()) => is_held = true,
            Err(failure) => refused = Some(failure),
        }
    }
    refused.filter(|_| !is_held).map_or(Ok(()), Err)
}

/// Refuses a matrix that varies a squeeze which this host cannot do: its settings would all run the same.
fn refuse_left_out(keys: &[String], experiment: &Experiment, left_out: &[LeftOut]) -> Result<(), Failure> {
    for LeftOut { what, why, .. } in left_out {
        let squeeze = what.split(':').next().unwrap_or(what);
        let is_it = |key: &&String| **key == squeeze || key.starts_with(&format!("{squeeze}."));
        let Some(key) = keys.iter().find(is_it) else { continue };
        let failure =
            Failure::message(Exit::Missing, format!("the matrix varies {key}, which would be left out here: {why}"));
        let pool = experiment.server.flavour.pool_variable();
        return Err(failure
            .hint(format!("vary the server's own cache instead: \"server.options.{pool}\" = [\"256M\", \"1G\"]"))
            .hint("or run it as root; nothing was changed"));
    }
    Ok(())
}

fn refuse_blocked(mut blocked: Vec<String>) -> Result<(), Failure> {
    blocked.sort();
    blocked.dedup();
    if blocked.is_empty() {
        return Ok(());
    }
    Err(Failure::message(Exit::Missing, format!("this host cannot run it as written\n  {}", blocked.join("\n  ")))
        .hint("nothing was changed; `wringer doctor` says what this host can do"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_changed_are_named_once() {
        let of = |all: &[(&str, &str)]| all.iter().map(|(name, sum)| ((*name).into(), (*sum).into())).collect();
        let before = of(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let changed = files_changed(&before, &of(&[("a", "1"), ("b", "2"), ("d", "1"), ("e", "1")]));
        assert_eq!(changed.iter().map(String::as_str).collect::<Vec<_>>(), ["b", "c", "d", "e"]);
        let told = told_of(&changed, 2, 4);
        assert!(told.contains("(b, c, d and 1 more): the same command would run 2 of 4 settings again"), "{told}");
        assert!(files_changed(&before, &before).is_empty());
    }
}
