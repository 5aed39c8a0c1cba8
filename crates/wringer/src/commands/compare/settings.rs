// SPDX-License-Identifier: Apache-2.0
//! Settings of a matrix as the two sides of a comparison.

use crate::exit::{Exit, Failure};
use std::path::{Path, PathBuf};
use sweep::{Cell, CellState, Setting, State};

/// Conditions in which the keys of a matrix may appear; they may differ.
pub(super) const MAY_DIFFER: [&str; 5] = ["arm", "server", "mechanisms", "traits", "data"];

/// The recordings of two settings, from the blocks in which both were measured, in the order of the blocks.
///
/// # Errors
/// Exit code 2: the words name no setting, or several. 3: no matrix was run in the folder.
pub(super) fn recordings(folder: &Path, a: &[PathBuf], b: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    let state = sweep::read(folder).map_err(|error| Failure::new(Exit::Missing, error))?;
    let Some(state) = state else {
        return Err(Failure::message(Exit::Missing, format!("no matrix was run in {}", folder.display())));
    };
    let (a, b) = (setting(&state, a)?, setting(&state, b)?);
    let cells = |setting: &Setting| -> Vec<&Cell> {
        let is_done =
            |cell: &&Cell| cell.setting == setting.id && cell.state == CellState::Done && !cell.figures.is_empty();
        state.planned().filter(is_done).collect()
    };
    let (of_a, of_b) = (cells(a), cells(b));
    let both = |cells: &[&Cell], others: &[&Cell]| -> Vec<PathBuf> {
        let beside = |cell: &&&Cell| others.iter().any(|other| other.block == cell.block);
        let mut own: Vec<&&Cell> = cells.iter().filter(beside).collect();
        own.sort_by_key(|cell| cell.block);
        own.iter().filter_map(|cell| Some(folder.join(cell.recording.as_ref()?))).collect()
    };
    Ok((both(&of_a, &of_b), both(&of_b, &of_a)))
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
