// SPDX-License-Identifier: Apache-2.0
//! How long the remaining cells take, learnt from the cells that are done.
//!
//! A cell's time has two parts: the time of its data (a fill for the first cell, a clone for each later one), and the time of its work, which differs
//! between settings. So the time of the data is learnt from the clones, and the time of the work from done cells of the same setting; where a setting
//! has none, from all done cells.

use crate::state::{Attempt, AttemptEnd, Cell, CellState, Remaining, State};
use std::collections::{BTreeMap, BTreeSet};

/// `None`: nothing is done yet, or nothing is left.
pub(crate) fn of(state: &State) -> Option<Remaining> {
    let left: Vec<&Cell> =
        state.planned().filter(|cell| cell.state != CellState::Done && cell.state != CellState::Failed).collect();
    if left.is_empty() {
        return None;
    }
    let learnt = Learnt::of(state);
    let us = left.iter().map(|cell| learnt.one(cell)).sum::<Option<f64>>()?;
    #[allow(clippy::cast_possible_truncation)] // some hours
    let us = us.max(0.0) as u64;
    Some(Remaining { cells: left.len(), us })
}

/// How long one more cell takes. `None`: nobody knows yet.
pub(crate) fn one(state: &State, cell: &Cell) -> Option<f64> {
    Learnt::of(state).one(cell)
}

/// What the ended attempts tell, in microseconds. It is computed once for all cells that are left: a sweep may have ten thousand.
struct Learnt<'a> {
    work_of_setting: BTreeMap<&'a str, f64>,
    /// `None`: no attempt has a result.
    work: Option<f64>,
    data: f64,
    waited: f64,
    /// With a result, for each cell that has one.
    attempts: f64,
}

impl<'a> Learnt<'a> {
    fn of(state: &'a State) -> Self {
        let ended = || state.planned().flat_map(|cell| cell.attempts.iter().map(move |it| (cell, it)));
        let counted: Vec<(&Cell, &Attempt)> = ended().filter(|(_, attempt)| has_a_result(attempt)).collect();
        let mut of_setting: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (cell, attempt) in &counted {
            of_setting.entry(&cell.setting).or_default().push(work(attempt));
        }
        let work_of_setting =
            of_setting.into_iter().filter_map(|(setting, works)| Some((setting, mean(works.into_iter())?)));
        let data =
            |cloned: bool| mean(counted.iter().filter(|(_, it)| it.cloned == cloned).map(|(_, it)| it.data_us as f64));
        let cells = counted.iter().map(|(cell, _)| &cell.id).collect::<BTreeSet<_>>().len();
        Self {
            work_of_setting: work_of_setting.collect(),
            work: mean(counted.iter().map(|(_, attempt)| work(attempt))),
            data: data(true).or_else(|| data(false)).unwrap_or_default(),
            waited: mean(ended().map(|(_, it)| it.waited_us as f64)).unwrap_or_default(),
            attempts: (counted.len() as f64 / cells.max(1) as f64).clamp(1.0, 2.0),
        }
    }

    fn one(&self, cell: &Cell) -> Option<f64> {
        let work = self.work_of_setting.get(cell.setting.as_str()).copied().or(self.work)?;
        // after its first attempt with a result a cell runs once more, and no further time
        let attempts = if cell.finished() > 0 { 1.0 } else { self.attempts };
        Some((work + self.data + self.waited) * attempts)
    }
}

fn has_a_result(attempt: &Attempt) -> bool {
    matches!(attempt.end, Some(AttemptEnd::Counts | AttemptEnd::Disturbed))
}

fn work(attempt: &Attempt) -> f64 {
    attempt.elapsed_us.saturating_sub(attempt.data_us) as f64
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0usize, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(setting: &str, block: u32, elapsed_s: u64, data_s: u64, cloned: bool) -> Cell {
        let attempts = match elapsed_s {
            0 => Vec::new(),
            _ => vec![Attempt {
                elapsed_us: elapsed_s * 1_000_000,
                data_us: data_s * 1_000_000,
                cloned,
                waited_us: 1_000_000,
                end: Some(AttemptEnd::Counts),
                ..Attempt::default()
            }],
        };
        let state = if elapsed_s == 0 { CellState::Pending } else { CellState::Done };
        Cell { id: format!("{setting}-{block}"), setting: setting.into(), block, state, attempts, ..Cell::default() }
    }

    #[test]
    fn the_first_fill_is_not_taken_for_what_each_cell_needs() {
        let cells = vec![
            cell("a", 1, 70, 60, false),
            cell("b", 1, 22, 2, true),
            cell("a", 2, 0, 0, false),
            cell("b", 2, 0, 0, false),
        ];
        let state = State { cells, ..State::default() };
        // 10 s and 20 s of work, a clone of 2 s each, a second of waiting each
        assert_eq!(of(&state), Some(Remaining { cells: 2, us: 36_000_000 }));
        assert_eq!(of(&State { cells: vec![cell("a", 1, 0, 0, false)], ..State::default() }), None);
        assert_eq!(of(&State { cells: vec![cell("a", 1, 9, 0, false)], ..State::default() }), None);
    }

    #[test]
    fn a_cell_whose_first_attempt_was_disturbed_needs_one_more_and_kills_make_none_longer() {
        let attempt = |end| Attempt { elapsed_us: 10_000_000, end: Some(end), ..Attempt::default() };
        let killed = Attempt { elapsed_us: 3_000_000, ..attempt(AttemptEnd::Interrupted) };
        let again = Cell {
            attempts: vec![killed.clone(), killed.clone(), killed, attempt(AttemptEnd::Disturbed)],
            ..cell("a", 1, 0, 0, false)
        };
        let mut state = State { cells: vec![again], ..State::default() };
        assert_eq!(of(&state), Some(Remaining { cells: 1, us: 10_000_000 }));
        state.cells.push(cell("a", 2, 0, 0, false));
        assert_eq!(of(&state), Some(Remaining { cells: 2, us: 20_000_000 }), "a cell had one attempt with a result");
        state.cells[0].attempts.push(attempt(AttemptEnd::Counts));
        state.cells[0].state = CellState::Done;
        assert_eq!(of(&state), Some(Remaining { cells: 1, us: 20_000_000 }), "it had two, so the next may have two");
    }
}
