// SPDX-License-Identifier: Apache-2.0
//! Two settings beside each other: which of their cells are compared, and why others hinder that.
//!
//! `wringer compare --sweep` and the verdicts of `sweep.json` both ask here. One reads the conditions from recordings, the other from the cells.

use crate::state::{ALL_ARMS, Cell, CellState, Setting, State};
use explain::sides::{Conditions, Wanted, is_within};
use std::iter;

/// Conditions in which the keys of a matrix may appear: they may differ between two settings.
const MAY_DIFFER: [&str; 6] = ["arm", "experiment", "server.variables", "mechanisms", "traits", "data"];
/// The keys that name a server: where they differ, another server is what was asked.
const NAME_A_SERVER: [&str; 2] = ["server.flavour", "server.version"];
/// Conditions that are the same in all cells of one setting: the server's build, and how the host was squeezed.
const ONE_EACH: [&str; 6] =
    ["server.flavour", "server.version", "server.source", "server.build", "mechanisms", "traits"];

/// The beginning of the keys of conditions that are the same in all cells.
const HOST: &str = "host";

/// The measured cells of two settings, block by block, and why others have no measurement.
#[derive(Debug, Clone, Default)]
pub struct Pair<'c> {
    /// The cells of the blocks in which both settings were measured, in the order of the blocks.
    pub a: Vec<&'c Cell>,
    pub b: Vec<&'c Cell>,
    /// Why cells of these settings have no measurement: to leave them out would compare only what survived.
    pub unmeasured: Vec<String>,
    /// No block has an end of both settings.
    pub(crate) is_to_be_run: bool,
}

impl<'c> Pair<'c> {
    /// `arm`: only this arm is compared.
    pub fn of(state: &'c State, [a, b]: [&Setting; 2], arm: Option<&str>) -> Self {
        let cells =
            |setting: &Setting| -> Vec<&Cell> { state.planned().filter(|cell| cell.setting == setting.id).collect() };
        let sides = [a, b].map(|setting| (setting.label(&state.keys), cells(setting)));
        let of = |is: &dyn Fn(&&Cell) -> bool| {
            sides.each_ref().map(|(_, cells)| cells.iter().copied().filter(is).collect::<Vec<&Cell>>())
        };
        let why = |cells: &[Vec<&Cell>; 2]| -> Vec<String> {
            sides.iter().zip(cells).flat_map(|((label, _), cells)| reasons(label, cells, arm)).collect()
        };
        let [a, b] = of(&has_ended);
        let ended = [in_blocks_of(&a, &b), in_blocks_of(&b, &a)];
        let is_to_be_run = ended[0].is_empty();
        let mut unmeasured = why(&ended);
        let [a, b] = ended.map(measured);
        let (a, b) = (in_blocks_of(&a, &b), in_blocks_of(&b, &a));
        // cells that are to be run leave nothing out, as long as there are others to compare
        if a.is_empty() {
            unmeasured.extend(why(&of(&|cell| !has_ended(cell))));
        }
        Self { a, b, unmeasured, is_to_be_run }
    }

    /// The conditions in which the two settings may differ. `differs`: the keys of the matrix in which they do.
    pub fn wanted(self, differs: &[String]) -> Wanted {
        let has_servers = differs.iter().any(|key| NAME_A_SERVER.contains(&key.as_str()));
        let also = MAY_DIFFER.into_iter().chain(has_servers.then_some("server"));
        Wanted {
            also: also.map(str::to_owned).collect(),
            one_each: ONE_EACH.map(str::to_owned).into(),
            paired: true,
            unmeasured: self.unmeasured,
            ..Wanted::default()
        }
    }
}

/// The keys of the matrix in which two settings differ.
pub fn differing_keys(state: &State, a: &Setting, b: &Setting) -> Vec<String> {
    state.keys.iter().filter(|key| a.settings.get(*key) != b.settings.get(*key)).cloned().collect()
}

/// Those conditions of a run that may hinder a comparison of settings: the others are always allowed to differ.
pub(crate) fn hindering(conditions: Conditions) -> Conditions {
    let hinders = |key: &str| iter::once(HOST).chain(ONE_EACH).any(|beginning| is_within(beginning, key));
    conditions.into_iter().filter(|(key, _)| hinders(key)).collect()
}

fn has_ended(cell: &&Cell) -> bool {
    matches!(cell.state, CellState::Done | CellState::Failed)
}

fn measured(cells: Vec<&Cell>) -> Vec<&Cell> {
    cells.into_iter().filter(|cell| cell.state == CellState::Done && !cell.figures.is_empty()).collect()
}

/// The cells whose blocks the others have, too, in the order of the blocks.
fn in_blocks_of<'c>(cells: &[&'c Cell], others: &[&Cell]) -> Vec<&'c Cell> {
    let has = |cell: &&&Cell| others.iter().any(|other| other.block == cell.block);
    let mut own: Vec<&Cell> = cells.iter().filter(has).copied().collect();
    own.sort_by_key(|cell| cell.block);
    own
}

