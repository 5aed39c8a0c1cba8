// SPDX-License-Identifier: Apache-2.0
//! The loop of a sweep: cell after cell, with the state on the disk before and after each.

use crate::bench::{Bench, Due, News};
use crate::cell_figures::Seen;
use crate::error::Error;
use crate::killed;
use crate::merge::merged;
use crate::pair::hindering;
use crate::plan::Plan;
use crate::quiet;
use crate::recover::recover;
use crate::remaining;
use crate::state::{ALL_ARMS, Attempt, AttemptEnd, Cell, CellState, STATE_FILE, State};
use crate::store::{CELLS, Store, read_for, size};
use crate::together;
use evidence::ArmOutcome;
use explain::sides::conditions;
use host::clock::{rfc3339, unix_seconds};
use host::files;
use host::places::Places;
use lab::Outcome;
use recording::Recording;
use run::Measuring;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::{Bytes, Span};

/// Bytes that stay free on the disk of the servers' data, for what a server writes beside its tables.
const LEFT_FREE: u64 = 320 * Bytes::MIB;

/// A sweep that this process alone runs, on a host on which nobody else measures.
#[derive(Debug)]
pub struct Sweep<'a> {
    plan: &'a Plan,
    places: &'a Places,
    store: Store,
    state: State,
    _measuring: Measuring,
}

/// How the caller wants a sweep to run.
#[derive(Debug, Clone)]
pub struct Wish {
    /// How long the sweep waits for a busy host before each cell.
    pub longest_wait: Duration,
    /// Set by a caller that wants the sweep to end.
    pub stop: Arc<AtomicBool>,
}

/// Why a sweep ended without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Each cell has a result, or an attempt of this call has failed.
    Whole,
    /// A budget is used up; which one, in words.
    Budget(String),
    /// Somebody asked for the end.
    Interrupted,
}

/// How an attempt ended.
enum Came {
    Has,
    Failed(String),
    Interrupted,
}

