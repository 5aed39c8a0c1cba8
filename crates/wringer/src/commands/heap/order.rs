// SPDX-License-Identifier: Apache-2.0
//! The order of files with numbers in their names: `p.9.heap` is before `p.10.heap`.

use std::path::Path;

/// The parts of the name: words, each with the number after it.
pub(super) fn by_numbers(path: &Path) -> Vec<(String, u128)> {
    let name = path.to_string_lossy();
    let mut parts = Vec::new();
    let mut rest: &str = &name;
    while !rest.is_empty() {
        let word = rest.find(|it: char| it.is_ascii_digit()).unwrap_or(rest.len());
        let (before, behind) = rest.split_at(word);
        let digits = behind.find(|it: char| !it.is_ascii_digit()).unwrap_or(behind.len());
        let (number, behind) = behind.split_at(digits);
        parts.push((before.to_owned(), number.parse().unwrap_or(u128::MAX)));
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = ["je.7.10.i10.heap", "je.7.9.i9.heap", "je.7.1.m1.heap", "a/1", "a/b"];
        names.sort_by_cached_key(|it| by_numbers(Path::new(it)));
        assert_eq!(names, ["a/1", "a/b", "je.7.1.m1.heap", "je.7.9.i9.heap", "je.7.10.i10.heap"]);
    }
}
