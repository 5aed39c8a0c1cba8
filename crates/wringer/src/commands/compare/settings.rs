// SPDX-License-Identifier: Apache-2.0
//! Settings of a matrix as the two sides of a comparison.

use crate::exit::{Exit, Failure};
use std::path::{Path, PathBuf};
use sweep::{ALL_ARMS, Cell, CellState, Setting, State};

/// Conditions in which the keys of a matrix may appear; they may differ.
pub(super) const MAY_DIFFER: [&str; 5] = ["arm", "server", "mechanisms", "traits", "data"];

/// The cells of two settings that are compared.
pub(super) struct Compared {
    /// The recordings of the blocks in which both settings were done, in the order of the blocks.
    pub(super) a: Vec<PathBuf>,
    pub(super) b: Vec<PathBuf>,
    /// One sentence for each cell of these blocks that has no measurement of an arm: to leave it out would compare only what survived.
    pub(super) unmeasured: Vec<String>,
}

/// The recordings of two settings. `arm`: only this arm is compared.
///
/// # Errors
/// Exit code 2: the words name no setting, or several. 3: no matrix was run in the folder.
pub(super) fn compared(folder: &Path, [a, b]: [&[PathBuf]; 2], arm: Option<&str>) -> Result<Compared, Failure> {
    let state = sweep::read(folder).map_err(|error| Failure::new(Exit::Missing, error))?;
    let Some(state) = state else {
        return Err(Failure::message(Exit::Missing, format!("no matrix was run in {}", folder.display())));
    };
    let (a, b) = (setting(&state, a)?, setting(&state, b)?);
    let cells =
        |setting: &Setting| -> Vec<&Cell> { state.planned().filter(|cell| cell.setting == setting.id).collect() };
    let sides = [(a.label(&state.keys), cells(a)), (b.label(&state.keys), cells(b))];
    let Paired { a, b, unmeasured } = paired(&sides, arm);
    Ok(Compared { a: recordings(folder, &a, &sides[0].0)?, b: recordings(folder, &b, &sides[1].0)?, unmeasured })
}

/// The measured cells of two settings, block by block, and why others have no measurement.
struct Paired<'c> {
    a: Vec<&'c Cell>,
    b: Vec<&'c Cell>,
    unmeasured: Vec<String>,
}

/// `sides`: a setting's name, and all its cells.
fn paired<'c>(sides: &[(String, Vec<&'c Cell>); 2], arm: Option<&str>) -> Paired<'c> {
    let has_ended = |cell: &&Cell| matches!(cell.state, CellState::Done | CellState::Failed);
    let of = |is: &dyn Fn(&&Cell) -> bool| {
        sides.each_ref().map(|(_, cells)| cells.iter().copied().filter(is).collect::<Vec<&Cell>>())
    };
    let [a, b] = of(&has_ended);
    let ended = [in_blocks_of(&a, &b), in_blocks_of(&b, &a)];
    let why = |cells: &[Vec<&Cell>; 2]| -> Vec<String> {
        sides.iter().zip(cells).flat_map(|((label, _), cells)| reasons(label, cells, arm)).collect()
    };
    let mut unmeasured = why(&ended);
    let [a, b] = ended.map(measured);
    let (a, b) = (in_blocks_of(&a, &b), in_blocks_of(&b, &a));
    // cells that are to be run leave nothing out, as long as there are others to compare
    if a.is_empty() {
        unmeasured.extend(why(&of(&|cell| !has_ended(cell))));
    }
    Paired { a, b, unmeasured }
}

