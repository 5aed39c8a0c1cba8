// SPDX-License-Identifier: Apache-2.0
//! The state of a run that results from a list of records. This module uses no file, no clock and no host.

use crate::{Begun, OomVictim, Outcome, Record, Step, StepId};
use host::process::Identity;

/// The progress of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The change may have happened, in part or in whole.
    Intended,
    Done,
    /// An undo started and may have happened.
    Undoing,
    Undone(Outcome),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepState {
    pub id: StepId,
    pub change: Step,
    /// The process that the kernel should kill, for a step that hides RAM.
    pub oom_victim: OomVictim,
    pub phase: Phase,
    /// Whether the step was applied as a whole, as far as the records tell.
    pub completed: bool,
    /// The processes, in the order in which they were recorded.
    pub processes: Vec<Identity>,
    /// The value after the change, read back.
    pub observed: Option<String>,
}

impl StepState {
    /// Whether the change may have happened, and no undo of it has ended.
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Undone(_))
    }
}

/// The result of all records of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub begun: Option<Begun>,
    /// The steps, in the order of their intents.
    pub steps: Vec<StepState>,
    /// The run's command has ended in order and has left its server running.
    pub left: bool,
    pub ended: bool,
    /// Why the watchdog neutralised the run, if it did.
    pub neutralised: Option<String>,
}

impl State {
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut state = Self::default();
        records.into_iter().for_each(|record| state.apply(record));
        state
    }

    /// Adds a record to the state. A record about a step without an intent is ignored.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Begin(begun) => self.begun = self.begun.take().or_else(|| Some(begun.clone())),
            Record::Intent { step, change, oom_victim } => self.intend(*step, change, *oom_victim),
            Record::Pid { step, process } => self.with(*step, |state| state.processes.push(*process)),
            Record::Done { step, observed } => self.with(*step, |state| {
                state.completed = true;
                state.phase = Phase::Done;
                state.observed.clone_from(observed);
            }),
            Record::Undo { step } => self.with(*step, |state| state.phase = Phase::Undoing),
            Record::Undone { step, outcome } => self.with(*step, |state| state.phase = Phase::Undone(outcome.clone())),
            Record::Neutralised { reason } => self.neutralised = Some(reason.clone()),
            Record::Left => self.left = true,
            Record::End => self.ended = true,
        }
    }

    /// Steps that may have happened and are not undone, newest first: the order of their undo.
    pub fn open_steps(&self) -> Vec<StepState> {
        self.steps.iter().rev().filter(|step| step.is_open()).cloned().collect()
    }

    pub fn step(&self, id: StepId) -> Option<&StepState> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// The number of the next step.
    pub fn next_step(&self) -> StepId {
        StepId(self.steps.iter().map(|step| step.id.0).max().unwrap_or(0) + 1)
    }

    fn intend(&mut self, id: StepId, change: &Step, oom_victim: OomVictim) {
        if self.step(id).is_none() {
            self.steps.push(StepState {
                id,
                change: change.clone(),
                oom_victim,
                phase: Phase::Intended,
                completed: false,
                processes: Vec::new(),
                observed: None,
            });
        }
    }

    fn with(&mut self, id: StepId, update: impl FnOnce(&mut StepState)) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == id) {
            update(step);
        }
    }
}
