// SPDX-License-Identifier: Apache-2.0
//! Brings an earlier state in line with a plan that may have changed since: cells that are done stay done; cells that the plan no longer has are set
//! aside.

use crate::plan::Plan;
use crate::state::{AttemptEnd, Cell, CellState, SCHEMA, Setting, State};
use std::collections::BTreeMap;

/// The state from which a sweep goes on.
pub(crate) fn merged(before: Option<State>, plan: &Plan) -> State {
    let before = before.unwrap_or_default();
    let mut known: BTreeMap<String, Cell> = before.cells.into_iter().map(|cell| (cell.id.clone(), cell)).collect();
    let mut cells: Vec<Cell> = Vec::new();
    let ids: Vec<&str> = plan.settings.iter().map(|setting| setting.id.as_str()).collect();
    for (number, block) in (1..).zip(matrix::order(&ids, plan.blocks, plan.seed)) {
        for place in block {
            let setting = &plan.settings[place];
            let id = format!("{}-{number}", setting.id);
            let cell = known.remove(&id).unwrap_or_default();
            cells.push(Cell {
                id,
                setting: setting.id.clone(),
                settings: setting.values.clone(),
                block: number,
                dropped: false,
                ..interrupted(cell)
            });
        }
    }
    let begun = known.into_values().filter(|cell| !cell.attempts.is_empty());
    cells.extend(begun.map(|cell| Cell { dropped: true, ..interrupted(cell) }));
    let setting = |planned: &crate::plan::Planned| Setting {
        id: planned.id.clone(),
        settings: planned.values.clone(),
        ..Setting::default()
    };
    State {
        schema: SCHEMA,
        name: plan.name.clone(),
        description: plan.description.clone(),
        keys: plan.keys.clone(),
        blocks: plan.blocks,
        seed: plan.seed,
        budget: plan.budget,
        cells,
        settings: plan.settings.iter().map(setting).collect(),
        spent_us: before.spent_us,
        ..State::default()
    }
}

/// A cell that ran when everything was killed, or that failed, becomes pending: it is run again.
fn interrupted(mut cell: Cell) -> Cell {
    for attempt in cell.attempts.iter_mut().filter(|attempt| attempt.end.is_none()) {
        attempt.end = Some(AttemptEnd::Interrupted);
        attempt.why.push("all of Wringer was killed while it ran".into());
    }
    if cell.state != CellState::Done {
        cell.state = CellState::Pending;
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Planned;
    use crate::state::Attempt;

    fn plan(ids: &[&str], blocks: u32) -> Plan {
        let planned = |id: &&str| Planned { id: (*id).into(), values: BTreeMap::new(), disk_bytes: 0 };
        Plan { name: "p".into(), blocks, settings: ids.iter().map(planned).collect(), ..Plan::default() }
    }

    fn states(state: &State) -> BTreeMap<&str, (CellState, bool)> {
        state.cells.iter().map(|cell| (cell.id.as_str(), (cell.state, cell.dropped))).collect()
    }

    #[test]
    fn what_is_done_stays_and_what_ran_runs_again() {
        let mut state = merged(None, &plan(&["a", "b"], 2));
        assert_eq!(state.cells.len(), 4);
        assert_eq!(state.cells.iter().map(|cell| cell.block).collect::<Vec<_>>(), [1, 1, 2, 2]);
        let ended = Attempt { number: 1, end: Some(AttemptEnd::Counts), ..Attempt::default() };
        let running = Attempt { number: 1, ..Attempt::default() };
        for cell in &mut state.cells {
            match cell.id.as_str() {
                "a-1" => (cell.state, cell.attempts) = (CellState::Done, vec![ended.clone()]),
                "b-1" => (cell.state, cell.attempts) = (CellState::Running, vec![running.clone()]),
                "b-2" => (cell.state, cell.attempts) = (CellState::Failed, vec![ended.clone()]),
                _ => {}
            }
        }
        let again = merged(Some(state.clone()), &plan(&["a", "b"], 2));
        let pending = (CellState::Pending, false);
        let wanted = [("a-1", (CellState::Done, false)), ("a-2", pending), ("b-1", pending), ("b-2", pending)];
        assert_eq!(states(&again), BTreeMap::from(wanted));
        let killed = again.cells.iter().find(|cell| cell.id == "b-1").expect("there");
        assert_eq!(killed.attempts[0].end, Some(AttemptEnd::Interrupted));
    }

    #[test]
    fn a_plan_that_lost_a_setting_keeps_what_was_measured_of_it_and_finds_it_again() {
        let mut state = merged(None, &plan(&["a", "b"], 2));
        let done = Attempt { number: 1, end: Some(AttemptEnd::Counts), ..Attempt::default() };
        for cell in state.cells.iter_mut().filter(|cell| cell.id == "a-1") {
            (cell.state, cell.attempts) = (CellState::Done, vec![done.clone()]);
        }
        let without = merged(Some(state), &plan(&["b", "c"], 1));
        let pending = (CellState::Pending, false);
        let wanted = [("b-1", pending), ("c-1", pending), ("a-1", (CellState::Done, true))];
        assert_eq!(states(&without), BTreeMap::from(wanted));
        let with = merged(Some(without), &plan(&["a"], 1));
        assert_eq!(states(&with), BTreeMap::from([("a-1", (CellState::Done, false))]));
    }
}
