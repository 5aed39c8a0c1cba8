// SPDX-License-Identifier: Apache-2.0
//! The problems of a file that a person wrote: each with its line number, the line itself, and what to write instead.

use crate::error::Error;
use experiment::Problem;
use std::fmt::Write as _;
use std::path::Path;

/// `what` ends the sentence "FILE is not ..."; `keys` names the page that lists the keys.
pub fn refused(file: &Path, text: &str, problems: &[Problem], what: &str, keys: &str) -> Error {
    let mut message = match problems.len() {
        1 => format!("{} is not {what}", file.display()),
        count => format!("{} is not {what}: {count} problems", file.display()),
    };
    for problem in problems {
        let line = text.lines().nth(problem.line - 1).unwrap_or_default();
        let _ = write!(message, "\n\n{}:{}:{}: {}", file.display(), problem.line, problem.column, problem.message);
        let _ = write!(message, "\n  {:>4} | {line}", problem.line);
        let _ = write!(message, "\n       | {}^", " ".repeat(problem.column - 1));
        if let Some(suggestion) = &problem.suggestion {
            let _ = write!(message, " {suggestion}");
        }
    }
    Error::File { message, hint: format!("{keys} lists the keys; nothing was changed") }
}