impl<'a> Sweep<'a> {
    /// Takes the locks, reads the state of earlier calls, and brings it in line with the plan. Makes the folder, and writes nothing else.
    ///
    /// # Errors
    /// Another process measures, or runs the sweep in this folder; the folder's state cannot be read, or belongs to another sweep.
    pub fn open(folder: &Path, plan: &'a Plan, places: &'a Places) -> Result<Self, Error> {
        let store = Store::open(folder)?;
        let mut before = read_for(folder, &plan.name)?;
        if let Some(before) = &mut before {
            killed::charge(before, folder, places);
            add_conditions(before, folder);
        }
        let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let who = format!("the sweep in {}, process {}", shown.display(), std::process::id());
        let measuring = run::measuring(places, &who)?;
        Ok(Self { plan, places, store, state: merged(before, plan), _measuring: measuring })
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Runs the cells that are not done. The state has their results, also after an error.
    ///
    /// # Errors
    /// The host is not as it was; there is no room; the state cannot be written.
    pub fn run(&mut self, bench: &mut dyn Bench, wish: &Wish) -> Result<Ended, Error> {
        let ended = self.recovered(bench).and_then(|()| self.all(bench, wish));
        self.state.ended = Some(match &ended {
            Ok(Ended::Whole) => "every cell was run".to_owned(),
            Ok(Ended::Budget(which)) => which.clone(),
            Ok(Ended::Interrupted) => "somebody asked for the end".to_owned(),
            Err(error) => host::chain(error),
        });
        together::comparisons(&mut self.state, self.plan);
        let written = self.write();
        // of two errors, the first is returned
        ended.and_then(|ended| written.map(|()| ended))
    }

    fn recovered(&mut self, bench: &mut dyn Bench) -> Result<(), Error> {
        let told = recover(&self.state, self.places)?;
        if !told.is_empty() {
            bench.tell(News::Recovered(&told));
        }
        for attempt in self.state.cells.iter_mut().flat_map(|cell| &mut cell.attempts) {
            if attempt.end == Some(AttemptEnd::Interrupted)
                && let Some(run) = attempt.run.take()
            {
                attempt.why.push(format!("what run {run} had changed is undone"));
            }
        }
        self.write()
    }

    fn all(&mut self, bench: &mut dyn Bench, wish: &Wish) -> Result<Ended, Error> {
        let mut block = 0;
        for index in 0..self.state.cells.len() {
            if self.state.cells[index].dropped {
                continue;
            }
            if block != self.state.cells[index].block {
                block = self.state.cells[index].block;
                together::comparisons(&mut self.state, self.plan);
            }
            while self.state.cells[index].state == CellState::Pending {
                if wish.stop.load(Ordering::SeqCst) {
                    return Ok(Ended::Interrupted);
                }
                if let Some(used) = self.budget_used(index) {
                    return Ok(Ended::Budget(used));
                }
                self.require_room(index)?;
                if !self.attempt(index, bench, wish)? {
                    return Ok(Ended::Interrupted);
                }
            }
        }
        Ok(Ended::Whole)
    }

    /// One attempt of one cell. `false`: it was interrupted.
    fn attempt(&mut self, index: usize, bench: &mut dyn Bench, wish: &Wish) -> Result<bool, Error> {
        let waited =
            quiet::wait(self.places, wish.longest_wait, &wish.stop, &mut |busy| bench.tell(News::Waiting(busy)));
        self.state.spent_us += waited.us;
        if wish.stop.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let number = u32::try_from(self.state.cells[index].attempts.len()).unwrap_or(u32::MAX) + 1;
        let cell = &mut self.state.cells[index];
        let relative = format!("{CELLS}/{}/{number}", cell.id);
        let folder = self.store.folder.join(&relative);
        cell.state = CellState::Running;
        cell.attempts.push(Attempt {
            number,
            started: rfc3339(unix_seconds()),
            waited_us: waited.us,
            begun_busy: waited.busy.clone(),
            ..Attempt::default()
        });
        bench.tell(News::Begins { cell, attempt: number, busy: &waited.busy });
        let told = cell.clone();
        let Some(setting) = self.plan.settings.iter().position(|planned| planned.id == told.setting) else {
            return Ok(false); // cannot happen: a cell that is not dropped has its setting in the plan
        };
        let due = Due { setting, cell: &told, attempt: number, folder: &folder };
        let began = Instant::now();
        let (state, store) = (&mut self.state, &self.store);
        let outcome = match bench.run(&due, &mut |run| {
            if let Some(attempt) = state.cells[index].attempts.last_mut() {
                attempt.run = Some(run.to_owned());
            }
            store.write(state)?;
            Ok(files::private_dir(&folder, 0o755)?)
        }) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.not_run(index, host::chain(&error), micros(began));
                return Err(error);
            }
        };
        let elapsed_us = micros(began);
        let (seen, unread) = match bench.recorded(&due) {
            Ok(Some(evidence)) => (Some(Seen::of(&evidence)), None),
            Ok(None) => (None, None),
            Err(error) => (None, Some(format!("its recording cannot be read: {}", host::chain(&error)))),
        };
        let result = match (result_of(&outcome), unread) {
            (Came::Has, Some(why)) => Came::Failed(why),
            (result, _) => result,
        };
        let recording = seen.is_some().then(|| format!("{relative}/{}", crate::bench::RECORDING));
        let is_over = !matches!(result, Came::Interrupted);
        self.state.spent_us += elapsed_us;
        self.keep(index, &outcome, result, seen, (elapsed_us, recording));
        if let Outcome::NotRestored(error) = outcome {
            return Err(Error::NotRestored { source: Box::new(error) });
        }
        together::settings(&mut self.state);
        self.state.remaining = remaining::of(&self.state);
        self.store.write(&self.state)?;
        bench.tell(News::Ended { cell: &self.state.cells[index], remaining: self.state.remaining });
        Ok(is_over)
    }

    /// Ends an attempt that the sweep itself could not make: the cell is as it was before.
    fn not_run(&mut self, index: usize, why: String, elapsed_us: u64) {
        let cell = &mut self.state.cells[index];
        cell.state = CellState::Pending;
        if let Some(attempt) = cell.attempts.last_mut() {
            attempt.why.push(why);
            (attempt.end, attempt.elapsed_us, attempt.run) = (Some(AttemptEnd::Interrupted), elapsed_us, None);
        }
    }

    /// Keeps the attempt's result, and decides whether it is the cell's result.
    fn keep(
        &mut self,
        index: usize,
        outcome: &Outcome,
        result: Came,
        seen: Option<Seen>,
        (elapsed_us, recording): (u64, Option<String>),
    ) {
        let cell = &mut self.state.cells[index];
        let is_first = cell.finished() == 0;
        let mut seen = seen.unwrap_or_default();
        all_arms(outcome, &mut seen);
        let Some(attempt) = cell.attempts.last_mut() else { return };
        (attempt.elapsed_us, attempt.data_us, attempt.cloned) = (elapsed_us, seen.data_us, seen.cloned);
        attempt.recording.clone_from(&recording);
        attempt.figures.clone_from(&seen.figures);
        let (end, state) = match result {
            Came::Has if !seen.busy.is_empty() && is_first => (AttemptEnd::Disturbed, CellState::Pending),
            Came::Has => (AttemptEnd::Counts, CellState::Done),
            Came::Failed(why) => {
                attempt.why.push(why);
                (AttemptEnd::Failed, CellState::Failed)
            }
            Came::Interrupted => (AttemptEnd::Interrupted, CellState::Pending),
        };
        attempt.why.extend(seen.busy.iter().cloned());
        (attempt.end, cell.state) = (Some(end), state);
        let why = attempt.why.clone();
        match end {
            AttemptEnd::Interrupted => attempt.run = None, // the run has undone its changes itself
            AttemptEnd::Failed => cell.told = why,
            AttemptEnd::Disturbed => {}
            AttemptEnd::Counts => {
                cell.started = Some(attempt.started.clone());
                cell.node = Some(rustix::system::uname().nodename().to_string_lossy().into_owned());
                (cell.elapsed_us, cell.recording) = (Some(elapsed_us), recording);
                cell.disturbed = !seen.busy.is_empty();
                cell.unsteady = !seen.unsteady.is_empty();
                let begun_busy = attempt.begun_busy.iter().map(|busy| format!("when it began: {busy}"));
                cell.told = begun_busy.chain(seen.busy).chain(seen.unsteady).chain(reasons(outcome)).collect();
                (cell.outcomes, cell.figures, cell.conditions) = (seen.outcomes, seen.figures, seen.conditions);
                cell.failed_assertions = seen.failed_assertions;
            }
        }
    }

    /// Which budget the cell would use up, in words. `None`: there is enough left for it.
    fn budget_used(&self, index: usize) -> Option<String> {
        let cell = &self.state.cells[index];
        let done = format!("{} of {} cells are done", self.state.count(CellState::Done), self.state.planned().count());
        if let Some(time_us) = self.plan.budget.time_us {
            #[allow(clippy::cast_possible_truncation)] // some hours
            let next_us = remaining::one(&self.state, cell).unwrap_or_default().max(0.0) as u64;
            let [budget, spent, next] =
                [time_us, self.state.spent_us, next_us].map(|us| Span(Duration::from_micros(us)));
            if spent >= budget {
                return Some(format!("the budget of time is used up ({budget}): {spent} are spent; {done}"));
            }
            if self.state.spent_us.saturating_add(next_us) > time_us {
                return Some(format!(
                    "the budget of time ({budget}) is too short for the next cell: {spent} are spent, and it is expected to take {next}; {done}"
                ));
            }
        }
        if let Some(disk_bytes) = self.plan.budget.disk_bytes {
            let used = size(&self.store.folder).saturating_add(self.needed(index));
            if used > disk_bytes {
                let (used, budget) = (Bytes(used), Bytes(disk_bytes));
                return Some(format!(
                    "the budget of disk is used up ({budget}): with the next cell it would be {used}; {done}"
                ));
            }
        }
        None
    }

    fn needed(&self, index: usize) -> u64 {
        let of = &self.state.cells[index].setting;
        self.plan.settings.iter().find(|planned| planned.id == *of).map_or(0, |planned| planned.disk_bytes)
    }

    fn require_room(&self, index: usize) -> Result<(), Error> {
        let needed_bytes = self.needed(index).saturating_add(LEFT_FREE);
        let folder = self.places.sandboxes.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let Ok(free) = rustix::fs::statvfs(folder) else { return Ok(()) };
        let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(Error::NoRoom { needed_bytes, free_bytes, folder: folder.to_owned() })
    }

    fn write(&mut self) -> Result<(), Error> {
        together::settings(&mut self.state);
        self.state.remaining = remaining::of(&self.state);
        self.store.write(&self.state)
    }

    /// The path of `sweep.json`.
    pub fn path(&self) -> std::path::PathBuf {
        self.store.folder.join(STATE_FILE)
    }
}