/// # Errors
/// Exit code 3: a recording is gone.
fn recordings(folder: &Path, cells: &[&Cell], label: &str) -> Result<Vec<PathBuf>, Failure> {
    let of = |cell: &&Cell| -> Option<(u32, PathBuf)> { Some((cell.block, folder.join(cell.recording.as_ref()?))) };
    let found: Vec<(u32, PathBuf)> = cells.iter().filter_map(of).collect();
    if let Some((block, gone)) = found.iter().find(|(_, path)| !path.exists()) {
        let message = format!("the recording of block {block} of {label} is gone: {}", gone.display());
        let hint = format!("`wringer matrix status {}` has the figures that are kept without it", folder.display());
        return Err(Failure::message(Exit::Missing, message).hint(hint));
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
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

/// Why cells of a setting have no measurement: one sentence for each, and one for all where all have the same reason.
fn reasons(label: &str, cells: &[&Cell], arm: Option<&str>) -> Vec<String> {
    let found: Vec<(u32, String)> =
        cells.iter().filter_map(|cell| Some((cell.block, unmeasured(cell, arm)?))).collect();
    match found.as_slice() {
        [(_, first), _, ..] if found.len() == cells.len() && found.iter().all(|(_, why)| why == first) => {
            vec![format!("{label} has no measurement in any of its {} cells: {first}", cells.len())]
        }
        found => found.iter().map(|(block, why)| format!("block {block} of {label}: {why}")).collect(),
    }
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

/// The one setting that has all of these values.
fn setting<'s>(state: &'s State, words: &[PathBuf]) -> Result<&'s Setting, Failure> {
    let words: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
    for word in &words {
        let Some((key, _)) = word.split_once('=') else {
            let message = format!("\"{word}\" names no setting: with --sweep it is KEY=VALUE");
            return Err(Failure::message(Exit::Usage, message).hint(keys(state)));
        };
        if !state.keys.iter().any(|known| is_key(known, key)) {
            return Err(Failure::message(Exit::Usage, format!("the matrix does not vary {key}")).hint(keys(state)));
        }
    }
    let has = |setting: &Setting, word: &String| {
        let (key, value) = word.split_once('=').unwrap_or_default();
        setting.settings.iter().any(|(known, own)| is_key(known, key) && own == value)
    };
    let found: Vec<&Setting> =
        state.settings.iter().filter(|setting| words.iter().all(|word| has(setting, word))).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::message(Exit::Usage, format!("no setting has {}", words.join(" ")))
            .hint("`wringer matrix status FOLDER` lists the settings")),
        several => {
            let all: Vec<String> = several.iter().map(|setting| setting.label(&state.keys)).collect();
            let message = format!("{} settings have {}: {}", several.len(), words.join(" "), all.join("; "));
            Err(Failure::message(Exit::Usage, message).hint("name more of its values: --a threads=8 server_ram=1G"))
        }
    }
}

/// Whether the word is the key's whole path, or its last part.
fn is_key(known: &str, asked: &str) -> bool {
    known == asked || known.strip_suffix(asked).is_some_and(|before| before.ends_with('.'))
}

fn keys(state: &State) -> String {
    format!("it varies {}", state.keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(block: u32, outcome: &str) -> Cell {
        let outcomes = [(ALL_ARMS.to_owned(), outcome.to_owned())].into();
        Cell { block, outcomes, state: CellState::Done, ..Cell::default() }
    }

    fn ran(block: u32) -> Cell {
        let figure = verdict::Figure { name: "p99".into(), unit: "us".into(), value: 1.0, resolution: 0.0 };
        Cell { figures: vec![sweep::FigureOf { arm: "baseline".into(), figure }], ..cell(block, "measured") }
    }

    #[test]
    fn failed_cells_are_reasons_and_cells_to_be_run_only_where_nothing_else_is_there() {
        let failed = |block| Cell { state: CellState::Failed, told: vec!["disk full".into()], ..cell(block, "missed") };
        let pending = |block| Cell { block, ..Cell::default() };
        let of = |a: &[Cell], b: &[Cell]| {
            let sides = [("k=1".to_owned(), a.iter().collect()), ("k=2".to_owned(), b.iter().collect())];
            let Paired { a, b, unmeasured } = paired(&sides, None);
            (a.len(), b.len(), unmeasured)
        };
        let both = [ran(1), ran(2)];
        let told = of(&both, &[failed(1), failed(2)]);
        assert_eq!(
            told,
            (0, 0, vec!["k=2 has no measurement in any of its 2 cells: the cell failed: disk full".into()])
        );
        let told = of(&[ran(1), failed(2)], &both);
        assert_eq!(told, (1, 1, vec!["block 2 of k=1: the cell failed: disk full".into()]));
        assert_eq!(of(&both, &[ran(1), pending(2)]), (1, 1, vec![]));
        let told = of(&both, &[pending(1), pending(2)]);
        assert_eq!(told, (0, 0, vec!["k=2 has no measurement in any of its 2 cells: it is not run yet".into()]));
    }

    #[test]
    fn a_recording_that_is_gone_is_named() {
        let cell = Cell { recording: Some("cells/x-1/1/recording.sqlite".into()), ..ran(1) };
        let failure = recordings(Path::new("/nowhere"), &[&cell], "k=1").unwrap_err();
        let text = format!("{failure:?}");
        assert!(text.contains("block 1 of k=1 is gone: /nowhere/cells/x-1/1/recording.sqlite"), "{text}");
        assert!(text.contains("wringer matrix status /nowhere"), "{text}");
    }

    #[test]
    fn a_setting_of_which_no_cell_was_measured_is_told_in_one_sentence() {
        let (first, second, other) = (cell(1, "cannot_start"), cell(2, "cannot_start"), cell(2, "out_of_memory"));
        let told = reasons("threads=8", &[&first, &second], None);
        assert_eq!(told, ["threads=8 has no measurement in any of its 2 cells: all arms ended with cannot_start"]);
        for cells in [vec![&first], vec![&first, &other]] {
            let told = reasons("threads=8", &cells, None);
            assert_eq!(told.len(), cells.len());
            assert_eq!(told[0], "block 1 of threads=8: all arms ended with cannot_start");
        }
    }
}
