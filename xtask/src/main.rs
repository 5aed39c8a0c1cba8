// SPDX-License-Identifier: Apache-2.0
//! The project's chores, in Rust, so that they run wherever the project builds.
//!
//! `cargo run -p xtask -- test [CARGO TEST ARGUMENTS]` runs the whole suite, the test guest last, and closes with `N passed, N
//! failed, N skipped`; `test-guest` runs the guest alone; `faults [--full]` runs the fault campaign alone, and prints the number of
//! its cases.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod faults;
mod tally;
mod test;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match arguments.next().as_deref() {
        Some("test") => test::everything(arguments.collect()),
        Some("test-guest") => test::guest_alone(arguments.collect()),
        Some("faults") => faults::main(&arguments.collect::<Vec<_>>()),
        _ => Err(anyhow::anyhow!(
            "usage: cargo run -p xtask -- test|test-guest [CARGO TEST ARGUMENTS] | faults [--full]"
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