/// Reads the conditions of cells that an earlier version ran, which did not keep them in the state. Where a recording cannot be read, they stay unknown.
fn add_conditions(state: &mut State, folder: &Path) {
    let without = |cell: &&mut Cell| cell.state == CellState::Done && cell.conditions.is_empty();
    for cell in state.cells.iter_mut().filter(without) {
        let Some(path) = cell.recording.as_ref().map(|path| folder.join(path)) else { continue };
        if let Ok(evidence) = Recording::read_reduced(&path, |_| false, explain::without_inventory) {
            cell.conditions = hindering(conditions(&evidence));
        }
    }
}

/// How an attempt ended, by its outcome. Where a server cannot start, ends by itself, or is killed for want of RAM, that is the setting's result. Where Wringer
/// itself could not do something, the attempt has failed.
fn result_of(outcome: &Outcome) -> Came {
    match outcome {
        Outcome::Done | Outcome::OutOfMemory(_) => Came::Has,
        Outcome::Missed(missed) => {
            let not_squeezed = missed.iter().filter(|it| it.outcome == ArmOutcome::Missed);
            let why: Vec<String> = not_squeezed.map(ToString::to_string).collect();
            if why.is_empty() { Came::Has } else { Came::Failed(why.join("; ")) }
        }
        Outcome::CannotStart(error) if error.is_no_start() => Came::Has,
        Outcome::BrokeOff(error) if error.is_servers_own_end() => Came::Has,
        Outcome::Interrupted(_) => Came::Interrupted,
        Outcome::CannotStart(error) | Outcome::BrokeOff(error) | Outcome::NotRestored(error) => {
            Came::Failed(host::chain(error))
        }
    }
}

/// The outcomes of the arms, where a walk ended before its arms, or where its end was the end of all of them.
fn all_arms(outcome: &Outcome, seen: &mut Seen) {
    let name = match outcome {
        Outcome::CannotStart(error) if error.is_no_start() => ArmOutcome::CannotStart.name(),
        Outcome::OutOfMemory(_) => ArmOutcome::OutOfMemory.name(),
        _ => return,
    };
    if seen.outcomes.is_empty() {
        seen.outcomes.insert(ALL_ARMS.into(), name.into());
    }
    let broke_off = seen.outcomes.values_mut().filter(|it| **it == ArmOutcome::BrokeOff.name());
    broke_off.for_each(|it| *it = name.to_owned());
}

/// Why arms were not measured completely.
fn reasons(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Missed(missed) => missed.iter().map(ToString::to_string).collect(),
        Outcome::CannotStart(error) | Outcome::OutOfMemory(error) | Outcome::BrokeOff(error) => {
            vec![host::chain(error)]
        }
        _ => Vec::new(),
    }
}

fn micros(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}
