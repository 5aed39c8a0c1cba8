// SPDX-License-Identifier: Apache-2.0
//! The interface of the code that runs one cell, and the news of a sweep.

use crate::error::Error;
use crate::state::{Cell, Remaining};
use evidence::Evidence;
use host::places::Places;
use lab::{Hooks, Outcome};
use recording::Recording;
use std::path::Path;

/// One attempt of one cell.
#[derive(Debug)]
pub struct Due<'a> {
    /// Its setting's place in the plan.
    pub setting: usize,
    pub cell: &'a Cell,
    /// From 1.
    pub attempt: u32,
    /// The folder for the attempt's recording: new and empty.
    pub folder: &'a Path,
}

/// Runs cells. A matrix has one implementation; code whose cells do not come from a matrix has its own.
pub trait Bench {
    /// Runs one cell: [`run_cell`] does it for a [`lab::Cell`]. `begun` is called with the run's id when the run has its locks and has changed nothing
    /// yet: so the id is on the disk whatever happens later. Where `begun` fails, the cell is not run.
    fn run(&mut self, due: &Due<'_>, begun: &mut dyn FnMut(&str) -> Result<(), Error>) -> Result<Outcome, Error>;

    /// What the cell has recorded. `None`: there is no recording.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn recorded(&mut self, due: &Due<'_>) -> Result<Option<Evidence>, recording::Error> {
        let path = due.folder.join(RECORDING);
        if !path.exists() {
            return Ok(None);
        }
        Recording::read_reduced(&path, explain::needs, explain::without_inventory).map(Some)
    }

    fn tell(&mut self, news: News<'_>);
}

/// The name of an attempt's recording in its folder.
pub(crate) const RECORDING: &str = "recording.sqlite";

/// News of a sweep, told at the moment.
#[derive(Debug)]
pub enum News<'a> {
    /// The changes that a killed cell had left are undone: each in words.
    Recovered(&'a [String]),
    /// The host is busy with these things; the sweep waits until it is quiet.
    Waiting(&'a [String]),
    /// An attempt begins; the host is still busy with `busy`, where that is not empty.
    Begins { cell: &'a Cell, attempt: u32, busy: &'a [String] },
    /// An attempt has ended. If the cell is pending, it runs once more.
    Ended { cell: &'a Cell, remaining: Option<Remaining> },
}

/// Runs a cell of the lab, with its recording in the attempt's folder.
///
/// # Errors
/// The errors of `begun`; another run is in the way, and would be in the way of the next cell, too. Failures of the cell itself are in the outcome.
pub fn run_cell(
    cell: &lab::Cell,
    places: &Places,
    hooks: Hooks<'_>,
    due: &Due<'_>,
    begun: &mut dyn FnMut(&str) -> Result<(), Error>,
) -> Result<Outcome, Error> {
    let walk = match lab::begin(cell, places, hooks) {
        Ok(walk) => walk,
        Err(lab::Error::Run(error)) if error.is_in_the_way() => return Err(error.into()),
        Err(error) => return Ok(Outcome::CannotStart(error)),
    };
    begun(walk.run())?;
    Ok(walk.walk(&due.folder.join(RECORDING)).outcome)
}
