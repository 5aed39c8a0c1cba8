// SPDX-License-Identifier: Apache-2.0
//! Undoes what an earlier run of the tests left on this host when all its processes were killed at once: a home below the temporary folder, with the
//! journal of a squeeze. Tests that compare the host would find such a change, and their `undo` would end with code 5.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The beginning of the names that `testkit::Lab` gives to its homes.
const PREFIX: &str = "wringer-test-";

/// Undoes the runs that are left, with `program`, and prints each home.
pub(crate) fn give_back(program: &Path) -> Result<()> {
    for home in left_in(&std::env::temp_dir())? {
        println!("An earlier run of the tests was cut off: undoing {}", home.display());
        let undo = Command::new(program).arg("undo").env("WRINGER_HOME", &home).status();
        let undone = undo.with_context(|| format!("start {}", program.display()))?.success();
        if undone {
            fs::remove_dir_all(&home).with_context(|| format!("remove {}", home.display()))?;
        }
    }
    Ok(())
}

/// The homes that have the journal of a run, but no process that belongs to them.
fn left_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let is_home = |home: &PathBuf| home.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
    let homes = entries.flatten().map(|entry| entry.path()).filter(is_home);
    Ok(homes.filter(|home| has_a_run(home) && !is_lived_in(home)).collect())
}

fn has_a_run(home: &Path) -> bool {
    let runs = fs::read_dir(home.join("journal")).into_iter().flatten().flatten();
    runs.into_iter().any(|run| run.file_name().as_bytes().starts_with(b"w-"))
}

/// A test that runs at the same time has processes with its home in their environment, or in their arguments.
fn is_lived_in(home: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| {
        ["environ", "cmdline"].iter().any(|file| {
            let text = fs::read(process.path().join(file)).unwrap_or_default();
            contains(&text, home.as_os_str())
        })
    })
}

fn contains(text: &[u8], word: &OsStr) -> bool {
    let word = word.as_bytes();
    text.windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    #[test]
    fn a_home_is_left_when_its_run_has_a_journal_and_nobody_lives_there() {
        let folder = tempfile::tempdir().unwrap();
        let home = |name: &str, run: &str| {
            let home = folder.path().join(name);
            fs::create_dir_all(home.join("journal").join(run)).unwrap();
            home
        };
        let left = home("wringer-test-a", "w-1");
        home("wringer-test-b", "locks");
        home("somebody-elses", "w-1");
        let lived_in = home("wringer-test-c", "w-1");
        let mut living = Command::new("sleep").arg("600").env("WRINGER_HOME", &lived_in).spawn().unwrap();
        // the kernel lets its parent go on before the new program has its environment
        let began = Instant::now();
        while !is_lived_in(&lived_in) && began.elapsed() < Duration::from_secs(30) {
            sleep(Duration::from_millis(1));
        }
        assert_eq!(left_in(folder.path()).unwrap(), [left]);
        living.kill().unwrap();
        living.wait().unwrap();
        let mut both = left_in(folder.path()).unwrap();
        both.sort();
        assert_eq!(both.len(), 2);
        assert_eq!(both[1], lived_in);
    }
}