/// Why cells of a setting have no measurement: one sentence for each reason.
fn reasons(label: &str, cells: &[&Cell], arm: Option<&str>) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (block, why) in cells.iter().filter_map(|cell| Some((cell.block.to_string(), unmeasured(cell, arm)?))) {
        match found.iter_mut().find(|(known, _)| *known == why) {
            Some((_, blocks)) => blocks.push(block),
            None => found.push((why, vec![block])),
        }
    }
    let said = |(why, blocks): (String, Vec<String>)| match blocks.as_slice() {
        [_, _, ..] if blocks.len() == cells.len() => {
            format!("{label} has no measurement in any of its {} cells: {why}", cells.len())
        }
        [block] => format!("block {block} of {label}: {why}"),
        blocks => format!("blocks {} of {label}: {why}", blocks.join(", ")),
    };
    found.into_iter().map(said).collect()
}

/// Why an arm that is compared has no measurement in this cell. `None`: it has one.
fn unmeasured(cell: &Cell, wanted: Option<&str>) -> Option<String> {
    match cell.state {
        CellState::Pending | CellState::Running => return Some("it is not run yet".to_owned()),
        CellState::Failed => return Some(format!("the cell failed: {}", cell.told.join("; "))),
        CellState::Done => {}
    }
    let is_wanted = |arm: &str| arm == ALL_ARMS || wanted.is_none_or(|wanted| wanted == arm);
    let mut outcomes = cell.outcomes.iter().filter(|(arm, _)| is_wanted(arm));
    if let Some((arm, outcome)) = outcomes.find(|(_, outcome)| *outcome != "measured") {
        let whose = if arm == ALL_ARMS { ALL_ARMS.to_owned() } else { format!("arm \"{arm}\"") };
        return Some(format!("{whose} ended with {outcome}"));
    }
    let has_begun = cell.figures.iter().any(|figure| wanted.is_none_or(|wanted| wanted == figure.arm));
    (!has_begun).then(|| "nothing was measured".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::FigureOf;

    fn cell(block: u32, outcome: &str) -> Cell {
        let outcomes = [(ALL_ARMS.to_owned(), outcome.to_owned())].into();
        Cell { block, outcomes, state: CellState::Done, ..Cell::default() }
    }

    fn ran(block: u32) -> Cell {
        let figure = verdict::Figure::new("p99", "us", 1.0);
        Cell { figures: vec![FigureOf { arm: "baseline".into(), figure }], ..cell(block, "measured") }
    }

    /// How many cells of two settings are compared, and why others are not.
    fn paired(a: &[Cell], b: &[Cell]) -> (usize, usize, Vec<String>) {
        let setting = |value: &str| Setting {
            id: value.into(),
            settings: [("k".to_owned(), value.to_owned())].into(),
            ..Setting::default()
        };
        let own = |cells: &[Cell], id: &str| -> Vec<Cell> {
            cells.iter().map(|cell| Cell { setting: id.into(), ..cell.clone() }).collect()
        };
        let cells = [own(a, "1"), own(b, "2")].concat();
        let state = State { keys: vec!["k".into()], cells, ..State::default() };
        let Pair { a, b, unmeasured, .. } = Pair::of(&state, [&setting("1"), &setting("2")], None);
        (a.len(), b.len(), unmeasured)
    }

    #[test]
    fn failed_cells_are_reasons_and_cells_to_be_run_only_where_nothing_else_is_there() {
        let failed = |block| Cell { state: CellState::Failed, told: vec!["disk full".into()], ..cell(block, "missed") };
        let pending = |block| Cell { block, ..Cell::default() };
        let both = [ran(1), ran(2)];
        let told = paired(&both, &[failed(1), failed(2)]);
        assert_eq!(
            told,
            (0, 0, vec!["k=2 has no measurement in any of its 2 cells: the cell failed: disk full".into()])
        );
        let told = paired(&[ran(1), failed(2)], &both);
        assert_eq!(told, (1, 1, vec!["block 2 of k=1: the cell failed: disk full".into()]));
        assert_eq!(paired(&both, &[ran(1), pending(2)]), (1, 1, vec![]));
        let told = paired(&both, &[pending(1), pending(2)]);
        assert_eq!(told, (0, 0, vec!["k=2 has no measurement in any of its 2 cells: it is not run yet".into()]));
    }

    #[test]
    fn cells_with_the_same_reason_are_told_in_one_sentence() {
        let [first, second, third] = [1, 2, 3].map(|block| cell(block, "cannot_start"));
        let told = |cells: &[&Cell]| reasons("threads=8", cells, None);
        let all = told(&[&first, &second]);
        assert_eq!(all, ["threads=8 has no measurement in any of its 2 cells: all arms ended with cannot_start"]);
        let one = "block 1 of threads=8: all arms ended with cannot_start";
        assert_eq!(told(&[&first]), [one]);
        let other = "block 4 of threads=8: all arms ended with out_of_memory";
        assert_eq!(told(&[&first, &cell(4, "out_of_memory")]), [one, other]);
        let some = "blocks 1, 3 of threads=8: all arms ended with cannot_start";
        assert_eq!(told(&[&first, &ran(2), &third]), [some]);
    }
}
