// SPDX-License-Identifier: Apache-2.0
//! The cells of a comparison of mallocs: makes the cells from the settings of a matrix, and the results from the recordings.

use super::flags;
use crate::commands::experiment_file::{own_data, programs, workloads};
use crate::commands::matrix::Contents;
use crate::commands::{command_line, disk, plan};
use crate::exit::{Exit, Failure};
use crate::terminal;
use ::allocators::Cell as Seen;
use experiment::HostFacts;
use host::places::Places;
use lab::{Cell, Found, KeptFills, refuse_limits};
use matrix::Matrix;
use recording::Recording;
use std::path::Path;
use sweep::{CellState, State};

/// One cell for each setting, in the order of the settings, and the bytes of disk that it needs.
///
/// # Errors
/// Exit code 2 or 3: something that the file names is wrong, or this host does not have it. Nothing was started.
pub(super) fn of(
    file: &Path,
    matrix: &Matrix,
    places: &Places,
    contents: &mut Contents<'_>,
) -> Result<(Vec<Cell>, Vec<u64>), Failure> {
    let (mut cells, mut disk_bytes, mut known) = (Vec::new(), Vec::new(), None);
    for setting in &matrix.settings {
        let experiment = &setting.experiment;
        refuse_limits(experiment)?;
        let facts: &HostFacts = known.get_or_insert_with(|| plan::host_facts(experiment, places));
        let mut plan = experiment::plan(experiment, facts);
        plan::ask_options(experiment, places, &mut plan);
        if !plan.blockers.is_empty() {
            return Err(flags::refused(Exit::Missing, file, &plan.blockers, &setting.values));
        }
        let origin = own_data::look(file, experiment)?;
        disk_bytes.push(contents.disk_bytes(&plan, origin.as_ref())?);
        let found = Found {
            workloads: workloads::read(file, experiment)?,
            filler: programs::filler(file, experiment)?,
            origin,
            disk: experiment::disk_mechanism(experiment, facts),
            ..Found::default()
        };
        cells.push(Cell {
            left_out: plan.left_out.clone(),
            kept_fills: KeptFills::Use,
            command: command_line(),
            text: setting.text.clone(),
            ..Cell::of(experiment, found, &mut disk::flags::read_bins)?
        });
    }
    Ok((cells, disk_bytes))
}

/// The results that the finished cells have recorded. A recording that cannot be read is left out, with a note.
pub(super) fn seen(folder: &Path, state: &State) -> Vec<Seen> {
    let mut seen = Vec::new();
    for cell in state.planned().filter(|cell| cell.state == CellState::Done) {
        let Some(recording) = &cell.recording else { continue };
        let evidence = match Recording::read_for(&folder.join(recording), |_| false) {
            Ok(evidence) => evidence,
            // one recording that was removed does not make the others useless
            Err(error) => {
                terminal::say(format_args!("note: cell {} does not count: {}", cell.id, host::chain(&error)));
                continue;
            }
        };
        let value = |key: &str| cell.settings.get(key).map(|text| text.trim_matches('"').to_owned());
        let (malloc, thp, cpus) = (value("server.malloc"), value("server.thp"), value("squeeze.cpuset"));
        let seen_cell = ::allocators::cell(
            &evidence,
            malloc.as_deref().unwrap_or_default(),
            thp.as_deref(),
            cpus.as_deref(),
            cell.block,
        );
        let seen_cell = Seen { disturbed: cell.disturbed, ..seen_cell };
        seen.push(if evidence.arms.is_empty() { without_arms(seen_cell, cell) } else { seen_cell });
    }
    seen
}

/// A server that never became ready has no arm: what became of its cell stands in the sweep alone.
fn without_arms(seen: Seen, cell: &sweep::Cell) -> Seen {
    let state = cell.outcomes.values().next().cloned().unwrap_or(seen.state);
    let why = cell.told.iter().flat_map(|told| told.lines()).map(str::trim).collect::<Vec<_>>().join(" ");
    Seen { state, why: Some(why).filter(|why| !why.is_empty()), ..seen }
}
