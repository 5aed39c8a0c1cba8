// SPDX-License-Identifier: Apache-2.0
//! The terminal: data to stdout, talk and progress to stderr. The only module that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use crate::exit::{Exit, Failure, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

/// How a command prints its data: `-o text` or `-o json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Text,
    Json,
}

/// Why data could not be written: the first reason.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Data, to stdout. A closed pipe is the reader's choice, not an error; any other failure ends the program with an exit code, in [`end`].
pub fn data(text: impl Display) {
    note(writeln!(io::stdout().lock(), "{text}"));
}

fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error); // the first reason stays
    }
}

/// clap's own answer, to stdout or stderr: a help text, the version, what is wrong with the arguments.
pub fn answer(error: &clap::Error) -> ExitCode {
    let written = error.print();
    if error.use_stderr() {
        return Exit::Usage.into();
    }
    note(written);
    end(Ok(()))
}

/// The exit code of the whole program. What was done stays done, but whoever reads the result must not take a part for the whole.
pub fn end(outcome: Outcome) -> ExitCode {
    let lost = was_lost();
    match outcome {
        Err(failure) => report_failure(&failure),
        Ok(()) if lost => Exit::Failed.into(),
        Ok(()) => Exit::Done.into(),
    }
}

/// Whether data could not be written; says so.
pub fn was_lost() -> bool {
    if let Some(error) = LOST.get() {
        say(format_args!("error: the result could not be written to standard output\n  because: {error}"));
        hint("what the command did is done; only its result is lost");
    }
    LOST.get().is_some()
}

/// Talk, to stderr.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub fn hint(text: impl Display) {
    say(format_args!("hint: {text}"));
}

/// The chain of causes, then the hints; returns the exit code.
fn report_failure(failure: &Failure) -> ExitCode {
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
