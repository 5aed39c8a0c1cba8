// SPDX-License-Identifier: Apache-2.0
//! The checks after each change: format, clippy, and the tests that need no server, no mount and no guest. They run one after the other, until one
//! fails.

use crate::outcome::Outcome;
use crate::programs;
use crate::test::{WORKSPACE, cargo, targets};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead as _, BufReader, pipe};
use std::time::Instant;

/// True when all checks succeeded.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "check takes no arguments");
    let clippy =
        ["--workspace", "--all-targets", "--quiet", "--features", "wringer/failpoints", "--", "-D", "warnings"];
    let began = Instant::now();
    let succeeded = step("fmt", || words_of("fmt", &["--all", "--check"]))?
        && step("clippy", || words_of("clippy", &clippy))?
        && step("test", tests)?;
    if succeeded {
        println!("checked in {:.0} s; `make test` runs the rest", began.elapsed().as_secs_f64());
    }
    Ok(succeeded)
}

/// Runs one check; then prints how it ended, and how long it took.
fn step(name: &str, run: impl FnOnce() -> Result<(bool, String)>) -> Result<bool> {
    let began = Instant::now();
    let (succeeded, detail) = run().with_context(|| format!("start cargo {name}"))?;
    let verdict = if succeeded { "ok" } else { "FAILED" };
    println!("cargo {name}: {verdict}{detail}, {:.0} s", began.elapsed().as_secs_f64());
    Ok(succeeded)
}

fn words_of(command: &str, words: &[&str]) -> Result<(bool, String)> {
    Ok((cargo().arg(command).args(words).status()?.success(), String::new()))
}

/// Prints the output of the programs that failed, and the names of their failed tests; of the other programs, only the number of tests that passed is
/// printed.
fn tests() -> Result<(bool, String)> {
    let quick = programs::quick()?;
    let (reader, writer) = pipe()?;
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]).args(WORKSPACE).args(["--lib", "--bins"]).args(targets(&quick));
    let mut child = command.args(["--", "--quiet"]).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // the command holds the writing end of the pipe, and the reader would wait until it is closed
    drop(command);
    let lines = BufReader::new(reader).split(b'\n').map_while(Result::ok);
    let outcome = Outcome::of(lines.map(|line| String::from_utf8_lossy(&line).into_owned()));
    let succeeded = child.wait()?.success();
    if !succeeded {
        print!("{outcome}");
    }
    let failed = if succeeded { String::new() } else { format!(", {} failed", outcome.failed.len()) };
    Ok((succeeded, format!(", {} tests passed{failed}", outcome.passed)))
}
