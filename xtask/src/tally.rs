// SPDX-License-Identifier: Apache-2.0
//! Counts the results that the test harness prints. The harness counts a test that skipped itself as passed; this module does not.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    pub(crate) skips: BTreeSet<Skip>,
    /// Whether cargo itself reported success.
    pub(crate) succeeded: bool,
}

/// A test that could not run on this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    pub(crate) place: String,
    pub(crate) why: String,
}

impl Tally {
    /// Counts the results of one line of output.
    pub(crate) fn count(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = counts.split(word).next().unwrap_or_default();
                before.rsplit([' ', ';']).find_map(|token| token.parse::<usize>().ok()).unwrap_or(0)
            };
            self.passed += number(" passed");
            self.failed += number(" failed");
            self.ignored += number(" ignored");
        }
    }

    /// `refused` skips count as failures.
    pub(crate) fn closing_line(&self, refused: usize) -> String {
        let skipped = self.skips.len();
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed.saturating_sub(skipped),
            self.failed + refused,
            skipped - refused + self.ignored
        )
    }
}

impl Skip {
    /// `place TAB why`, as `testkit::skip!` writes it.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (place, why) = line.split_once('\t')?;
        Some(Self { place: place.to_owned(), why: why.to_owned() })
    }

    /// Whether the list allows this skip. Each line of the list is the beginning of a reason that tests print; `#` starts a comment.
    pub(crate) fn is_allowed(&self, list: &str) -> bool {
        let reasons = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        reasons.into_iter().any(|reason| self.why.starts_with(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up_and_skips_are_not_passes() {
        let mut tally = Tally::default();
        tally.count("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s");
        tally.count(
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        );
        tally.count("test something ... ok");
        tally.skips.insert(Skip { place: "a:1".into(), why: "no root".into() });
        assert_eq!(tally.closing_line(0), "16 passed, 3 failed, 2 skipped");
        assert_eq!(tally.closing_line(1), "16 passed, 4 failed, 1 skipped");
    }

    #[test]
    fn only_listed_reasons_are_allowed() {
        let list = "# comment\nneeds root\n";
        let skip = |why: &str| Skip::parse(&format!("m:1\t{why}")).unwrap();
        assert!(skip("needs root: /dev/fuse is closed").is_allowed(list));
        assert!(!skip("felt like it").is_allowed(list));
        assert!(!skip("# comment").is_allowed(list));
    }
}
