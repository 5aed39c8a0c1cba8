// SPDX-License-Identifier: Apache-2.0
//! How long the remaining cells take, learnt from the cells that are done.
//!
//! A cell's time has two parts: the time of its data (a fill for the first cell, a clone for each later one), and the time of its work, which differs
//! between settings. So the time of the data is learnt from the clones, and the time of the work from done cells of the same setting; where a setting
//! has none, from all done cells.

use crate::state::{Attempt, AttemptEnd, Cell, CellState, Remaining, State};

/// `None`: nothing is done yet, or nothing is left.
pub(crate) fn of(state: &State) -> Option<Remaining> {
    let left: Vec<&Cell> =
        state.planned().filter(|cell| cell.state != CellState::Done && cell.state != CellState::Failed).collect();
    if left.is_empty() {
        return None;
    }
    let us = left.iter().map(|cell| one(state, cell)).sum::<Option<f64>>()?;
    #[allow(clippy::cast_possible_truncation)] // some hours
    let us = us.max(0.0) as u64;
    Some(Remaining { cells: left.len(), us })
}

/// How long one more cell takes. `None`: nobody knows yet.
pub(crate) fn one(state: &State, cell: &Cell) -> Option<f64> {
    let ended: Vec<(&Cell, &Attempt)> =
        state.planned().flat_map(|cell| cell.attempts.iter().map(move |it| (cell, it))).collect();
    let counted: Vec<(&Cell, &Attempt)> = ended.iter().copied().filter(|(_, attempt)| has_a_result(attempt)).collect();
    let own = counted.iter().filter(|(other, _)| other.setting == cell.setting).map(|(_, attempt)| work(attempt));
    let work = mean(own).or_else(|| mean(counted.iter().map(|(_, attempt)| work(attempt))))?;
    let data =
        |cloned: bool| mean(counted.iter().filter(|(_, it)| it.cloned == cloned).map(|(_, it)| it.data_us as f64));
    let data = data(true).or_else(|| data(false)).unwrap_or_default();
    let waited = mean(ended.iter().map(|(_, it)| it.waited_us as f64)).unwrap_or_default();
    Some((work + data + waited) * attempts(cell, &counted))
}

/// How many attempts with a result the cell is expected to need still: after its first one it runs once more, and no further time.
fn attempts(cell: &Cell, counted: &[(&Cell, &Attempt)]) -> f64 {
    if cell.finished() > 0 {
        return 1.0;
    }
    let cells = counted.iter().map(|(cell, _)| &cell.id).collect::<std::collections::BTreeSet<_>>().len();
    (counted.len() as f64 / cells.max(1) as f64).clamp(1.0, 2.0)
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
