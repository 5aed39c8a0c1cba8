// SPDX-License-Identifier: Apache-2.0
//! Runs every test, and holds every skip to the allow-list.

use crate::faults::{cases_file, take_cases};
use crate::tally::{Skip, Tally};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ALLOWED: &str = "tests/skips-allowed.txt";

/// The cargo packages of one part of the suite.
const WORKSPACE: [&str; 5] = ["--workspace", "--exclude", "guest", "--features", "wringer/failpoints"];
const GUEST: [&str; 2] = ["--package", "guest"];

/// True when nothing failed and nothing was skipped that may not be.
pub(crate) fn everything(arguments: Vec<String>) -> Result<bool> {
    let liar = build_liar()?;
    run(&[&WORKSPACE, &GUEST], &arguments, Some(&liar))
}

/// The same for the test guest: it needs nothing of the host's but the servers in Wringer's cache.
pub(crate) fn guest_alone(arguments: Vec<String>) -> Result<bool> {
    let liar = build_liar()?;
    run(&[&GUEST], &arguments, Some(&liar))
}

fn run(parts: &[&[&str]], arguments: &[String], liar: Option<&Path>) -> Result<bool> {
    let skips_file = std::env::temp_dir().join(format!("wringer-skips-{}", std::process::id()));
    let _ = fs::remove_file(&skips_file);
    let mut tally = Tally { succeeded: true, ..Tally::default() };
    for part in parts {
        cargo_test(part, arguments, &skips_file, liar, &mut tally)?;
    }
    tally.skips = fs::read_to_string(&skips_file).unwrap_or_default().lines().filter_map(Skip::parse).collect();
    let _ = fs::remove_file(&skips_file);

    let allowed = fs::read_to_string(ALLOWED).with_context(|| format!("read {ALLOWED}"))?;
    let refused = report_skips(&tally.skips, &allowed);
    if refused > 0 {
        println!("{refused} skipped for a reason that {ALLOWED} does not allow: counted as failed");
    }
    println!("{} fault cases", take_cases(&cases_file()));
    println!("{}", tally.closing_line(refused));
    Ok(tally.succeeded && tally.failed == 0 && refused == 0 && tally.passed > 0)
}

/// The program with a slow layer whose sync does nothing, for the test that shows what the durability test is worth.
fn build_liar() -> Result<PathBuf> {
    let status = cargo().args(["build", "-p", "wringer", "--features", "failpoints,broken-sync"]).status();
    anyhow::ensure!(status.context("start cargo build")?.success(), "cargo build with broken-sync failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let liar = std::env::current_dir()?.join(target).join("debug/wringer-broken-sync");
    fs::copy(liar.with_file_name("wringer"), &liar).with_context(|| format!("copy to {}", liar.display()))?;
    Ok(liar)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Streams cargo's output through, and counts as it goes.
fn cargo_test(
    packages: &[&str],
    arguments: &[String],
    skips_file: &Path,
    liar: Option<&Path>,
    tally: &mut Tally,
) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]).args(packages).args(arguments).env("WRINGER_SKIPS", skips_file);
    command.env("WRINGER_CASES", cases_file());
    if let Some(liar) = liar {
        command.env("WRINGER_BROKEN_SYNC_PROGRAM", liar);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let output = child.stdout.take().context("take the output of cargo test")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("read the output of cargo test")?;
        tally.count(&line);
        println!("{line}");
    }
    tally.succeeded &= child.wait().context("wait for cargo test")?.success();
    Ok(())
}

/// Prints each skip once; returns how many the allow-list does not cover.
fn report_skips(skips: &BTreeSet<Skip>, allowed: &str) -> usize {
    let mut refused = 0;
    for skip in skips {
        let verdict = if skip.is_allowed(allowed) { "allowed" } else { "NOT ALLOWED" };
        refused += usize::from(verdict != "allowed");
        println!("SKIPPED {} ({verdict}): {}", skip.place, skip.why);
    }
    refused
}
