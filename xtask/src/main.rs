// SPDX-License-Identifier: Apache-2.0
//! The project's chores, in Rust, so that they run wherever the project builds.
//!
//! `cargo run -p xtask -- test [CARGO TEST ARGUMENTS]` runs the whole suite, the test guest last, and closes with `N passed, N
//! failed, N skipped`; `test-guest` runs the guest alone.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod tally;
mod test;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match arguments.next().as_deref() {
        Some("test") => test::everything(arguments.collect()),
        Some("test-guest") => test::guest_alone(arguments.collect()),
        _ => Err(anyhow::anyhow!("usage: cargo run -p xtask -- test|test-guest [CARGO TEST ARGUMENTS]")),
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
