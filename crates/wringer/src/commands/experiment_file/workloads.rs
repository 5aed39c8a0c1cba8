// SPDX-License-Identifier: Apache-2.0
//! The files that the arms of an experiment name as their workloads.

use crate::commands::load::wanted;
use crate::exit::Failure;
use experiment::{Arm, Experiment, Load};
use lab::Workloads;
use std::path::Path;

/// A number of rows that no table has, so that a range up to the table's end is not empty here, whatever the later size of the table.
pub const MANY_ROWS: u64 = 1 << 40;

/// Reads each file once, relative to the folder of the experiment's file, and checks whether the arms can send it to their server.
///
/// # Errors
/// Exit code 2, before anything is fetched or made.
pub fn read(file: &Path, experiment: &Experiment) -> Result<Workloads, Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut found = Workloads::new();
    let loads = |arm: &'_ Arm| -> Vec<Load> {
        let own = Some(&arm.load).filter(|load| load.is_of_ours());
        own.into_iter().chain(arm.load.loads_beside.iter().map(|beside| &beside.load)).cloned().collect()
    };
    for load in experiment.arms.iter().flat_map(loads).filter(|load| Load::is_file(&load.workload)) {
        let name = &load.workload;
        if !found.contains_key(name) {
            found.insert(name.clone(), wanted::read(&folder.join(name))?);
        }
        let written = &found[name];
        written.check_arrivals(load.arrivals)?;
        written.build(experiment.server.flavour.protocol(), MANY_ROWS)?;
    }
    Ok(found)
}
