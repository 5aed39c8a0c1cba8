// SPDX-License-Identifier: Apache-2.0
//! The terminal: data to stdout, messages and progress to stderr. The only module that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use crate::exit::{Exit, Failure, Outcome};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use lab::{Bar, Progress};
use serde::Serialize;
use serde_json::json;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a command prints its data: `-o text` or `-o json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Text,
    Json,
}

/// The first reason why data could not be written.
static LOST: OnceLock<io::Error> = OnceLock::new();
/// `--quiet`: neither messages nor progress.
static QUIET: AtomicBool = AtomicBool::new(false);
/// Whether data has been printed.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// From this call on, only data and errors are printed.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// The text without control characters: names, statements and messages of a server may hold anything, and must not speak to the terminal.
pub(crate) fn plain(text: impl Display) -> String {
    text.to_string().replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

/// Prints data to stdout. A closed pipe is the reader's choice, not an error; any other failure ends the program with an exit code, in [`end`].
pub fn data(text: impl Display) {
    SHOWN.store(true, Ordering::Relaxed);
    note(writeln!(io::stdout().lock(), "{}", plain(text)));
}

/// Prints data as JSON, with numbers rounded to significant digits.
pub fn json(value: &impl Serialize) {
    match report::pretty(value) {
        Ok(text) => data(escaped(&text)),
        Err(error) => note(Err(error.into())),
    }
}

/// Prints a value as one line of JSON at once. `false`: the same as for [`line`].
pub fn json_line(value: &impl Serialize) -> bool {
    serde_json::to_string(value).is_ok_and(|text| line(escaped(&text)))
}

/// JSON with an escape for each control character that serde_json leaves as it is (U+007F to U+009F): they stand within texts only, and keep their value.
fn escaped(json: &str) -> String {
    if !json.contains(is_left_raw) {
        return json.to_owned();
    }
    let escape = |c: char| if is_left_raw(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escape).collect()
}

fn is_left_raw(c: char) -> bool {
    ('\u{7f}'..='\u{9f}').contains(&c)
}

/// Prints a value that does not have the number of its own schema as JSON, with `schema` as the first key.
pub fn document(value: &impl Serialize) {
    json(&Document { schema: 1, value });
}

#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

/// Prints the output of `write`, piece by piece. When nobody reads the output any more, `write` gets an error, and this is no failure of the command.
///
/// # Errors
/// The errors of `write` itself; errors of the output are not among them.
pub fn stream<E>(write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), E> {
    SHOWN.store(true, Ordering::Relaxed);
    let mut output = Watched { inner: io::BufWriter::with_capacity(64 << 10, io::stdout().lock()), failed: None };
    let result = write(&mut output);
    let flushed = output.inner.flush();
    if let Some(error) = output.failed {
        note(Err(error));
        return Ok(());
    }
    note(flushed);
    result
}

/// Remembers that writing failed.
struct Watched<W> {
    inner: W,
    failed: Option<io::Error>,
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.failed.get_or_insert(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Prints one line of data at once, because further lines follow later. `false`: nobody reads the output any more, or the line could not be written.
pub fn line(text: impl Display) -> bool {
    at_once(plain(text))
}

fn at_once(text: impl Display) -> bool {
    SHOWN.store(true, Ordering::Relaxed);
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    let is_read = written.is_ok();
    note(written);
    is_read
}

/// The columns of the window, for text that wraps. `None`: standard output is no terminal, or the terminal does not tell.
pub fn columns() -> Option<usize> {
    let size = io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A picture that is drawn again and again in the same place of the terminal.
#[derive(Debug)]
pub struct Screen {
    /// The number of lines of the picture on the terminal.
    drawn: usize,
}

impl Screen {
    /// `None`: standard output is no terminal.
    pub fn of_terminal() -> Option<Self> {
        io::stdout().is_terminal().then_some(Self { drawn: 0 })
    }

    /// Draws as much of the text as the window can show. `false`: the same as for [`line`].
    pub fn draw(&mut self, text: &str) -> bool {
        let size = rustix::termios::tcgetwinsize(io::stdout());
        let (rows, columns) = size.map_or((24, 80), |size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        // a tab would be more than one column
        let shown = fitting(&plain(text).replace('\t', " "), rows, columns);
        // moves to the first line of the picture before, and clears everything from there on
        let back = if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.drawn) };
        self.drawn = shown.lines().count();
        at_once(format_args!("{back}{}", shown.trim_end_matches('\n')))
    }

    /// Keeps the picture: the next output is printed below it, and the next picture below that output.
    pub fn leave(&mut self) {
        self.drawn = 0;
    }
}

/// The lines of the text that fit; one row stays free for the cursor.
fn fitting(text: &str, rows: usize, columns: usize) -> String {
    let line = |line: &str| line.chars().take(columns.max(1)).chain(['\n']).collect::<String>();
    text.lines().take(rows.saturating_sub(1).max(1)).map(line).collect()
}

fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error); // the first reason stays
    }
}

/// Prints clap's own answer, to stdout or stderr: a help text, the version, or what is wrong with the arguments.
pub fn answer(error: &clap::Error) -> ExitCode {
    let written = error.print();
    if error.use_stderr() {
        let hint = foreign(error);
        if let Some(hint) = hint {
            tell(format_args!("\nhint: {hint}"));
        }
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        let tips = lines.filter_map(|line| line.strip_prefix("tip: "));
        let hints = hint.into_iter().chain(tips).map(str::to_owned).collect();
        show_error(Exit::Usage, message, &[], hints);
        return Exit::Usage.into();
    }
    note(written);
    end(Ok(()))
}

/// Wringer's equivalent of another tool's flag.
fn foreign(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(flag) => crate::foreign::hint(flag),
        _ => None,
    }
}

/// The exit code of the whole program. Finished changes stay, but a reader must not take part of the output for all of it.
pub fn end(outcome: Outcome) -> ExitCode {
    let lost = was_lost();
    match outcome {
        Err(failure) => report_failure(&failure),
        Ok(()) if lost => Exit::Failed.into(),
        Ok(()) => Exit::Done.into(),
    }
}

/// Whether data could not be written; prints an error then.
pub fn was_lost() -> bool {
    if let Some(error) = LOST.get() {
        tell(format_args!("error: the result could not be written to standard output\n  because: {error}"));
        tell("hint: what the command did is done; only its result is lost");
    }
    LOST.get().is_some()
}

/// Prints a message to stderr; nothing with `--quiet`.
pub fn say(text: impl Display) {
    if !is_quiet() {
        tell(text);
    }
}

/// Prints an error to stderr, also with `--quiet`.
fn tell(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

pub fn hint(text: impl Display) {
    say(format_args!("hint: {text}"));
}

/// Prints the chain of causes and the hints; returns the exit code.
fn report_failure(failure: &Failure) -> ExitCode {
    let causes: Vec<String> = failure.error.chain().map(ToString::to_string).collect();
    let (message, causes) = causes.split_first().map_or(("", [].as_slice()), |(first, rest)| (first.as_str(), rest));
    tell(format_args!("error: {message}"));
    causes.iter().for_each(|cause| tell(format_args!("  because: {cause}")));
    failure.hints.iter().for_each(|hint| tell(format_args!("hint: {hint}")));
    show_error(failure.exit, message, causes, failure.hints.clone());
    failure.exit.into()
}

/// Prints the error as JSON on stdout, if the user asked for JSON and no data were printed yet.
fn show_error(exit: Exit, message: &str, causes: &[String], hints: Vec<String>) {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    if SHOWN.load(Ordering::Relaxed) || !wants_json(arguments) {
        return;
    }
    let error = json!({"exit_code": exit as u8, "message": message, "because": causes, "hints": hints});
    let text = format!("{:#}", json!({"schema": 1, "error": error}));
    note(writeln!(io::stdout().lock(), "{}", escaped(&text)));
}

/// Whether the arguments contain `-o json`, even if they are wrong otherwise. Arguments after `--` belong to another program.
fn wants_json(arguments: impl Iterator<Item = String>) -> bool {
    let own: Vec<String> = arguments.take_while(|argument| argument != "--").collect();
    let joined = |argument: &String| ["-ojson", "-o=json", "--output=json"].contains(&argument.as_str());
    let apart = |pair: &[String]| matches!(pair[0].as_str(), "-o" | "--output") && pair[1] == "json";
    own.iter().any(joined) || own.windows(2).any(apart)
}

/// Shows a run's progress on the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Shown;

impl Progress for Shown {
    fn step(&self, station: &str, text: &str) {
        say(format_args!("{station:>8}  {text}"));
    }

    fn bar(&self, what: &str, length: Option<u64>) -> Box<dyn Bar> {
        Box::new(ShownBar(length.map_or_else(|| spinner(what), |length| bar(length, what))))
    }
}

/// A bar of progress; it is removed from the terminal when it is dropped.
struct ShownBar(ProgressBar);

impl Bar for ShownBar {
    fn set_message(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn set_length(&self, length: u64) {
        self.0.set_length(length);
    }

    fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    fn restart(&self) {
        self.0.reset();
    }
}

impl Drop for ShownBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A progress bar with a known end. Hidden by itself when stderr is not a terminal.
pub fn bar(length: u64, what: &str) -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg:<28} [{bar:32}] {percent:>3}%  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar.set_message(what.to_owned());
    bar
}

/// A spinner for work without a known end.
pub fn spinner(what: &str) -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner();
    spinner.set_message(what.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

#[cfg(test)]
mod tests {
    use super::{escaped, fitting, plain};

    #[test]
    fn json_keeps_every_character_of_a_value() {
        let text = escaped(&serde_json::to_string("a\x1b\u{9b}\u{7f}ä").unwrap());
        assert_eq!(text, "\"a\\u001b\\u009b\\u007fä\"");
        assert_eq!(serde_json::from_str::<String>(&plain(text)).unwrap(), "a\x1b\u{9b}\u{7f}ä");
    }

    #[test]
    fn a_message_of_a_server_does_not_speak_to_the_terminal() {
        assert_eq!(plain("a\x1b]0;x\x07\tb\r\nc\u{9b}"), "a\u{fffd}]0;x\u{fffd}\tb\u{fffd}\nc\u{fffd}");
    }

    #[test]
    fn a_picture_is_no_larger_than_the_window() {
        assert_eq!(fitting("abc\nä█c\nd", 3, 2), "ab\nä█\n");
        assert_eq!(fitting("abc\n\nd", 9, 9), "abc\n\nd\n");
        assert_eq!(fitting("abc\nd", 0, 0), "a\n", "a window without a size");
    }
}
