// SPDX-License-Identifier: Apache-2.0
//! What one runs after each change: format, clippy, and the tests that need no server, no mount and no guest. One after the other, until one fails.

use crate::programs;
use crate::test::{WORKSPACE, cargo, targets};
use anyhow::{Context, Result, ensure};
use std::time::Instant;

/// True when all of it succeeded.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "check takes no arguments");
    let quick = programs::quick()?;
    let test: Vec<&str> = [&WORKSPACE[..], &["--quiet", "--lib", "--bins"], &targets(&quick)].concat();
    let clippy =
        ["--workspace", "--all-targets", "--quiet", "--features", "wringer/failpoints", "--", "-D", "warnings"];
    let began = Instant::now();
    for (step, words) in [("fmt", &["--all", "--check"][..]), ("clippy", &clippy), ("test", &test)] {
        let step_began = Instant::now();
        let status = cargo().arg(step).args(words).status().with_context(|| format!("start cargo {step}"))?;
        println!(
            "cargo {step}: {}, {:.0} s",
            if status.success() { "ok" } else { "FAILED" },
            step_began.elapsed().as_secs_f64()
        );
        if !status.success() {
            return Ok(false);
        }
    }
    println!("checked in {:.0} s; `make test` runs the rest", began.elapsed().as_secs_f64());
    Ok(true)
}
