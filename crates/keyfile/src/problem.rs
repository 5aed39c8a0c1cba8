// SPDX-License-Identifier: Apache-2.0
//! Problems with their places. They are gathered, and reading continues after each: a reader wants to know all of them at once.

use serde::Serialize;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// One thing that is wrong in an experiment file, or that prevents the experiment on this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    pub message: String,
    /// The text to write instead.
    pub suggestion: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; {suggestion}"),
            None => Ok(()),
        }
    }
}

/// Gathers the problems of one text.
pub struct Problems {
    /// Byte offset at which each line starts.
    lines: Vec<usize>,
    text: String,
    found: RefCell<Vec<Problem>>,
    hint: Hint,
}

/// The text to write instead of a key of this section, when the key is a word of another tool.
pub type Hint = fn(section: &str, key: &str) -> Option<&'static str>;

impl Problems {
    pub fn of(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { lines, text: text.to_owned(), found: RefCell::default(), hint: |_, _| None }
    }

    /// Sets `hint`, which is asked first for the suggestion when a key is unknown.
    #[must_use]
    pub fn with_hints(self, hint: Hint) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn hint(&self, section: &str, key: &str) -> Option<String> {
        (self.hint)(section, key).map(str::to_owned)
    }

    pub fn add(&self, at: &Range<usize>, message: impl Into<String>, suggestion: Option<String>) {
        let (line, column) = self.place(at);
        self.found.borrow_mut().push(Problem { line, column, message: message.into(), suggestion });
    }

    /// Line and column of the start of `at`, both counted from 1.
    pub fn place(&self, at: &Range<usize>) -> (usize, usize) {
        let offset = at.start.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= offset);
        let before = self.text.get(self.lines[line - 1]..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// The problems in the order of the text. A section that several arms share is read once for each arm, so each of its problems is found several
    /// times.
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        found.sort();
        found.dedup();
        found
    }

    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }
}

/// `did you mean "x"?` when one word of `valid` is near to the written word, else the list of all valid words.
pub fn suggest(written: &str, valid: &[&str]) -> Option<String> {
    let distance = |word: &&&str| edit_distance(written, word);
    let near = valid.iter().min_by_key(distance).filter(|word| edit_distance(written, word) <= allowed(word));
    match near {
        Some(word) => Some(format!("did you mean \"{word}\"?")),
        None if valid.is_empty() => None,
        None => Some(format!("valid here: {}", valid.join(", "))),
    }
}

/// The number of slips that are allowed in a word: one in three characters, and at most three.
fn allowed(word: &str) -> usize {
    (word.chars().count().div_ceil(3)).min(3)
}

/// The distance by optimal string alignment: letters are inserted, deleted, replaced, or swapped with their neighbours. `-` and `_` are the same
/// letter, and so are upper and lower case.
fn edit_distance(left: &str, right: &str) -> usize {
    let letters = |text: &str| -> Vec<char> { text.to_lowercase().replace('-', "_").chars().collect() };
    let (left, right) = (letters(left), letters(right));
    let mut table = vec![vec![0usize; right.len() + 1]; left.len() + 1];
    for (i, row) in table.iter_mut().enumerate() {
        row[0] = i;
    }
    table[0] = (0..=right.len()).collect();
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let replaced = table[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(table[i - 2][j - 2] + 1);
            }
            table[i][j] = best;
        }
    }
    table[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_slips() {
        for (left, right, slips) in [("", "abc", 3), ("thraeds", "threads", 1), ("a-b", "a_b", 0), ("time", "rate", 3)]
        {
            assert_eq!(edit_distance(left, right), slips, "{left} {right}");
        }
    }

    #[test]
    fn near_words_are_offered_and_far_ones_listed() {
        assert_eq!(suggest("treads", &["threads", "time"]).unwrap(), "did you mean \"threads\"?");
        assert_eq!(suggest("colour", &["threads", "time"]).unwrap(), "valid here: threads, time");
    }

    #[test]
    fn columns_count_characters() {
        let problems = Problems::of("a = 1\né = \"é\" x\n");
        let at = "a = 1\né = \"é\" ".len();
        assert_eq!(problems.place(&(at..at + 1)), (2, 9));
        assert_eq!(problems.place(&(0..1)), (1, 1));
        assert_eq!(problems.place(&(999..999)).0, 3);
    }
}
