// SPDX-License-Identifier: Apache-2.0
//! Reads an experiment file for the commands that take one, and finds the files, programs and data that it names, before anything is made.

pub mod assertions;
pub mod disks;
pub mod own_data;
pub mod programs;
pub mod replays;
pub mod workloads;

use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use experiment::{Experiment, Problem, Squeezed};
use lab::problems;
use std::path::Path;

/// The squeezes that a run must not leave out: a flag of `run`, `plan` and `doctor`.
#[derive(Debug, clap::Args)]
pub struct Require {
    /// Exit code 3 if this user may not make this squeeze: ram, server_ram. Without this flag a run leaves the squeeze out. May be given several times;
    /// in the file: squeeze.required = true
    #[arg(long = "require", value_name = "SQUEEZE")]
    squeezes: Vec<Squeezed>,
}

impl Require {
    /// # Errors
    /// Exit code 2: no arm asks for such a squeeze.
    pub fn of(&self, experiment: &mut Experiment) -> Outcome {
        experiment.require(&self.squeezes).map_err(|nowhere| {
            Failure::message(
                Exit::Usage,
                format!("--require {nowhere}: no arm of the experiment asks for squeeze.{nowhere}"),
            )
            .hint("`wringer doc experiment` lists the keys of such a file")
        })
    }
}

/// The text of an experiment file, and its content. `-` is standard input.
///
/// # Errors
/// Exit code 3 when the file cannot be read; exit code 2, with every problem and its place, when it is wrong.
pub fn read(file: &Path) -> Result<(String, Experiment), Failure> {
    let text = read_text(file)?;
    let experiment = of_text(file, &text)?;
    Ok((text, experiment))
}

/// The content of a text that was read from this file.
///
/// # Errors
/// Exit code 2, with every problem and its place.
pub fn of_text(file: &Path, text: &str) -> Result<Experiment, Failure> {
    Experiment::parse(text).map_err(|problems| refused(file, text, &problems))
}

/// The same as [`read`], but only the text.
///
/// # Errors
/// Exit code 3: it cannot be read.
pub fn read_text(file: &Path) -> Result<String, Failure> {
    let text = match file.to_str() {
        Some("-") => input::read_stdin().and_then(|bytes| Ok(String::from_utf8(bytes)?)),
        _ => input::read(file),
    };
    text.map_err(|error| {
        Failure::new(input::exit_of(&error), error)
            .hint("`wringer examples` has ready files; `wringer doc experiment` lists the keys")
    })
}

/// Fails for a wrong experiment file, with every problem, each of them once.
///
/// # Errors
/// Exit code 2: there is a problem.
fn refuse_any(file: &Path, text: &str, mut problems: Vec<Problem>) -> Outcome {
    problems.sort();
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(refused(file, text, &problems)) }
}

/// The failure for a wrong experiment file, with every problem.
pub fn refused(file: &Path, text: &str, problems: &[Problem]) -> Failure {
    problems::refused(file, text, problems, "an experiment that can be run", "`wringer doc experiment`").into()
}
