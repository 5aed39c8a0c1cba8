// SPDX-License-Identifier: Apache-2.0
//! The programs of integration tests, and which of them may share the machine with the test guest.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// These ask for states, orders and contents, and have limits of half a minute and more where they wait: a machine at work does not
/// change what they find. All others measure, or take RAM away that the guest may lie in, or are over in a moment. They run one after the
/// other: some compare the whole host before and after.
const BESIDE_THE_GUEST: [&str; 44] = [
    "bad_input",
    "catalogue",
    "cell",
    "corpus",
    "damage",
    "dead_server",
    "durability",
    "explained",
    "faults",
    "faults_page",
    "fill",
    "fill_from",
    "full_cache",
    "habits",
    "limits",
    "load_pgbench",
    "model",
    "modes_statistics",
    "mounts",
    "mysql",
    "outputs",
    "own_backups",
    "own_data",
    "page",
    "parsers",
    "pgbouncer",
    "plan_asks",
    "published",
    "published_histograms",
    "ready_files",
    "recipes",
    "replicas",
    "report",
    "round_trip",
    "same_limits",
    "servers",
    "spec",
    "stored",
    "tarballs",
    "together",
    "undo",
    "which_server",
    "whose_journal",
    "wrappers",
];

/// These need no server, no mount and no guest, and take seconds: `check` runs them.
const QUICK: [&str; 22] = [
    "allocation",
    "corpus",
    "damage",
    "explained",
    "faults_page",
    "limits",
    "memory",
    "model",
    "modes_statistics",
    "outputs",
    "page",
    "parsers",
    "patience",
    "published",
    "published_histograms",
    "ready_files",
    "recipes",
    "round_trip",
    "spec",
    "stop",
    "stored",
    "together",
];

pub(crate) fn quick() -> Result<Vec<String>> {
    known(&QUICK, &programs_below(Path::new("crates"))?)?;
    Ok(QUICK.map(str::to_owned).to_vec())
}

/// A program that was renamed would no longer be run.
fn known(names: &[&str], programs: &BTreeSet<String>) -> Result<()> {
    let unknown = names.iter().find(|name| !programs.contains(**name));
    anyhow::ensure!(unknown.is_none(), "{unknown:?} is no program of a test: see xtask/src/programs.rs");
    Ok(())
}

/// All programs of the workspace but the guest's: those that run beside it, and those that run alone.
pub(crate) fn split() -> Result<(Vec<String>, Vec<String>)> {
    split_of(&programs_below(Path::new("crates"))?)
}

fn split_of(programs: &BTreeSet<String>) -> Result<(Vec<String>, Vec<String>)> {
    known(&BESIDE_THE_GUEST, programs)?;
    Ok(programs.iter().cloned().partition(|name| BESIDE_THE_GUEST.contains(&name.as_str())))
}

/// As cargo finds them: `CRATE/tests/NAME.rs` and `CRATE/tests/NAME/main.rs`.
fn programs_below(crates: &Path) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    let entries = fs::read_dir(crates).with_context(|| format!("list {}", crates.display()))?;
    for package in entries.flatten() {
        for entry in fs::read_dir(package.path().join("tests")).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").is_file() {
                programs.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_in_one_part() {
        let programs = programs_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")).unwrap();
        assert!(programs.contains("faults") && programs.contains("layer"), "{programs:?}");
        assert!(!programs.contains("standing"), "a folder that programs share is none: {programs:?}");
        known(&QUICK, &programs).unwrap();
        let (beside, alone) = split_of(&programs).unwrap();
        let both: BTreeSet<String> = beside.iter().chain(&alone).cloned().collect();
        assert_eq!((both.len(), both), (beside.len() + alone.len(), programs));
        assert_eq!(beside.len(), BESIDE_THE_GUEST.len());
    }
}
