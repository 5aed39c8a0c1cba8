// SPDX-License-Identifier: Apache-2.0
//! Settings of a matrix as the two sides of a comparison.

use crate::exit::{Exit, Failure};
use explain::sides::Wanted;
use std::path::{Path, PathBuf};
use sweep::{Cell, Pair, Setting, State, differing_keys};

/// The cells of two settings that are compared.
pub(super) struct Compared {
    /// The recordings of the blocks in which both settings were measured, in the order of the blocks.
    pub(super) a: Vec<PathBuf>,
    pub(super) b: Vec<PathBuf>,
    /// In what the two settings may differ, and why cells have no measurement.
    pub(super) wanted: Wanted,
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
    let pair = Pair::of(&state, [a, b], arm);
    let recordings = |cells: &[&Cell], setting: &Setting| recordings(folder, cells, &setting.label(&state.keys));
    Ok(Compared {
        a: recordings(&pair.a, a)?,
        b: recordings(&pair.b, b)?,
        wanted: pair.wanted(&differing_keys(&state, a, b)),
    })
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

    #[test]
    fn a_recording_that_is_gone_is_named() {
        let recording = Some("cells/x-1/1/recording.sqlite".into());
        let cell = Cell { block: 1, recording, ..Cell::default() };
        let failure = recordings(Path::new("/nowhere"), &[&cell], "k=1").unwrap_err();
        let text = format!("{failure:?}");
        assert!(text.contains("block 1 of k=1 is gone: /nowhere/cells/x-1/1/recording.sqlite"), "{text}");
        assert!(text.contains("wringer matrix status /nowhere"), "{text}");
    }
}
