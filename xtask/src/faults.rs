// SPDX-License-Identifier: Apache-2.0
//! Runs only the fault campaigns: their tests one after the other; then prints the number of cases that they have run.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The test programs that run a sample of their cases, or all cases with `--full`.
const CAMPAIGNS: [&str; 4] = ["faults", "lost", "ram_crashes", "unseen"];

/// The file to which each test of a campaign writes its number of cases.
pub(crate) fn cases_file() -> PathBuf {
    std::env::temp_dir().join(format!("wringer-cases-{}", std::process::id()))
}

/// The sum of the `TEST TAB CASES` lines in the file; the file is removed.
pub(crate) fn take_cases(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap_or_default();
    let _ = fs::remove_file(file);
    sum(&text)
}

fn sum(text: &str) -> usize {
    text.lines().filter_map(|line| line.rsplit('\t').next()?.parse::<usize>().ok()).sum()
}

/// True when every case ended with the host as it was.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let full = arguments.iter().any(|argument| argument == "--full");
    let (file, began) = (cases_file(), Instant::now());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["test", "-p", "wringer", "--features", "failpoints"])
        .args(CAMPAIGNS.map(|name| ["--test", name]).concat());
    command.args(["--", "--test-threads=1"]);
    command.env("WRINGER_CASES", &file).env("WRINGER_FAULTS", if full { "full" } else { "sample" });
    let passed = command.status().context("start cargo test")?.success();
    println!("{} fault cases in {} s", take_cases(&file), began.elapsed().as_secs());
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_add_up() {
        assert_eq!(sum("records::hiding_ram\t27\nbusy::x\t2\n"), 29);
        assert_eq!(sum(""), 0);
    }
}
