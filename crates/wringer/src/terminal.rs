// SPDX-License-Identifier: Apache-2.0
//! The terminal: data to stdout, talk and progress to stderr. The only module that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use crate::exit::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// How a command prints its data: `-o text` or `-o json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Text,
    Json,
}

/// Data, to stdout. A closed pipe is the reader's choice, not an error.
pub fn data(text: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Talk, to stderr.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub fn hint(text: impl Display) {
    say(format_args!("hint: {text}"));
}

/// The chain of causes, then the hints; returns the exit code.
pub fn report_failure(failure: &Failure) -> ExitCode {
    let mut causes = failure.error.chain().map(ToString::to_string);
    say(format_args!("error: {}", causes.next().unwrap_or_default()));
    for cause in causes {
        say(format_args!("  because: {cause}"));
    }
    failure.hints.iter().for_each(hint);
    failure.exit.into()
}

/// A bar with a known end. Hidden by itself when stderr is not a terminal.
pub fn bar(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg:<28} [{bar:32}] {percent:>3}%  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar.set_message(what.to_owned());
    bar
}

/// A spinner for work without a known end.
pub fn spinner(what: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    spinner.set_message(what.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}
