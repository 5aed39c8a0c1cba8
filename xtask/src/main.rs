// SPDX-License-Identifier: Apache-2.0
//! The project's tools for development, in Rust, so that they run wherever the project builds.
//!
//! `cargo run -p xtask -- test [CARGO TEST ARGUMENTS]` runs the whole suite and closes with the programs that took longest and with `N passed,
//! N failed, N skipped`: the test guest beside the programs that measure nothing, then the others (with arguments, one part after the
//! other); `test-guest` runs the guest alone; `faults [--full]` runs the fault campaign alone, and prints the number of its cases; `check`
//! runs format, clippy and the quick tests.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod check;
#[cfg(test)]
mod circles;
mod failures;
mod faults;
mod leftovers;
#[cfg(test)]
mod lengths;
mod outcome;
mod programs;
#[cfg(test)]
mod stations;
mod stopwatch;
mod tally;
mod test;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match arguments.next().as_deref() {
        Some("test") => test::everything(&arguments.collect::<Vec<_>>()),
        Some("test-guest") => test::guest_alone(&arguments.collect::<Vec<_>>()),
        Some("check") => check::main(&arguments.collect::<Vec<_>>()),
        Some("faults") => faults::main(&arguments.collect::<Vec<_>>()),
        _ => Err(anyhow::anyhow!(
            "usage: cargo run -p xtask -- check | test|test-guest [CARGO TEST ARGUMENTS] | faults [--full]"
        )),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
