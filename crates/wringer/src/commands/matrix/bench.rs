// SPDX-License-Identifier: Apache-2.0
//! Runs the cells of a matrix, and shows the progress.

use super::show::{Names, cell_line, time};
use crate::commands::run::write_files;
use crate::terminal;
use evidence::Evidence;
use host::places::Places;
use indicatif::ProgressBar;
use lab::{Bar, Cell, Hooks, Outcome, Progress};
use recording::Recording;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use sweep::{Bench, CellState, Due, Ended, Error, News, Plan, Sweep, Wish, run_cell};

/// Runs the cells that are not done, and shows the progress: what is to be done, a bar, and a line for each cell that has ended. `cells`: one for each
/// setting of the plan. `folder`: where the results go.
pub(in crate::commands) fn run_cells(
    sweep: &mut Sweep,
    (plan, cells): (&Plan, &[Cell]),
    (folder, places): (&Path, &Places),
    wish: &Wish,
) -> Result<Ended, Error> {
    let (total, done) = (sweep.state().planned().count(), sweep.state().count(CellState::Done));
    terminal::say(format_args!(
        "{}: {} settings x {} blocks = {total} cells, {} done; results in {}",
        plan.name,
        plan.settings.len(),
        plan.blocks,
        if done == 0 { "none".to_owned() } else { format!("{done} are") },
        folder.display()
    ));
    let bar = terminal::bar(total as u64, "cells");
    bar.set_position(done as u64);
    let names = Names::of(&plan.keys, plan.settings.iter().map(|setting| &setting.values));
    let mut runner = Runner { cells, places, stop: wish.stop.clone(), names, bar, total, done };
    let ended = sweep.run(&mut runner, wish);
    runner.bar.finish_and_clear();
    ended
}

struct Runner<'a> {
    cells: &'a [Cell],
    places: &'a Places,
    stop: Arc<AtomicBool>,
    names: Names<'a>,
    bar: ProgressBar,
    total: usize,
    done: usize,
}

impl Bench for Runner<'_> {
    fn run(&mut self, due: &Due<'_>, begun: &mut dyn FnMut(&str) -> Result<(), Error>) -> Result<Outcome, Error> {
        let progress = InBar(&self.bar);
        let hooks = Hooks { progress: &progress, samples: None, stop: self.stop.clone() };
        run_cell(&self.cells[due.setting], self.places, hooks, due, begun)
    }

    /// Reads the recording of a cell, if there is one; also writes the page and the result of this one run beside the recording.
    fn recorded(&mut self, due: &Due<'_>) -> Result<Option<Evidence>, recording::Error> {
        let path = due.folder.join(crate::commands::run::RECORDING);
        if !path.exists() {
            return Ok(None);
        }
        let evidence = Recording::read_reduced(&path, report::needs, explain::with_figures_alone)?;
        let explained = explain::explain(&evidence);
        if let Err(failure) = write_files(due.folder, 0o644, &report::Context::new(&evidence, &explained)) {
            self.say(format!("note: no report of cell {}: {:#}", due.cell.id, failure.error));
        }
        Ok(Some(evidence))
    }

    fn tell(&mut self, news: News<'_>) {
        match news {
            News::Recovered(told) => told.iter().for_each(|what| self.say(format!("  undone  {what}"))),
            News::Waiting(busy) => self.bar.set_message(format!("waiting for a quiet host: {}", busy.join(", "))),
            News::Begins { cell, attempt, busy } => {
                let name = self.names.name(cell);
                if attempt > 1 {
                    self.say(format!("   again  block {}  {name}  attempt {attempt}", cell.block));
                }
                self.bar.set_message(name);
                if !busy.is_empty() {
                    self.say(format!(
                        "    note  the host is not quiet, and the cell runs all the same: {}",
                        busy.join(", ")
                    ));
                }
            }
            News::Ended { cell, remaining } => {
                let is_over = matches!(cell.state, CellState::Done | CellState::Failed);
                self.done += usize::from(is_over);
                self.bar.set_position(self.done as u64);
                let left = remaining.map(|left| format!("; about {} left", time(left.us))).unwrap_or_default();
                let line = cell_line(cell, &self.names.name(cell));
                self.say(format!("{:>4} of {}  {line}{left}", self.done, self.total));
            }
        }
    }
}

impl Runner<'_> {
    fn say(&self, text: String) {
        self.bar.suspend(|| terminal::say(text));
    }
}

/// Shows the steps of a cell in the one progress bar of all cells.
struct InBar<'a>(&'a ProgressBar);

impl Progress for InBar<'_> {
    fn step(&self, station: &str, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        self.0.set_message(format!("{station}: {}", line.chars().take(60).collect::<String>()));
    }

    fn bar(&self, what: &str, _length: Option<u64>) -> Box<dyn Bar> {
        self.0.set_message(what.to_owned());
        Box::new(Of(self.0.clone()))
    }
}

struct Of(ProgressBar);

impl Bar for Of {
    fn set_message(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn set_length(&self, _length: u64) {}
    fn set_position(&self, _position: u64) {}
    fn advance(&self, _by: u64) {}
    fn restart(&self) {}
}
