// SPDX-License-Identifier: Apache-2.0
//! What the tests of this folder ask of a wrong line in an experiment file.

use crate::{Experiment, Problem};

/// With `to` in the place of `from`, the file `good` is refused. Each problem is in this line, and its message and its suggestion have these words.
#[track_caller]
pub(super) fn refused(good: &str, from: &str, to: &str, line: usize, words: [&str; 2]) {
    assert!(good.contains(from), "{from}");
    let found = Experiment::parse(&good.replacen(from, to, 1)).unwrap_err();
    let told = |problem: &Problem| {
        let suggestion = problem.suggestion.clone().unwrap_or_default();
        problem.line == line && problem.message.contains(words[0]) && suggestion.contains(words[1])
    };
    assert!(found.iter().all(told), "{to}: {found:#?}");
}
